"""Windows of queries: which records of an order a live query is about (M3)."""

from typing import NamedTuple

from rowcast.core.errors import Code, Error
from rowcast.core.queries import Query
from rowcast.core.query_limits import WINDOW_RECORDS_MAX, WINDOW_SPARE_RECORDS_MIN


class Extent(NamedTuple):
    """Where a window begins and ends in the order, in records."""

    begin: int
    end: int
    spare: int = WINDOW_SPARE_RECORDS_MIN
    """How many records are to be known behind it at least."""

    @property
    def known(self) -> int:
        """How many records are to be known, with spare ones."""
        return self.end + max(self.end - self.begin, self.spare)


def extent_of(query: Query, spare: int = WINDOW_SPARE_RECORDS_MIN) -> Extent | None:
    """Return where the window of a query begins and ends; None if it has no limit.

    ``spare`` is that of the extent.
    Raises INVALID for a part of a query that has no meaning for a stream.
    """
    _check_parts(query)
    if query.limit is None:
        if query.sort:
            raise Error(
                Code.INVALID,
                "a live query has no order without a limit; add one, such as limit(10)",
            )
        return None
    end = query.offset + query.limit
    if end > WINDOW_RECORDS_MAX:
        raise Error(
            Code.TOO_LARGE,
            f"the window of a live query ends at record {WINDOW_RECORDS_MAX} at most, and not at "
            f"{end}; ask for a smaller limit, or for all records without one",
        )
    return Extent(query.offset, end, spare)


def _check_parts(query: Query) -> None:
    """Raise INVALID for a part of a query that has no meaning for a stream."""
    parts = {"after": query.after, "_stale": query.stale}
    named = next((name for name, part in parts.items() if part is not None), None)
    if named is not None:
        raise Error(
            Code.INVALID,
            f"a live query has conditions, select, sort and limit, and no {named}; leave it out",
        )
