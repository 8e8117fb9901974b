"""The feature: a write may bring its version, and then be later than what is there (E26)."""

from rowcast.features.late_writes.write_version import late_write_step
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel
from rowcast.kernel.last_write_wins import ORIGIN


class LateWrites(Feature):
    """The decision about writes that bring a version and an origin."""

    def install(self, kernel: Kernel) -> None:
        """Look at each write that has an origin."""
        kernel.steps.on_property(ORIGIN, late_write_step(kernel.now))
