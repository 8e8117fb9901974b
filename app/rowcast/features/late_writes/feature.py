"""The feature: a write may have its own version, and lose against a newer one (E26)."""

from rowcast.core.write_marks import ORIGIN
from rowcast.features.late_writes.write_version import late_write_step
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class LateWrites(Feature):
    """Decides writes with a version and an origin."""

    def install(self, kernel: Kernel) -> None:
        """Add the step of writes with an origin."""
        kernel.steps.on_property(ORIGIN, late_write_step(kernel.now))
