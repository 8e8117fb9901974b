"""The index of an archive: which file has a number, from the names of files alone.

A file ``<after>-<last>.parquet`` has all events of its part with numbers above ``after`` and up to
``last``. The files of a part that count are a chain: each begins where the one before ends. What
does not continue to the newest file is not read, and nothing is where the chain ends before what
the log has trimmed: a cursor gets every event or is refused.

Where names cannot be read, because a store is away, the parts that were trimmed are closed: they
are taken to be whole, and whoever reads them is refused until the names are known. One asks the
store again at a time, for it may take seconds to fail; others are refused at once. A chain is
replaced, never changed, so readers on other threads need no lock. This knows no format.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from copy import copy
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, cast

from rowcast.features.archive.disk_place import ArchivePlace

_NAME: Final = re.compile(r"([0-9]+)-([0-9]+)\.parquet")


class ArchivedRange(NamedTuple):
    """One file: all events of a part above one number and up to another."""

    after: int
    last: int
    path: Path


Chain = tuple[ArchivedRange, ...]


class ArchiveIndex:
    """The files of one log, by the numbers of its parts."""

    def __init__(self, place: ArchivePlace) -> None:
        self.place = place
        self._chains: dict[int, Chain] = {}
        self._closed: dict[int, int] = {}
        """Parts whose names could not be read, with the positions up to which they are trimmed."""
        self._parts: Mapping[int, tuple[str, int]] = {}
        self._cleans = False
        self._lock = Lock()
        self._opening = Lock()
        self._problem: OSError | None = None
        """Why the names could not be read when they were last asked for."""

    # -- any thread, without blocking --------------------------------------------------------------

    def numbers(self) -> Collection[int]:
        """Return the parts that have files."""
        return {*self._chains, *self._closed}

    def chain(self, number: int) -> Chain:
        """Return the files of a part that count, oldest first."""
        return self._chains.get(number, ())

    def archived(self, number: int) -> int:
        """Return the number up to which a part is archived; 0 if nothing is."""
        chain = self.chain(number)
        return max(chain[-1].last if chain else 0, self.closed(number))

    def closed(self, number: int) -> int:
        """Return the position up to which a part is trimmed, but its names are not known; or 0."""
        return self._closed.get(number, 0)

    @property
    def is_closed(self) -> bool:
        """Whether the names of some parts are not known."""
        return bool(self._closed)

    def after(self, number: int, trimmed: int) -> int:
        """Return the number after which all events of a part are in its files, or in the log."""
        if number in self._closed:
            return 0
        chain = self.chain(number)
        return min(chain[0].after, trimmed) if chain and chain[-1].last >= trimmed else trimmed

    # -- blocking ----------------------------------------------------------------------------------

    def read(self, parts: Mapping[int, tuple[str, int]], *, clean: bool) -> list[str]:
        """Read the names of all files; ``parts`` are names and trimmed positions by number.

        ``clean``: also remove what a crash left, and put aside the files of parts that are no more
        there, whose number another one has got; where these are is returned. Raises OSError, and
        parts are closed then.
        """
        self._parts, self._cleans = parts, clean
        try:
            aside = self._read(parts, clean=clean)
        except OSError as error:
            self._problem = error
            self._closed = {number: trimmed for number, (_, trimmed) in parts.items() if trimmed}
            raise
        self._closed, self._problem = {}, None
        return aside

    def _read(self, parts: Mapping[int, tuple[str, int]], *, clean: bool) -> list[str]:
        aside: list[str] = []
        for number in self.place.numbers():
            if number in parts and self.place.source(number) not in {parts[number][0], ""}:
                if clean:
                    aside.append(self.place.put_aside(number))
                continue
            if clean:
                self._remove_rests(number)
            self.renew(number, parts[number][1] if number in parts else 0)
        return aside

    def open(self) -> list[str]:
        """Read the names again, if parts are closed. Raises OSError if they stay so.

        While another thread does, it raises what was found the last time.
        """
        problem = self._problem
        if not self._opening.acquire(blocking=problem is None):
            raise copy(cast("OSError", problem))
        try:
            if not self._closed:
                return []
            parts = {
                number: (name, max(trimmed, self.closed(number)))
                for number, (name, trimmed) in self._parts.items()
            }
            return self.read(parts, clean=self._cleans)
        finally:
            self._opening.release()

    def look(self, number: int, trimmed: int) -> None:
        """Read the names of a part's files again, if those that are known are too few."""
        if number in self._closed:
            self._closed[number] = max(trimmed, self._closed[number])
        elif self.archived(number) < trimmed or number not in self._chains:
            with self._opening:
                try:
                    self.renew(number, trimmed)
                except OSError:
                    self._closed[number] = trimmed

    def renew(self, number: int, trimmed: int = 0) -> None:
        """Read the names of a part's files again. Raises OSError."""
        with self._lock:
            chain = chain_of(self._ranges(number))
            if chain and chain[-1].last >= trimmed:
                self._chains[number] = chain
            else:
                self._chains.pop(number, None)

    def path(self, number: int, after: int, last: int) -> Path:
        """Return the path of a part's file."""
        return self.place.directory / str(number) / f"{after}-{last}.parquet"

    def prepare(self, number: int, name: str) -> None:
        """Make the place of a part's files.

        One of a part whose number this one has got is put aside: its files are too old, or unread.
        """
        known = self.place.source(number)
        if known == name:
            return
        if known:
            self.place.put_aside(number)
        self.place.begin(number, name)

    def add(self, number: int, new: ArchivedRange) -> None:
        """Note a new file, which begins where the last one ends, or else begins a new chain."""
        with self._lock:
            chain = self.chain(number)
            goes_on = chain and chain[-1].last == new.after
            self._chains[number] = (*chain, new) if goes_on else (new,)

    def merge(self, number: int, new: ArchivedRange) -> Chain:
        """Note a file that has what others have; return those, to be removed."""
        with self._lock:
            chain = self.chain(number)
            gone = tuple(x for x in chain if new.after <= x.after and x.last <= new.last)
            left = [item for item in chain if item not in gone]
            self._chains[number] = tuple(sorted([*left, new]))
            return gone

    def unread(self, number: int) -> list[ArchivedRange]:
        """Return the files of a part that do not count; reads a directory."""
        chain = self.chain(number)
        return [item for item in self._ranges(number) if item not in chain]

    def forget(self, number: int) -> ArchivedRange:
        """Note that a part's oldest file is to be removed; return it."""
        with self._lock:
            oldest, *rest = self.chain(number)
            if rest:
                self._chains[number] = tuple(rest)
            else:
                del self._chains[number]
            return oldest

    def _ranges(self, number: int) -> list[ArchivedRange]:
        found = filter(None, map(_NAME.fullmatch, self.place.names(number)))
        ranges = [(int(name[1]), int(name[2])) for name in found]
        return [ArchivedRange(*both, self.path(number, *both)) for both in ranges]

    def _remove_rests(self, number: int) -> None:
        """Remove unfinished files, and those that were merged into others."""
        self.place.sweep(number)
        ranges = self._ranges(number)
        for item in ranges:
            wider = (x for x in ranges if x != item and x.after <= item.after)
            if any(item.last <= x.last for x in wider):
                self.place.remove(item.path)


def chain_of(ranges: Iterable[ArchivedRange]) -> Chain:
    """Return the ranges that continue to the last one, oldest first.

    Of two that begin or end together the longer counts: a crash may leave what was merged.
    """
    chain: list[ArchivedRange] = []
    for item in sorted(ranges, key=lambda item: (-item.last, item.after)):
        if not chain or item.last == chain[-1].after:
            chain.append(item)
    return tuple(reversed(chain))
