"""Listeners: notifications of client events, administration and refusals.

Doors and the kernel notify; features that record events add themselves to the lists. Without
listeners, a notification costs a call and a check of an empty list.
"""

from typing import Protocol

from rowcast.core.callers import Caller
from rowcast.core.errors import UNFIT, Error
from rowcast.core.events import Event


class ClientListener(Protocol):
    """Listener for client events of every door (O6)."""

    def __call__(self, what: str, caller: Caller, /, **facts: object) -> None:
        """Called with the event."""


class ServerListener(Protocol):
    """Listener for events of the server itself."""

    def __call__(self, what: str, facts: dict[str, object], /) -> None:
        """Called with the event."""


class RefusalListener(Protocol):
    """Listener for refusals (L9, L15)."""

    def __call__(self, caller: Caller, action: str, topic: str, code: str, reason: str, /) -> None:
        """Called with the event."""


class AdministrationListener(Protocol):
    """Listener for administrative writes below ``$SYS`` (L15)."""

    def __call__(
        self, caller: Caller, action: str, topic: str, value: object, error: Error | None, /
    ) -> None:
        """Called with the write; ``error`` if it was refused."""


class MqttListener(Protocol):
    """Listener for events of MQTT, called on the loop in the same turn."""

    def on_connect(self, client_id: str) -> None:
        """Called when a client has connected."""

    def on_disconnect(self, client_id: str) -> None:
        """Called when a client has disconnected."""

    def on_subscribe(self, client_id: str, topics: str) -> None:
        """Called with a new filter; a shared one with its prefix."""

    def on_unsubscribe(self, client_id: str, topics: str) -> None:
        """Called when a filter was removed, maybe with its session."""

    def changed(self) -> None:
        """Called on other changes, such as the end of a session."""

    def traffic(self) -> None:
        """Called when there was traffic since the last report."""


class Listeners:
    """The listeners of one server; the server's own actions are not reported."""

    def __init__(self) -> None:
        self.clients: list[ClientListener] = []
        self.mqtt: list[MqttListener] = []
        self.server: list[ServerListener] = []
        self.administration: list[AdministrationListener] = []
        self.refusals: list[RefusalListener] = []

    def notify(self, what: str, caller: Caller, **facts: object) -> None:
        """Notify of a client event."""
        for listener in self.clients:
            listener(what, caller, **facts)

    def notify_server(self, what: str, facts: dict[str, object]) -> None:
        """Notify of a server event."""
        for listener in self.server:
            listener(what, facts)

    def administered(
        self, caller: Caller, action: str, topic: str, value: object, error: Error | None
    ) -> None:
        """Notify of an administrative write below ``$SYS``, or its refusal."""
        if topic.startswith("$SYS/") and caller.door != "server":
            for listener in self.administration:
                listener(caller, action, topic, value, error)

    def refused(self, caller: Caller, action: str, topic: str, error: Error) -> None:
        """Notify of a refusal."""
        if caller.door != "server":
            for listener in self.refusals:
                listener(caller, action, topic, str(error.code), error.message)

    def unfit(self, caller: Caller, event: Event, error: Error) -> None:
        """Notify of a write with invalid content, because its writer may get no error (P5).

        Before MQTT 5 there is no reason code, and with QoS 0 no answer.
        """
        if error.code in UNFIT:
            self.refused(caller, "write", event.topic, error)
