"""What a case is: a load, the servers it is put on, and the rows that it gives in the table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.stats import Target

PAYLOAD_BYTES = 64
NONE = Target()


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a case: a row of the table for each peer, or one row if there is none."""

    title: str
    unit: str
    metric: str
    peers: Mapping[str, Target] = field(default_factory=dict)
    lower_is_better: bool = True
    cpu: str = ""
    """Which figure is the server's CPU time for each; none is told without it."""


@dataclass(frozen=True, slots=True)
class Case:
    """One load beside its peers; ``title`` may hold figures, such as ``{sessions:,.0f}``."""

    name: str
    title: str
    unit: str
    load: dict[str, Any]
    peers: dict[str, Target]
    metric: str = "rate"
    lower_is_better: bool = False
    undeclared: str = "route"
    fresh: bool = False
    peer_load: dict[str, dict[str, Any]] = field(default_factory=dict)
    group: str = ""
    """The heading under which it stands; a case without one stands under that before it."""
    more: tuple[Figure, ...] = ()
    """Further figures of the same rounds."""
    cpu: str = "server_us"
    rounds_max: int = 0
    """Rounds are fewer than asked for where one takes minutes; 0 is no limit."""
    spare_seconds: float = 90.0
    """How much longer than the measured time a round may take."""
    features: str = ""
    """A directory of resources with which ours is started."""

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All its figures, the main one first."""
        lower = self.lower_is_better
        main = Figure(self.title, self.unit, self.metric, self.peers, lower, self.cpu)
        return (main, *self.more)


def ratio(value: float) -> Target:
    """Ours is at least `value` times the peer's."""
    return Target(at_least=value)


def flow(pubs: int, subs: int, qos: int, window: int, **more: Any) -> dict[str, Any]:
    """Describe an MQTT closed loop."""
    base = {"load": "flow", "pubs": pubs, "subs": subs, "qos": qos, "window": window}
    return {**base, "payload": PAYLOAD_BYTES, **more}


def mqtt(name: str, title: str, load: dict[str, Any], least: float | None, **more: Any) -> Case:
    """Describe a throughput case beside Mosquitto (for QoS 1 and 2 also at its best) and amqtt."""
    best = {"mosquitto-unlimited": NONE} if load.get("qos") else {}
    more.setdefault("peers", {"mosquitto": Target(least), **best, "amqtt": NONE})
    return Case(f"mqtt-{name}", title, "msg/s", load, **more)


def logged(name: str, title: str, load: dict[str, Any], **more: Any) -> Case:
    """Describe a throughput case where we log every message and Mosquitto stores nothing.

    The topics belong to our declared table `Log`, whose messages all go into the log.
    """
    peers = {"mosquitto": ratio(1)}
    return mqtt(name, title, {**load, "place": "Log"}, 1, peers=peers, **more)
