"""A plan: what a bridge carries and how it treats what fails."""

from dataclasses import dataclass, field
from enum import StrEnum

from rowcast.core.gateway_limits import GATEWAY_CROWDED_SECONDS
from rowcast.core.topics import GATEWAY_PREFIX, TopicFilter
from rowcast.features.bridges.backlog import Caps
from rowcast.features.bridges.outbox import Rules
from rowcast.features.bridges.remote import Remote


class Mode(StrEnum):
    """What a bridge promises (H40)."""

    HYBRID = "hybrid"
    """All that matches is logged and kept until the broker has it; sent from memory when it can."""
    OUTBOX = "outbox"
    """The same, but never from memory: each event is read from the log again before it is sent."""
    MEMORY = "memory"
    """Only what fits into memory while the broker is away; nothing is logged for it."""


@dataclass(frozen=True, slots=True)
class Route:
    """One direction of some topics: what a filter selects goes on at another place.

    ``strip`` is taken from the beginning of a topic, then ``prefix`` put before it.
    """

    topics: TopicFilter
    prefix: str = ""
    strip: str = ""
    qos: int = 1
    direct: bool = False
    """Whether it was written for this broker: its QoS and its retain flag are the writer's."""

    feed: str = ""
    """What it carries instead of values: changes, by ``row`` or by ``statement``."""

    def topic(self, topic: str) -> str:
        """Return where what happened at a topic goes on."""
        return self.prefix + topic.removeprefix(self.strip)


def direct(name: str) -> Route:
    """Return the way of what is written for one broker (H27)."""
    prefix = f"{GATEWAY_PREFIX}{name}/"
    return Route(TopicFilter(f"{prefix}#"), strip=prefix, direct=True)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything about one bridge."""

    name: str
    remote: Remote
    out: tuple[Route, ...] = ()
    into: tuple[Route, ...] = ()
    mode: Mode = Mode.HYBRID
    rules: Rules = field(default_factory=Rules)
    caps: Caps = field(default_factory=Caps)
    dead_letter_retain_days: int = 30
    reconnect_interval_seconds: float = 5.0
    """The first wait after a connection failed; it doubles up to a minute."""
    queue_size: int = 0
    """Events in memory for it; 0 is as ``subscriptions.queue_events`` says, else 65,536."""
    publish_timeout_seconds: float = 0.1
    """How long memory may not hold what comes before the bridge is cold; 0 is at once."""
    crowded_seconds: float = GATEWAY_CROWDED_SECONDS
    """Time between two looks whether a broker that reads slowly has made room."""
