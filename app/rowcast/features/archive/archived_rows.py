"""Archived rows: the rows of the log that are in files, read a group at a time.

Reads of the log ask it (``store/older_rows.py``), on their own threads. In memory are the summaries
of files that were read last, and a few groups: the next page of a reader is in the same group. A
file may be removed at any time: merged into another one, which is read instead, or too old, which
the reader learns as it does of any trim. A row has the number that its part had where it was
written; a reader gets that of this process.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Final, Generic, TypeVar, cast

from rowcast.core.archive_limits import ARCHIVE_FOOTERS, ARCHIVE_GROUPS
from rowcast.core.errors import Code, Error
from rowcast.features.archive.archive_index import ArchivedRange, ArchiveIndex
from rowcast.features.archive.file_format import FileFormat, Group, OpenFile
from rowcast.store.older_rows import Span
from rowcast.store.sql_rows import Row

log = logging.getLogger("rowcast.archive")

T = TypeVar("T")

_ATTEMPTS: Final = 5
"""How often a file is found under another name before it counts as gone: merges are rare."""


class _Recent(Generic[T]):
    """The values that were used last, on any thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[object, T] = OrderedDict()
        self._lock = Lock()

    def find(self, key: object) -> T | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def keep(self, key: object, value: T) -> T:
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return value


class ArchivedRows:
    """Reads the rows of one archive."""

    def __init__(
        self,
        index: ArchiveIndex,
        files: FileFormat,
        footers: int = ARCHIVE_FOOTERS,
        groups: int = ARCHIVE_GROUPS,
    ) -> None:
        self._index = index
        self._files = files
        self._groups: _Recent[tuple[Group, ...]] = _Recent(footers)
        self._rows: _Recent[list[Row]] = _Recent(groups)

    def numbers(self) -> Collection[int]:
        """Return the parts with archived rows."""
        return self._index.numbers()

    def archived(self, number: int) -> int:
        """Return the number up to which a part is archived; 0 if nothing is."""
        return self._index.archived(number)

    def after(self, number: int, trimmed: int) -> int:
        """Return the number after which a part has all its rows, here or in the database."""
        return self._index.after(number, trimmed)

    def look(self, number: int, name: str, trimmed: int) -> None:
        """Look for new files of a part, which another process has trimmed."""
        self._index.look(number, name, trimmed)

    def newest(self, item: ArchivedRange) -> int:
        """Return the greatest version in a file. Raises OSError."""
        return max((group.newest for group in self._summary(item)), default=0)

    def walk(self, number: int, span: Span, check: Callable[[], None]) -> Iterator[Row]:
        """Yield rows of a part, in order; ``check`` is called before each group."""
        after, upto, back, topic = span
        self._refuse_closed(number, after)
        while after < upto:
            found = self._with(number, after, upto, self._open, back=back)
            if found is None:
                return
            item, file = found
            with file:
                for index in _order(self._summary(item, file), after, upto, back=back):
                    check()
                    rows = self._of_group(item.path, file, index, topic)
                    for row in reversed(rows) if back else rows:
                        if after < cast("int", row[0]) <= upto:
                            yield row if row[1] == number else (row[0], number, *row[2:])
            after, upto = (after, item.after) if back else (item.last, upto)

    def since(self, number: int, version: int, check: Callable[[], None]) -> int | None:
        """Return the number of a part's first row of at least a version, or None."""
        self._refuse_closed(number, 0)
        after, upto = 0, self._index.archived(number)
        while (found := self._with(number, after, upto, self._summary)) is not None:
            item, groups = found
            begin = next((group.first for group in groups if group.newest >= version), None)
            if begin is not None:
                rows = self.walk(number, Span(begin - 1, item.last), check)
                numbers = (cast("int", x[0]) for x in rows if cast("int", x[4]) >= version)
                if (seq := next(numbers, None)) is not None:  # else the file has become too old
                    return seq
            after = item.last
        return None

    def _refuse_closed(self, number: int, after: int) -> None:
        """Raise BUSY while the names of files after a number are not known, which are read again.

        Whoever asked was told that all are there, so it asks again.
        """
        if after >= self._index.closed(number):
            return
        try:
            self._index.open()
        except OSError as error:
            raise _unreadable(self._index.path(number, after, 0), error) from error
        raise Error(
            Code.BUSY,
            "the names of archived files were not known; try again",
            retry_after_seconds=1,
        )

    def _with(
        self,
        number: int,
        after: int,
        upto: int,
        work: Callable[[ArchivedRange], T],
        *,
        back: bool = False,
    ) -> tuple[ArchivedRange, T] | None:
        """Do something with the first file of a part that has numbers between two.

        With ``back`` it is the last one.
        """
        for _ in range(_ATTEMPTS):
            inside = [x for x in self._index.chain(number) if x.last > after and x.after < upto]
            if not inside:
                return None
            item = inside[-1 if back else 0]
            try:
                try:
                    return item, work(item)
                except FileNotFoundError:
                    self._index.renew(number, self._index.archived(number))
            except OSError as error:
                raise _unreadable(item.path, error) from error
        raise _unreadable(item.path, FileNotFoundError())

    def _open(self, item: ArchivedRange) -> OpenFile:
        return self._files.open(item.path)

    def _summary(self, item: ArchivedRange, file: OpenFile | None = None) -> tuple[Group, ...]:
        """Return the groups of a file, which may be open already, and gone from its place."""
        known = self._groups.find(item.path)
        if known is None:
            found = self._files.groups(item.path) if file is None else file.groups()
            known = self._groups.keep(item.path, found)
        return known

    def _of_group(self, path: Path, file: OpenFile, index: int, topic: str | None) -> list[Row]:
        known = self._rows.find((path, index))
        if known is not None:
            return known if topic is None else [row for row in known if row[2] == topic]
        try:
            rows = file.rows(index, topic)
        except OSError as error:
            raise _unreadable(path, error) from error
        return rows if topic is not None else self._rows.keep((path, index), rows)


def _order(groups: Sequence[Group], after: int, upto: int, *, back: bool) -> list[int]:
    """Return the indexes of the groups with numbers between two."""
    chosen = [i for i, group in enumerate(groups) if group.last > after and group.first <= upto]
    return chosen[::-1] if back else chosen


def _unreadable(path: Path, error: OSError) -> Error:
    why = error.strerror or str(error) or "it is gone"
    if isinstance(error, ConnectionError):
        log.error("archived events cannot be read for now: %s", why)
        return Error(
            Code.BUSY,
            f"archived events cannot be read for now: {why}",
            retry_after_seconds=10,
        )
    log.error("the archived events in %s cannot be read: %s", path, why)
    return Error(
        Code.BUSY,
        f"archived events cannot be read ({path.name}: {why}); restore that file, or move it away: "
        "then what it had counts as trimmed",
        retry_after_seconds=60,
    )
