"""The counters of one server: changed at once, on the loop, by those to whom something happens.

Nine methods count what happens to clients (F17), and everything under ``$SYS/broker`` is read from
here. They count in memory alone: whether the disk takes what is told of them changes nothing here
(F23). What others count already, such as sessions and traffic, is asked for when somebody looks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import floor

from rowcast.core.clock import WallClock
from rowcast.core.topics import QUEUE_PREFIX, SHARE_PREFIX
from rowcast.features.metrics.loads import Loads
from rowcast.kernel.process_memory import ProcessMemory


@dataclass(slots=True)
class Wire:
    """What passed over MQTT connections since the server started."""

    bytes_received: int = 0
    bytes_sent: int = 0
    packets_received: int = 0
    packets_sent: int = 0
    connections: int = 0
    """Connections that were let in."""
    connects: int = 0
    """CONNECT packets."""


@dataclass(slots=True)
class Holding:
    """What the server has now."""

    sessions: int = 0
    """Those of clients that are connected, and of others."""
    sessions_expired: int = 0
    """How many ended because their client stayed away for too long."""
    dropped: int = 0
    """Messages that did not fit into the queue of a reader."""
    late: int = 0
    """Writes that came too late to change anything, since the start."""
    in_flight: int = 0
    """Messages that were sent and are not acknowledged."""
    queries_timed_out: int = 0
    """Reads that were ended because their time was over."""
    queries_abandoned: int = 0
    """Reads that were ended because who asked had left."""
    queries_waiting: int = 0
    """Reads that wait for a thread."""
    stored: int = 0
    """Events in the log, without those of these metrics."""
    stored_bytes: int = 0
    """Bytes of their payloads."""


def _nothing() -> None:
    """Tell nobody."""


class Metrics:
    """Plain numbers; ``on_change`` is called after a change."""

    def __init__(self, now: WallClock) -> None:
        self._now = now
        self.started = now()
        self.on_change: Callable[[], None] = _nothing
        self.on_traffic: Callable[[], None] = _nothing
        """Called when there was some after the last look."""
        self.look: Callable[[], None] = _nothing
        """Brings ``wire`` and ``holding`` up to date, as far as that costs little."""
        self.surveys: list[Callable[[], None]] = []
        """Bring the rest of ``holding`` up to date, for each round of system figures."""
        self.wire = Wire()
        self.holding = Holding()
        self.connected = self.maximum = 0
        """Clients that are connected, and the most that ever were at once."""
        self.publishes_received = self.publish_bytes_received = 0
        self.publishes_sent = self.publish_bytes_sent = 0
        self.subscriptions = self.shared_subscriptions = 0
        self.retained = 0
        self.uptime_seconds = 0
        self.heap = ProcessMemory()
        self.loads = Loads()

    # -- the nine methods --------------------------------------------------------------------------

    def on_connect(self, client_id: str) -> None:  # noqa: ARG002 - callers name the client
        """Count a client that was let in."""
        self.connected += 1
        self.maximum = max(self.maximum, self.connected)
        self.on_change()

    def on_disconnect(self, client_id: str) -> None:  # noqa: ARG002
        """Count one that is gone."""
        self.connected = max(0, self.connected - 1)
        self.on_change()

    def on_publish_received(self, messages: int, payload_bytes: int) -> None:
        """Count messages that clients have sent, together."""
        self.publishes_received += messages
        self.publish_bytes_received += payload_bytes

    def on_publish_sent(self, messages: int, payload_bytes: int) -> None:
        """Count messages that were sent to clients, together."""
        self.publishes_sent += messages
        self.publish_bytes_sent += payload_bytes

    def on_subscribe(self, client_id: str, topics: str) -> None:  # noqa: ARG002
        """Count a filter that a session did not have."""
        self._count_filter(topics, 1)

    def on_unsubscribe(self, client_id: str, topics: str) -> None:  # noqa: ARG002
        """Count a filter that a session has no more."""
        self._count_filter(topics, -1)

    def _count_filter(self, topics: str, change: int) -> None:
        if topics.startswith((SHARE_PREFIX, QUEUE_PREFIX)):
            self.shared_subscriptions = max(0, self.shared_subscriptions + change)
        else:
            self.subscriptions = max(0, self.subscriptions + change)
        self.on_change()

    def on_retained_message_added(self, topic: str) -> None:  # noqa: ARG002
        """Count a record at a topic that had none."""
        self.retained += 1
        self.on_change()

    def on_retained_message_removed(self, topic: str) -> None:  # noqa: ARG002
        """Count a topic that has a record no more."""
        self.retained = max(0, self.retained - 1)
        self.on_change()

    def update_system_metrics(self) -> None:
        """Bring up to date what changes without anything happening: uptime, heap, loads."""
        self.look()
        for survey in self.surveys:
            survey()
        seconds = max(0.0, self._now() - self.started)
        self.uptime_seconds = floor(seconds)
        self.heap.measure()
        wire, counted = self.wire, self.loads
        counted.update(
            seconds,
            {
                "messages/received": wire.packets_received,
                "messages/sent": wire.packets_sent,
                "publish/dropped": self.holding.dropped,
                "publish/received": self.publishes_received,
                "publish/sent": self.publishes_sent,
                "bytes/received": wire.bytes_received,
                "bytes/sent": wire.bytes_sent,
                "sockets": wire.connections,
                "connections": wire.connects,
            },
        )
        self.on_change()

    # -- what follows from them --------------------------------------------------------------------

    def changed(self) -> None:
        """Hear that something was counted elsewhere."""
        self.on_change()

    def traffic(self) -> None:
        """Hear that there was traffic since the last look."""
        self.on_traffic()

    @property
    def disconnected(self) -> int:
        """Sessions that wait for their client."""
        return max(0, self.holding.sessions - self.connected)
