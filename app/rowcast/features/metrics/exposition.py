"""The metrics as Prometheus reads them: the numbers of ``$SYS/broker`` in its text format.

Their names are those that the common exporters of Mosquitto give them, so that dashboards that were
made for those work unchanged (F35).
"""

import re
from collections.abc import Mapping
from typing import Final

from rowcast.features.metrics.tree import ROOT

COUNTERS: Final = frozenset(
    {
        "bytes/received",
        "bytes/sent",
        "clients/expired",
        "connections/socket/count",
        "messages/received",
        "messages/sent",
        "publish/bytes/received",
        "publish/bytes/sent",
        "publish/messages/dropped",
        "publish/messages/late",
        "publish/messages/received",
        "publish/messages/sent",
        "queries/abandoned",
        "queries/timeout",
    }
)
"""What only grows while the server runs; all else goes up and down."""
_OTHERS: Final = frozenset({"timestamp", "version", "clients/active", "clients/inactive"})
"""Texts, and second names of numbers."""
_NUMBER: Final = re.compile(r"\d+(\.\d+)?")


def exposition(texts: Mapping[str, str]) -> bytes:
    """Return what the topics tell, by topic, in Prometheus' text format 0.0.4."""
    lines: list[str] = []
    for topic, text in sorted(texts.items()):
        short = topic.removeprefix(ROOT)
        number = _NUMBER.match(text)
        if short in _OTHERS or number is None:
            continue
        name = re.sub("[/ ]", "_", f"broker/{short}")
        kind = "counter" if short in COUNTERS else "gauge"
        lines += [f"# HELP {name} {topic}", f"# TYPE {name} {kind}", f"{name} {number[0]}"]
    return "\n".join([*lines, ""]).encode()
