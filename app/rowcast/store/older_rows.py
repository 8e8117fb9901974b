"""The extension point for an archive: reads rows of the log that retention has trimmed.

A part of the log is then in two places: up to some number in the archive, and from there on in the
database. What is trimmed has been archived before, so a read transaction that is opened first, and
the archive that is asked afterwards, together lack no row; a row that both have is returned once.

The rows are those of ``LOG_COLUMNS``. This knows no files.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Final, NamedTuple, Protocol

from rowcast.store.sql_rows import Row

_SEQ: Final = itemgetter(0)


class Span(NamedTuple):
    """What is read of a part: numbers above one and up to another."""

    after: int
    upto: int
    back: bool = False
    """Whether the newest comes first."""
    topic: str | None = None
    """Only rows at this topic, as the log has it: within its table."""


class OlderRows(Protocol):
    """The archive of one log; each part is named by its number."""

    def numbers(self) -> Collection[int]:
        """Return the parts with archived rows."""

    def archived(self, number: int) -> int:
        """Return the number up to which a part is archived; 0 if nothing is."""

    def after(self, number: int, trimmed: int) -> int:
        """Return the number after which a part has all its rows, here or in the database.

        ``trimmed`` is the last that the database lacks. Does not block.
        """

    def look(self, number: int, name: str, trimmed: int) -> None:
        """Note that another process has trimmed a part, and so archived it; on any thread.

        ``name`` is the entry of the part.
        """

    def walk(self, number: int, span: Span, check: Callable[[], None]) -> Iterator[Row]:
        """Yield archived rows of a part; ``check`` is called now and then, and may raise."""

    def since(self, number: int, version: int, check: Callable[[], None]) -> int | None:
        """Return the number of a part's first archived row of at least a version, or None."""


class Oldest(NamedTuple):
    """The oldest rows of a part, which are beyond its limits."""

    number: int
    name: str
    """The entry of the part, such as the name of its table."""
    after: int
    """The number up to which the part is archived, or else trimmed."""
    beyond: int
    """How many rows are beyond the limits, with those that are archived."""
    rows: list[Row]
    """Those that are not archived, in order."""


class OldestRoom(NamedTuple):
    """How much of the oldest rows is read at a time."""

    events: int
    bytes: int
    """Of payload; the row that exceeds it is the last."""


def joined(
    rows: Iterable[Row], older: Iterable[Iterator[Row]], limit: int, *, back: bool = False
) -> list[Row]:
    """Return the first rows of the database and the archive, in order, each once."""
    every = merge(rows, *older, key=_SEQ, reverse=back)
    return list(islice(_once(every), limit))


def _once(rows: Iterable[Row]) -> Iterator[Row]:
    last: object = None
    for row in rows:
        if row[0] != last:
            yield row
        last = row[0]
