"""The tree ``$SYS/broker``: topics and their numbers, with Mosquitto's names (F24).

A payload is plain text in Mosquitto's format: an integer, two decimals for loads, "N seconds" for
the uptime. Deprecated topics are published next to their successors, because exporters still use
them.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rowcast import __version__
from rowcast.features.metrics.loads import COUNTED, MINUTES
from rowcast.features.metrics.metrics import Metrics

ROOT: Final = "$SYS/broker/"

Reading = Callable[[Metrics], object]
"""Reads the current value of a metric."""

LIVE: Final[Mapping[str, Reading]] = {
    "clients/connected": lambda it: it.connected,
    "clients/active": lambda it: it.connected,
    "clients/disconnected": lambda it: it.disconnected,
    "clients/inactive": lambda it: it.disconnected,
    "clients/maximum": lambda it: it.maximum,
    "clients/total": lambda it: it.connected + it.disconnected,
    "clients/expired": lambda it: it.holding.sessions_expired,
    "messages/received": lambda it: it.wire.packets_received,
    "messages/sent": lambda it: it.wire.packets_sent,
    "publish/messages/received": lambda it: it.publishes_received,
    "publish/messages/sent": lambda it: it.publishes_sent,
    "publish/messages/dropped": lambda it: it.holding.dropped,
    "publish/messages/late": lambda it: it.holding.late,
    "publish/bytes/received": lambda it: it.publish_bytes_received,
    "publish/bytes/sent": lambda it: it.publish_bytes_sent,
    "bytes/received": lambda it: it.wire.bytes_received,
    "bytes/sent": lambda it: it.wire.bytes_sent,
    "subscriptions/count": lambda it: it.subscriptions,
    "shared_subscriptions/count": lambda it: it.shared_subscriptions,
    "retained messages/count": lambda it: it.retained,
    "queries/timeout": lambda it: it.holding.queries_timed_out,
    "queries/abandoned": lambda it: it.holding.queries_abandoned,
    "connections/socket/count": lambda it: it.wire.connections,
}
"""Live metrics, which change with events."""


def _load(name: str, minutes: int) -> Reading:
    return lambda it: f"{it.loads.averages[name, minutes]:.2f}"


SYSTEM: Final[Mapping[str, Reading]] = {
    "uptime": lambda it: f"{it.uptime_seconds} seconds",
    "heap/current": lambda it: it.heap.current,
    "heap/maximum": lambda it: it.heap.maximum,
    "messages/inflight": lambda it: it.holding.in_flight,
    "messages/stored": lambda it: it.holding.stored,
    "queries/waiting": lambda it: it.holding.queries_waiting,
    "store/messages/lost": lambda it: it.holding.lost,
    "store/messages/count": lambda it: it.holding.stored,
    "store/messages/bytes": lambda it: it.holding.stored_bytes,
    "store/lag/events": lambda it: it.holding.lag.events,
    "store/lag/seconds": lambda it: f"{it.holding.lag.seconds:.3f}",
    **{
        f"load/{name}/{minutes}min": _load(name, minutes) for name in COUNTED for minutes in MINUTES
    },
}
"""System metrics, updated every ``mqtt.sys_interval``."""


def fixed() -> dict[str, str]:
    """Return constant metrics: version and build time."""
    made = datetime.fromtimestamp(int(Path(__file__).stat().st_mtime), UTC)
    return {
        f"{ROOT}version": f"rowcast version {__version__}",
        f"{ROOT}timestamp": made.strftime("%Y-%m-%d %H:%M:%S%z"),
    }


def readings(metrics: Metrics, tree: Mapping[str, Reading]) -> dict[str, str]:
    """Return the payloads of a part of the tree, by topic."""
    return {ROOT + name: str(read(metrics)) for name, read in tree.items()}
