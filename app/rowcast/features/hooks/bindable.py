"""A client inside the process, as hooks know it: they keep it until there is a kernel."""

from collections.abc import Callable
from typing import Protocol

from rowcast.core.events import Event


class Bindable(Protocol):
    """A client inside the process, which begins to work when there is a kernel."""

    on_write: Callable[[Event], object] | None
    """Told of an event that is about to be written."""

    @property
    def bind(self) -> Callable[..., object]:
        """What gives it the kernel that it works on."""
