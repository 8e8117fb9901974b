"""Times of HTTP requests by method, route template and status, for ``/metrics``.

A template is the path of a declared table or a resource, with ``{id}`` for a record, or the path of
a fixed route; undeclared topics share one. So their number depends on the schema, and is bounded.
"""

from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

from rowcast.core.histograms import Histogram, HistogramFamily
from rowcast.core.metric_limits import REQUEST_SERIES_MAX

_OTHER: Final = ("other", "other", False, 0)
_METHODS: Final = frozenset({"GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "OPTIONS"})

Key = tuple[str, str, bool, int]
"""Method, path, whether a record of it is named, and status."""


class RequestTimes:
    """The times of one server's requests, without streams, which have no end."""

    def __init__(self, most: int = REQUEST_SERIES_MAX) -> None:
        self._most = most
        self._found: dict[Key, Histogram] = {}

    def note(self, method: str, path: str, named: bool, status: int, seconds: float) -> None:
        """Record the duration of a request; series beyond the bound share one."""
        key = method, path, named, status
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= self._most or method not in _METHODS:
                key = _OTHER
            found = self._found.setdefault(key, Histogram())
        found.counts[bisect_left(found.bounds, seconds)] += 1  # ``observe``, inlined
        found.total += seconds

    def family(self) -> HistogramFamily:
        """Return the histograms for metrics."""
        return HistogramFamily(
            "rowcast_http_request_seconds",
            "From the end of a request's head to the end of its answer.",
            ("method", "route", "status"),
            self._series,
        )

    def _series(self) -> Mapping[tuple[str, ...], Histogram]:
        return {
            (method, f"/{path}/{{id}}" if named else f"/{path}", str(status)): found
            for (method, path, named, status), found in self._found.items()
        }
