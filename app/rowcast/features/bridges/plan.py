"""A plan: the routes of a bridge, and its retry rules."""

from dataclasses import dataclass, field
from enum import StrEnum
from zlib import crc32

from rowcast.core.gateway_limits import (
    GATEWAY_CROWDED_SECONDS,
    GATEWAY_RECONNECT_SECONDS_MIN,
    GATEWAY_SAVE_SECONDS,
)
from rowcast.core.topics import GATEWAY_PREFIX, TopicFilter
from rowcast.features.bridges.backlog import Caps
from rowcast.features.bridges.messages import Sender
from rowcast.features.bridges.outbox import Rules
from rowcast.features.bridges.remote import Remote


class Mode(StrEnum):
    """The delivery guarantee of a bridge (H40)."""

    HYBRID = "hybrid"
    """Matching events are logged and kept until delivered; sent from memory if possible."""
    OUTBOX = "outbox"
    """The same, but each event is read from the log before it is sent."""
    MEMORY = "memory"
    """Only buffered in memory while the broker is unreachable; nothing is logged for it."""


@dataclass(frozen=True, slots=True)
class Route:
    """A mapping of topics in one direction.

    ``strip`` is removed from the beginning of a topic, then ``prefix`` is prepended.
    """

    topics: TopicFilter
    prefix: str = ""
    strip: str = ""
    qos: int = 1
    direct: bool = False
    """Whether messages are addressed to this broker: QoS and retain flag are the writer's."""

    feed: str = ""
    """Forward changes instead of values: by ``row`` or by ``statement``."""
    sync: bool = False
    """Whether these topics are kept equal at both sites."""
    way: str = ""
    """What the filter of a SUBSCRIBE there begins with, such as ``$share/NAME/``."""

    def topic(self, topic: str) -> str:
        """Return the mapped topic."""
        return self.prefix + topic.removeprefix(self.strip)


def direct(name: str) -> Route:
    """Return the route of messages addressed to one broker (H27)."""
    prefix = f"{GATEWAY_PREFIX}{name}/"
    return Route(TopicFilter(f"{prefix}#"), strip=prefix, direct=True)


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one bridge."""

    name: str
    remote: Remote
    out: tuple[Route, ...] = ()
    into: tuple[Route, ...] = ()
    mode: Mode = Mode.HYBRID
    rules: Rules = field(default_factory=Rules)
    caps: Caps = field(default_factory=Caps)
    dead_letter_retain_days: int = 30
    reconnect_interval_seconds: float = 5.0
    """The first delay after a failed connection; doubles up to a minute."""
    queue_size: int = 0
    """Events in memory; 0: ``subscriptions.queue_events``, else 65,536."""
    publish_timeout_seconds: float = 0.1
    """How long the queue may overflow before the bridge is cold; 0: at once."""
    crowded_seconds: float = GATEWAY_CROWDED_SECONDS
    """Interval of checks whether a slow broker has read."""
    lost_seconds: float = GATEWAY_RECONNECT_SECONDS_MIN
    """The delay after a lost connection."""
    save_seconds: float = GATEWAY_SAVE_SECONDS
    """Minimum interval between saves of the position."""

    @property
    def syncs(self) -> tuple[TopicFilter, ...]:
        """The topics that are kept equal at both sites."""
        return tuple(route.topics for route in self.out if route.sync)

    @property
    def producer(self) -> str:
        """The name under which it numbers what it sends.

        With other synced topics it is another one, because then it begins with the log's first
        event again, whose number the receiver would take for a repeat.
        """
        if not self.syncs:
            return self.name
        texts = "\n".join(sorted(topics.text for topics in self.syncs))
        return f"{self.name}/sync-{crc32(texts.encode()):08x}"

    def sender(self, epoch: str, low: int, *, syncs: bool) -> Sender:
        """Return the sender; without ``low`` of a dead letter, because its turn has passed."""
        name = self.producer if low else f"{self.producer}/letters"
        return Sender(epoch, name, low, syncs)
