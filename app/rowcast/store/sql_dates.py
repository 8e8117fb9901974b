"""Cells of times: text of one width in UTC, so that the order of text is the order of time.

Nothing else of a row takes as long to make. This module knows neither tables nor rows.
"""

from datetime import UTC, datetime
from typing import cast


def date_cell(value: object) -> str:
    """Return a time as text of fixed width."""
    time = cast("datetime", value)
    if time.tzinfo is not UTC:
        time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    return f"{time.isoformat(timespec='microseconds')[:26]}Z"


class DateCells:
    """``date_cell`` of one column, which remembers the last: neighbours often have one time."""

    __slots__ = ("_cell", "_time")

    def __init__(self) -> None:
        self._time: object = None
        self._cell = ""

    def of(self, value: object) -> str:
        """Return a time as text."""
        if value != self._time:
            self._cell = date_cell(value)
            self._time = value
        return self._cell
