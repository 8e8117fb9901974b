"""The interface of an in-process client for hooks, which store it until the kernel exists."""

from collections.abc import Callable
from typing import Protocol

from rowcast.core.events import Event


class Bindable(Protocol):
    """An in-process client, usable once bound to the kernel."""

    on_write: Callable[[Event], object] | None
    """Called with an event about to be written."""

    @property
    def bind(self) -> Callable[..., object]:
        """The function that sets its kernel."""
