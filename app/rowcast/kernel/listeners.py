"""Listeners: who hears what happens to clients, what is administered and what is refused.

Doors and the kernel tell it here; features that write it down add themselves to the lists. With no
listener, telling costs a call and a look at an empty list.
"""

from typing import Protocol

from rowcast.core.callers import Caller
from rowcast.core.errors import UNFIT, Error
from rowcast.core.events import Event


class ClientListener(Protocol):
    """Hears what happens to clients, on every door (O6)."""

    def __call__(self, what: str, caller: Caller, /, **facts: object) -> None:
        """Hear it."""


class ServerListener(Protocol):
    """Hears what happens to the server itself."""

    def __call__(self, what: str, facts: dict[str, object], /) -> None:
        """Hear it."""


class RefusalListener(Protocol):
    """Hears who was refused what (L9, L15)."""

    def __call__(self, caller: Caller, action: str, topic: str, code: str, reason: str, /) -> None:
        """Hear it."""


class AdministrationListener(Protocol):
    """Hears what was written below ``$SYS`` (L15)."""

    def __call__(
        self, caller: Caller, action: str, topic: str, value: object, error: Error | None, /
    ) -> None:
        """Hear it; ``error`` is why it was refused."""


class MqttListener(Protocol):
    """Hears what happens at the MQTT door, on the loop, within the turn in which it does."""

    def on_connect(self, client_id: str) -> None:
        """Hear that a client was let in."""

    def on_disconnect(self, client_id: str) -> None:
        """Hear that it is gone."""

    def on_subscribe(self, client_id: str, topics: str) -> None:
        """Hear of a new filter; of a shared one as it was asked for."""

    def on_unsubscribe(self, client_id: str, topics: str) -> None:
        """Hear that a filter has ended, maybe with its session."""

    def changed(self) -> None:
        """Hear that something else has changed: a session has ended, say."""

    def traffic(self) -> None:
        """Hear that there was traffic since the last look at it."""


class Listeners:
    """The listeners of one server; what the server itself does is told to none of them."""

    def __init__(self) -> None:
        self.clients: list[ClientListener] = []
        self.mqtt: list[MqttListener] = []
        self.server: list[ServerListener] = []
        self.administration: list[AdministrationListener] = []
        self.refusals: list[RefusalListener] = []

    def tell(self, what: str, caller: Caller, **facts: object) -> None:
        """Tell what happened to a client."""
        for listener in self.clients:
            listener(what, caller, **facts)

    def tell_of_server(self, what: str, facts: dict[str, object]) -> None:
        """Tell what happened to the server."""
        for listener in self.server:
            listener(what, facts)

    def administered(
        self, caller: Caller, action: str, topic: str, value: object, error: Error | None
    ) -> None:
        """Tell what somebody did, or was not let do, below ``$SYS``."""
        if topic.startswith("$SYS/") and caller.door != "server":
            for listener in self.administration:
                listener(caller, action, topic, value, error)

    def refused(self, caller: Caller, action: str, topic: str, error: Error) -> None:
        """Tell that somebody may not do something."""
        if caller.door != "server":
            for listener in self.refusals:
                listener(caller, action, topic, str(error.code), error.message)

    def unfit(self, caller: Caller, event: Event, error: Error) -> None:
        """Tell that a write is not taken for what it is: its writer may not be told (P5).

        Before MQTT 5 there is no word for it, and with QoS 0 no answer.
        """
        if error.code in UNFIT:
            self.refused(caller, "write", event.topic, error)
