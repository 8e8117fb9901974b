"""The counters of one server, updated on the loop.

Nine methods count client events (F17), and everything under ``$SYS/broker`` is read from here. They
count in memory only, whether or not the disk accepts the metrics (F23). Counters of other
components, such as sessions and traffic, are fetched on request.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import floor

from rowcast.core.clock import WallClock
from rowcast.core.topics import QUEUE_PREFIX, SHARE_PREFIX
from rowcast.features.metrics.loads import Loads
from rowcast.net.process_memory import ProcessMemory
from rowcast.store.store import Lag


@dataclass(slots=True)
class Wire:
    """Traffic of MQTT connections since the server's start."""

    bytes_received: int = 0
    bytes_sent: int = 0
    packets_received: int = 0
    packets_sent: int = 0
    connections: int = 0
    """Accepted connections."""
    connects: int = 0
    """CONNECT packets."""


@dataclass(slots=True)
class Holding:
    """The current state of the server."""

    sessions: int = 0
    """Sessions, connected or not."""
    sessions_expired: int = 0
    """Expired sessions."""
    dropped: int = 0
    """Messages dropped by a full queue."""
    late: int = 0
    """Late writes since the start."""
    in_flight: int = 0
    """Unacknowledged messages."""
    queries_timed_out: int = 0
    """Reads cancelled by the timeout."""
    queries_abandoned: int = 0
    """Reads cancelled because the client disconnected."""
    queries_waiting: int = 0
    """Reads that wait for a thread."""
    stored: int = 0
    """Events in the log, without those of these metrics."""
    stored_bytes: int = 0
    """Bytes of their payloads."""
    lost: int = 0
    """Messages of QoS 0 that were delivered, and that the disk did not take."""
    lag: Lag = field(default_factory=Lag)
    """How far the tables are behind the log."""


def _nothing() -> None:
    """Do nothing."""


class Metrics:
    """Plain numbers; ``on_change`` is called after a change."""

    def __init__(self, now: WallClock) -> None:
        self._now = now
        self.started = now()
        self.on_change: Callable[[], None] = _nothing
        self.on_traffic: Callable[[], None] = _nothing
        """Called on traffic since the last update."""
        self.look: Callable[[], None] = _nothing
        """Updates the cheap parts of ``wire`` and ``holding``."""
        self.surveys: list[Callable[[], None]] = []
        """Update the rest of ``holding``, for each round of system metrics."""
        self.wire = Wire()
        self.holding = Holding()
        self.connected = self.maximum = 0
        """Connected clients, and their maximum."""
        self.publishes_received = self.publish_bytes_received = 0
        self.publishes_sent = self.publish_bytes_sent = 0
        self.subscriptions = self.shared_subscriptions = 0
        self.retained = 0
        self.uptime_seconds = 0
        self.heap = ProcessMemory()
        self.loads = Loads()

    # -- the nine methods --------------------------------------------------------------------------

    def on_connect(self, client_id: str) -> None:  # noqa: ARG002 - callers name the client
        """Count a connect."""
        self.connected += 1
        self.maximum = max(self.maximum, self.connected)
        self.on_change()

    def on_disconnect(self, client_id: str) -> None:  # noqa: ARG002
        """Count a disconnect."""
        self.connected = max(0, self.connected - 1)
        self.on_change()

    def on_publish_received(self, messages: int, payload_bytes: int) -> None:
        """Count messages received from clients."""
        self.publishes_received += messages
        self.publish_bytes_received += payload_bytes

    def on_publish_sent(self, messages: int, payload_bytes: int) -> None:
        """Count messages sent to clients."""
        self.publishes_sent += messages
        self.publish_bytes_sent += payload_bytes

    def on_subscribe(self, client_id: str, topics: str) -> None:  # noqa: ARG002
        """Count a new filter of a session."""
        self._count_filter(topics, 1)

    def on_unsubscribe(self, client_id: str, topics: str) -> None:  # noqa: ARG002
        """Count a removed filter of a session."""
        self._count_filter(topics, -1)

    def _count_filter(self, topics: str, change: int) -> None:
        if topics.startswith((SHARE_PREFIX, QUEUE_PREFIX)):
            self.shared_subscriptions = max(0, self.shared_subscriptions + change)
        else:
            self.subscriptions = max(0, self.subscriptions + change)
        self.on_change()

    def on_retained_message_added(self, topic: str) -> None:  # noqa: ARG002
        """Count a created record."""
        self.retained += 1
        self.on_change()

    def on_retained_message_removed(self, topic: str) -> None:  # noqa: ARG002
        """Count a deleted record."""
        self.retained = max(0, self.retained - 1)
        self.on_change()

    def update_system_metrics(self) -> None:
        """Update metrics that change with time: uptime, heap, loads."""
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

    # -- notifications -----------------------------------------------------------------------------

    def changed(self) -> None:
        """Called on a change of another component's counter."""
        self.on_change()

    def traffic(self) -> None:
        """Called on traffic since the last update."""
        self.on_traffic()

    @property
    def disconnected(self) -> int:
        """Offline sessions."""
        return max(0, self.holding.sessions - self.connected)
