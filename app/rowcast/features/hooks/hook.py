"""A hook: the operator's code at named points of a message's way, on every door alike.

Here are its base class, the names of its points and the words it may answer with; ``hooks.py``
calls it. A hook knows callers, topics and events; it knows no protocol and no store.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event, Record
from rowcast.subscriptions.subscribed_filters import SubscribedFilter

POINTS: Final = (
    "on_connect",
    "on_connected",
    "on_disconnect",
    "on_subscribe",
    "on_publish",
    "can_read",
    "on_publish_received",
    "on_publish_deliver",
    "on_session_created",
    "on_session_resumed",
    "on_session_ended",
    "store_retained",
    "get_retained",
)
"""The methods of a hook that are called on a message's way (G2-G10)."""

PLAIN: Final = frozenset({"can_read", "on_publish_deliver"})
"""Points that do not wait: they come for each message and each of its readers."""


class Drop:
    """The type of DROP: the message goes no further, and its writer is told that all is well."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "DROP"


DROP: Final = Drop()

_CODES: Final[Mapping[int, Code]] = {
    0x84: Code.UNSUPPORTED,
    0x86: Code.UNAUTHENTICATED,
    0x88: Code.BUSY,
    0x89: Code.BUSY,
    0x8C: Code.UNAUTHENTICATED,
    0x95: Code.TOO_LARGE,
    0x97: Code.BUSY,
    0x9F: Code.BUSY,
}
"""MQTT 5 reasons in the words of the other doors; any other is DENIED."""


class Refusal(Error):  # noqa: N818 - its base says what it is
    """A refusal with the MQTT 5 reason that a hook chose for it (G2)."""

    def __init__(self, reason: int, message: str, **detail: object) -> None:
        super().__init__(_CODES.get(reason, Code.DENIED), message, **detail)
        self.reason = reason


class Hook:
    """Extend it and override the points that you want to hear of; the others cost nothing.

    A method may be ``async`` but for those in PLAIN. To refuse, raise an Error, or a Refusal with
    the MQTT reason of your choice. A mistake refuses too where the point authorises or transforms.
    """

    id: ClassVar[str] = ""
    """Its name in the log and in the figures; empty for the name of the class."""

    def init(self, options: Mapping[str, object]) -> object:
        """Begin: the server starts. What is raised stops the start."""

    def stop(self) -> object:
        """End: the server stops."""

    def provides(self, point: str) -> bool:
        """Tell whether it wants to be called at a point; it does where it overrides the method."""
        return getattr(type(self), point) is not getattr(Hook, point)

    # -- connections: the first that refuses ends it; the rest are told and cannot refuse ----------

    def on_connect(self, caller: Caller, packet: object) -> object:
        """Refuse a connection by raising; ``packet`` is the CONNECT, None but for MQTT."""

    def on_connected(self, caller: Caller) -> object:
        """Hear that a connection was accepted."""

    def on_disconnect(self, caller: Caller, error: str | None) -> object:
        """Hear that a connection ended; ``error`` says why when it was not the client's wish."""

    def on_session_created(self, caller: Caller) -> object:
        """Hear that a new session began."""

    def on_session_resumed(self, caller: Caller) -> object:
        """Hear that a client came back to its session."""

    def on_session_ended(self, client_id: str) -> object:
        """Hear that a session is over and forgotten."""

    # -- writes: may it, then what becomes of it ---------------------------------------------------

    def on_publish(self, caller: Caller, event: Event) -> object:
        """Refuse a write by raising."""

    def on_publish_received(self, caller: Caller, event: Event) -> object:
        """Return the event to write instead, DROP, or None to leave it as it is."""

    # -- reads: all must agree, then what becomes of it --------------------------------------------

    def on_subscribe(self, caller: Caller, interest: SubscribedFilter) -> object:
        """Refuse a filter by raising; return an Interest to begin instead, or None."""

    def can_read(self, caller: Caller, topic: str) -> object:  # noqa: ARG002
        """Tell whether the caller may be given what is at a topic."""
        return True

    def on_publish_deliver(self, caller: Caller, event: Event) -> object:
        """Return the event to send to this one reader instead, DROP, or None."""

    # -- retained values: the first that takes it has it -------------------------------------------

    def store_retained(self, topic: str, event: Event) -> object:
        """Return True to have kept a retained value, or its deletion, of an undeclared topic."""

    def get_retained(self, text: str) -> Sequence[Record] | object | None:
        """Return the values that it keeps of what the filter ``text`` selects, or None."""
