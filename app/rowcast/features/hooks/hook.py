"""A hook: user code at named points of the message flow, on every door.

This module has its base class, the names of its points and its possible results; ``hooks.py`` calls
it. A hook sees callers, topics and events; it knows no protocol and no store.
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
"""The methods of a hook (G2-G10)."""

PLAIN: Final = frozenset({"can_read", "on_publish_deliver"})
"""Points that must be synchronous: called for each message and reader."""


class Drop:
    """The type of DROP: discard the message, and report success to its writer."""

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
"""Error codes of MQTT 5 reasons; any other is DENIED."""


class Refusal(Error):  # noqa: N818 - its base says what it is
    """A refusal with the MQTT 5 reason that a hook chose for it (G2)."""

    def __init__(self, reason: int, message: str, **detail: object) -> None:
        super().__init__(_CODES.get(reason, Code.DENIED), message, **detail)
        self.reason = reason


class Hook:
    """Extend it and override points; the others cost nothing.

    A method may be ``async``, except those in PLAIN. To refuse, raise an Error, or a Refusal with
    an MQTT reason. Other exceptions refuse, too, at points that authorise or transform.
    """

    id: ClassVar[str] = ""
    """Its name in logs and statistics; empty for the name of the class."""

    def init(self, options: Mapping[str, object]) -> object:
        """Called at start; an exception aborts the start."""

    def stop(self) -> object:
        """Called at shutdown."""

    def provides(self, point: str) -> bool:
        """Whether it is called at a point: if it overrides the method."""
        return getattr(type(self), point) is not getattr(Hook, point)

    # -- connections: the first that refuses ends it; the rest are told and cannot refuse ----------

    def on_connect(self, caller: Caller, packet: object) -> object:
        """Refuse a connection by raising; ``packet`` is the CONNECT, None but for MQTT."""

    def on_connected(self, caller: Caller) -> object:
        """Called when a connection was accepted."""

    def on_disconnect(self, caller: Caller, error: str | None) -> object:
        """Called when a connection closed; ``error`` is the reason unless the client closed it."""

    def on_session_created(self, caller: Caller) -> object:
        """Called when a session was created."""

    def on_session_resumed(self, caller: Caller) -> object:
        """Called when a session was resumed."""

    def on_session_ended(self, client_id: str) -> object:
        """Called when a session was deleted."""

    # -- writes: authorise, then transform ---------------------------------------------------------

    def on_publish(self, caller: Caller, event: Event) -> object:
        """Refuse a write by raising."""

    def on_publish_received(self, caller: Caller, event: Event) -> object:
        """Return the event to write instead, DROP, or None to leave it unchanged."""

    # -- reads: all must allow, then transform -----------------------------------------------------

    def on_subscribe(self, caller: Caller, interest: SubscribedFilter) -> object:
        """Refuse a filter by raising; return an Interest to use instead, or None."""

    def can_read(self, caller: Caller, topic: str) -> object:  # noqa: ARG002
        """Whether the caller may read a topic."""
        return True

    def on_publish_deliver(self, caller: Caller, event: Event) -> object:
        """Return the event to send to this reader instead, DROP, or None."""

    # -- retained values: the first that handles it wins -------------------------------------------

    def store_retained(self, topic: str, event: Event) -> object:
        """Return True after storing a retained value, or its deletion, of an undeclared topic."""

    def get_retained(self, text: str) -> Sequence[Record] | object | None:
        """Return its values that match the filter ``text``, or None."""
