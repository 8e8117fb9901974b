"""Wills: the message published when a client is lost (MQTT 5, 3.1.2.5).

A will is on disk with its session before CONNACK, and removed in the same transaction that
publishes it: a killed server publishes it after its restart, and not twice. It is published after
its delay, at the latest with the end of the session (MQTT 5, 3.1.3.2.2), and not at all when the
client returns in time (MQTT-3.1.3-9).

Publishing may take time, because of a full disk or a slow hook. Meanwhile the client may have
returned with another will, or its session may have ended. So each will has a number and is a
separate fact, with the owner ``will/<client id>``; the session on disk has the number of its
pending will, and any other will found at start is due.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from rowcast.codecs import CBOR, encode
from rowcast.core.callers import Caller, caller_facts, caller_of
from rowcast.core.errors import Code, Error
from rowcast.core.limits import WILL_RETRY_SECONDS
from rowcast.doors.mqtt.packets.messages import DOOR, event_of_will
from rowcast.kernel.kernel import Kernel
from rowcast.mqtt.packets import Will
from rowcast.store.store import Change
from rowcast.writes.write import FireAndForget, Outcome

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from rowcast.doors.mqtt.sessions.session import Session

WILLS = "will/"
"""The prefix of owners of wills."""


class DueWill(NamedTuple):
    """A will to publish, independent of its session."""

    client_id: str
    number: int
    will: Will
    caller: Caller


class Wills:
    """Numbers, publishes and drops wills.

    ``refused`` hears of each that is not taken for what it is: its client cannot be told.
    """

    def __init__(
        self, kernel: Kernel, loop: "AbstractEventLoop", refused: Callable[[Error], None]
    ) -> None:
        self._kernel = kernel
        self._loop = loop
        self.refused = FireAndForget(refused)
        self.last = 0
        """The number of the last will."""
        self.sent = 0
        """How many were published, of clients that were lost."""
        self.stopping = False
        """Whether nothing is tried again, because the server goes down."""

    def put(self, session: "Session", will: Will, caller: Caller) -> Change:
        """Set the number of a session's will; return the change that stores it."""
        self.last = session.will_number = self.last + 1
        value = encode(_facts(will, caller), CBOR)
        return Change(WILLS + session.client_id, str(self.last), value)

    def arm(self, session: "Session", seconds: float) -> None:
        """Publish the will after a delay; at once if it is 0.

        A server that goes down leaves one with a delay to the next run, of whichever node.
        """
        if session.will is None:
            return
        if seconds <= 0:
            self.publish(session)
        elif not self.stopping:
            session.will_timer = self._loop.call_later(seconds, self.publish, session)

    def publish(self, session: "Session") -> None:
        """Publish the will of a session now, once (MQTT-3.1.2-8, MQTT-3.1.2-10)."""
        disarm(session)
        will, caller, number = session.will, session.will_caller, session.will_number
        session.will, session.will_caller, session.will_number = None, None, 0
        if will is not None and caller is not None:
            self.publish_due(DueWill(session.client_id, number, will, caller))

    def publish_due(self, due: DueWill) -> None:
        """Publish a will now."""
        self.sent += 1
        self._submit(due)

    def _submit(self, due: DueWill) -> None:
        """Publish a will; if the disk refuses, again soon: it is due, whoever comes back."""
        gone = _removal(due.client_id, due.number)

        def done(outcome: Outcome) -> None:
            if not isinstance(outcome, Error):
                return
            if outcome.code is not Code.BUSY:
                self.refused(outcome)
                self.drop(gone)
            elif not self.stopping:
                self._loop.call_later(WILL_RETRY_SECONDS, self._submit, due)

        event = event_of_will(due.will, due.client_id)
        try:
            caller = self._kernel.reauthorization.writer(due.caller)
        except Error as error:  # disabled or removed while the will was pending
            self._kernel.listeners.refused(due.caller, "write", event.topic, error)
            done(error)
            return
        self._kernel.submit(event, caller, done, None, (gone,))

    def drop(self, *changes: Change) -> None:
        """Remove wills of sessions that are no longer saved; retries soon on failure."""
        gone = [item for item in changes if item.value is None and item.owner.startswith(WILLS)]

        def ended(error: Error | None) -> None:
            if error is not None and not self.stopping:
                self._loop.call_later(WILL_RETRY_SECONDS, self.drop, *gone)

        if gone:
            self._kernel.committer.keep(gone, ended)


def will_delay(session: "Session") -> float:
    """Return the delay of a session's will in seconds."""
    if session.will is None:
        return 0.0
    delay = (session.will.properties or {}).get("will_delay_interval", 0)
    return min(delay if isinstance(delay, int) else 0, session.expiry_seconds)


def disarm(session: "Session") -> None:
    """Cancel the timer: the client has returned, or the will is published."""
    if session.will_timer is not None:
        session.will_timer.cancel()
        session.will_timer = None


def forget(session: "Session") -> None:
    """Discard the will: normal disconnect (MQTT-3.14.4-3), or return in time."""
    disarm(session)
    if session.will is not None:
        session.unsaved.append(_removal(session.client_id, session.will_number))
        session.will, session.will_caller, session.will_number = None, None, 0


# -- on disk ---------------------------------------------------------------------------------------


def _removal(client_id: str, number: int) -> Change:
    return Change(WILLS + client_id, str(number), None)


def wanted(session: "Session", changes: Iterable[Change]) -> list[Change]:
    """Return changes without wills that were published or discarded meanwhile."""
    now = str(session.will_number)
    return [
        item
        for item in changes
        if item.value is None or item.name == now or not item.owner.startswith(WILLS)
    ]


def _facts(will: Will, caller: Caller) -> dict[str, object]:
    properties = dict(will.properties or {})
    if "user_property" in properties:
        pairs: Any = properties["user_property"]
        properties["user_property"] = [list(pair) for pair in pairs]
    return {
        "topic": will.topic,
        "payload": will.payload,
        "qos": will.qos,
        "retain": will.retain,
        "properties": properties or None,
        **caller_facts(caller),
    }


def restored(client_id: str, number: int, facts: dict[str, Any]) -> DueWill:
    """Restore a will from its fact."""
    properties = facts["properties"]
    if properties and "user_property" in properties:
        properties["user_property"] = tuple(map(tuple, properties["user_property"]))
    will = Will(facts["topic"], facts["payload"], facts["qos"], facts["retain"], properties)
    return DueWill(client_id, number, will, caller_of(facts, DOOR, client_id))
