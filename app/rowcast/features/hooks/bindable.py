"""The interface of an in-process client for hooks, which store it until the kernel exists."""

from collections.abc import Callable
from typing import Protocol


class Bindable(Protocol):
    """An in-process client, usable once bound to the kernel."""

    @property
    def bind(self) -> Callable[..., object]:
        """The function that sets its kernel."""
