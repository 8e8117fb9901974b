"""The Prometheus exposition of metrics, under two families of names.

``broker_*`` are the numbers of ``$SYS/broker`` with the names of common exporters for Mosquitto, so
that their dashboards work unchanged (F35). ``rowcast_*`` are the same in Prometheus' style, and
histograms with labels, from the kernel's ``histograms``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, Final, cast

from rowcast.core.histograms import Histogram, HistogramFamily
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
        "store/messages/lost",
    }
)
"""Counters; all others are gauges."""
_OTHERS: Final = frozenset({"timestamp", "version", "clients/active", "clients/inactive"})
"""Texts, and duplicate names of numbers."""
_NUMBER: Final = re.compile(r"\d+(\.\d+)?")


LOADS: Final = "load/"
"""Mosquitto's averages, which Prometheus computes itself."""


def exposition(texts: Mapping[str, str], families: Sequence[HistogramFamily] = ()) -> bytes:
    """Return the numbers by topic, and the histograms, in text format 0.0.4."""
    numbers = dict(_numbers(texts))
    lines: list[str] = []
    for short, number in numbers.items():
        name = re.sub("[/ ]", "_", f"broker/{short}")
        kind = "counter" if short in COUNTERS else "gauge"
        lines += [f"# HELP {name} {ROOT}{short}", f"# TYPE {name} {kind}", f"{name} {number}"]
    return "\n".join([*lines, ""]).encode() + _in_own_style(numbers, families)


def _numbers(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield topics with numbers, without their root, and the numbers."""
    for topic, text in sorted(texts.items()):
        short = topic.removeprefix(ROOT)
        number = _NUMBER.match(text)
        if short not in _OTHERS and number is not None:
            yield short, number[0]


def _in_own_style(numbers: Mapping[str, str], families: Sequence[HistogramFamily]) -> bytes:
    """Return the same numbers and the histograms, formatted by Prometheus' client library."""
    # Imported on first use, because most servers never need it.
    from prometheus_client import core, generate_latest  # noqa: PLC0415

    def collect() -> Iterator[object]:
        for short, number in numbers.items():
            name, about = re.sub("[/ ]", "_", f"rowcast/{short}"), f"{ROOT}{short}"
            if short in COUNTERS:
                yield core.CounterMetricFamily(name, about, value=float(number))
            elif not short.startswith(LOADS):
                yield core.GaugeMetricFamily(name, about, value=float(number))
        for each in families:
            family = core.HistogramMetricFamily(each.name, each.about, labels=each.labels)
            for labels, found in each.series().items():
                family.add_metric(labels, _buckets(found), found.total)
            yield family

    text: bytes = generate_latest(cast("Any", SimpleNamespace(collect=collect)))
    return text


def _buckets(found: Histogram) -> list[tuple[str, float]]:
    """Return cumulative counts by bound."""
    bounds = [*map(str, found.bounds), "+Inf"]
    return list(zip(bounds, map(float, accumulate(found.counts)), strict=True))
