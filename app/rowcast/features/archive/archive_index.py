"""The index of an archive: which file has a number, from the names of files alone.

A file ``<after>-<last>.parquet`` has all events of its part with numbers above ``after`` and up to
``last``. The files of a part that count are a chain: each begins where the one before ends, or
before that. What does not continue to the newest file is not read, and nothing is where the chain
ends before what the log has trimmed: a cursor gets every event or is refused.

Nodes of a cluster share a place, and one that was replaced may still write there. Its file has what
its range says, as every node's has, because all have the same log; it has a name of its own,
``<after>-<last>-<writer>.parquet``, so no file is ever another one; and what it removes is in a
wider file. So what all writers leave may overlap, and lacks nothing.

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

from rowcast.features.archive.archive_folders import ArchiveFolders
from rowcast.features.archive.disk_place import ArchivePlace

_NAME: Final = re.compile(r"([0-9]+)-([0-9]+)(-[0-9a-z]+)?\.parquet")

_LISTS: Final = 5
"""How often names are listed that change at each time: merges are rare."""


class ArchivedRange(NamedTuple):
    """One file: all events of a part above one number and up to another."""

    after: int
    last: int
    path: Path


Chain = tuple[ArchivedRange, ...]


class ArchiveIndex:
    """The files of one log, by the numbers of its parts."""

    def __init__(self, place: ArchivePlace, writer: str | None = None) -> None:
        """``writer`` names who writes, of several at one place, where folders have parts' names."""
        self.place = place
        self._writer = writer
        self._folders = ArchiveFolders(place, named=writer is not None)
        self._chains: dict[int, Chain] = {}
        self._closed: dict[int, int] = {}
        """Parts whose names could not be read, with the positions up to which they are trimmed."""
        self._begins: dict[int, int] = {}
        """After which number a part had all its events when its names were last known."""
        self._parts: dict[int, tuple[str, int]] = {}
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
        if number in self._closed:  # what was too old when they were last known does not come again
            return self._begins.get(number, 0)
        chain = self.chain(number)
        return min(chain[0].after, trimmed) if chain and chain[-1].last >= trimmed else trimmed

    # -- blocking ----------------------------------------------------------------------------------

    def read(self, parts: Mapping[int, tuple[str, int]], *, clean: bool) -> list[str]:
        """Read the names of all files; ``parts`` are names and trimmed positions by number.

        ``clean``: also remove what a crash left, and put aside the files of parts that are no more
        there, whose number another one has got; where these are is returned. Raises OSError, and
        parts are closed then.
        """
        self._parts, self._cleans = dict(parts), clean
        try:
            aside = self._read(parts, clean=clean)
        except OSError as error:
            self._problem = error
            with self._lock:
                closed = {number: trimmed for number, (_, trimmed) in parts.items() if trimmed}
                self._closed = self._trimmed_since(parts) | closed
            raise
        with self._lock:
            self._closed, self._problem = self._trimmed_since(parts), None
        return aside

    def _trimmed_since(self, parts: Mapping[int, tuple[str, int]]) -> dict[int, int]:
        """Return the closed parts of which more was trimmed while names were read."""
        return {
            number: trimmed
            for number, trimmed in self._closed.items()
            if number not in parts or trimmed > parts[number][1]
        }

    def _close(self, number: int, trimmed: int) -> None:
        with self._lock:
            self._closed = {**self._closed, number: trimmed}

    def _read(self, parts: Mapping[int, tuple[str, int]], *, clean: bool) -> list[str]:
        aside: list[str] = []
        for number in self._folders.find(parts):
            if number in parts and not self._folders.is_of(number, parts[number][0]):
                if clean:
                    aside.append(self.place.put_aside(str(number)))
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
                for number, (name, trimmed) in dict(self._parts).items()
            }
            return self.read(parts, clean=self._cleans)
        finally:
            self._opening.release()

    def look(self, number: int, name: str, trimmed: int) -> None:
        """Read the names of a part's files again, if those that are known are too few.

        A place that is away is asked once: then all parts that are trimmed further are closed.
        """
        self._parts[number] = name, trimmed
        self._folders.name(number, name)
        if self.archived(number) >= trimmed:
            return
        if self._closed:
            self._close(number, trimmed)
            return
        with self._opening:
            try:
                self.renew(number, trimmed)
            except OSError as error:
                self._problem = error
                self._close(number, trimmed)

    def renew(self, number: int, trimmed: int = 0) -> None:
        """Read the names of a part's files again. Raises OSError."""
        with self._lock:
            chain = self._listed(number, trimmed)
            self._count(number, chain if chain and chain[-1].last >= trimmed else (), trimmed)

    def _listed(self, number: int, trimmed: int) -> Chain:
        """Return the chain of the names that are there.

        A list that is read while another node merges may lack both the old files and the new one.
        So one that begins later than what is known, or ends before what was trimmed, is believed
        when it is read again, and is the same. So is the first one, of several writers.
        """
        known, ranges = self.chain(number), self._ranges(number)
        for _ in range(_LISTS):
            chain = chain_of(ranges)
            ends = chain[-1].last if chain else 0
            begins = chain[0].after <= known[0].after if chain and known else self._writer is None
            if begins and ends >= trimmed:
                break
            again = self._ranges(number)
            if sorted(again) == sorted(ranges):
                break
            ranges = again
        return chain_of(ranges)

    def path(self, number: int, after: int, last: int) -> Path:
        """Return the path of a part's file, for this writer."""
        writer = f"-{self._writer}" if self._writer else ""
        name = f"{after}-{last}{writer}.parquet"
        return self.place.directory / self._folders.own(number) / name

    def prepare(self, number: int, name: str) -> None:
        """Make the place of a part's files.

        One of a part whose number this one has got is put aside: its files are too old, or unread.
        """
        self._folders.name(number, name)
        folder = self._folders.own(number)
        known = self.place.source(folder)
        if known == name:
            return
        if known:
            self.place.put_aside(folder)
        self.place.begin(folder, name)

    def add(self, number: int, new: ArchivedRange) -> None:
        """Note a new file, which continues the chain, or else begins a new one."""
        with self._lock:
            self._chains[number] = chain_of([*self.chain(number), new])

    def merge(self, number: int, new: ArchivedRange) -> Chain:
        """Note a file that has what others have; return those, to be removed."""
        with self._lock:
            chain = self.chain(number)
            inside = (x for x in chain if new.after <= x.after and x.last <= new.last)
            gone = tuple(x for x in inside if x[:2] != new[:2])  # another node's is left to it
            left = [item for item in chain if item not in gone]
            self._chains[number] = chain_of([*left, new])
            return gone

    def unread(self, number: int) -> list[ArchivedRange]:
        """Return the files of a part that do not count; reads a directory."""
        chain = self.chain(number)
        return [item for item in self._ranges(number) if item not in chain]

    def forget(self, number: int, gone: ArchivedRange) -> None:
        """Note that a file of a part is to be removed, and no other: a reader may have renewed."""
        with self._lock:
            self._count(number, tuple(item for item in self.chain(number) if item != gone))

    def _count(self, number: int, chain: Chain, trimmed: int = 0) -> None:
        """Let these files of a part count; what is kept here of others is given up."""
        before = self.chain(number)
        for item in {*before} - {*chain}:
            self.place.give_up(item.path)
        if chain:
            self._begins[number], self._chains[number] = chain[0].after, chain
        else:
            known = self._begins.get(number, 0)
            self._begins[number] = max(trimmed, known, before[-1].last if before else 0)
            self._chains.pop(number, None)

    def _ranges(self, number: int) -> list[ArchivedRange]:
        ranges: list[ArchivedRange] = []
        for folder in self._folders.of(number):
            place = self.place.directory / folder
            found = filter(None, map(_NAME.fullmatch, self.place.names(folder)))
            ranges += [ArchivedRange(int(x[1]), int(x[2]), place / x[0]) for x in found]
        return ranges

    def _remove_rests(self, number: int) -> None:
        """Remove unfinished files, and those whose events are all in another one.

        Of those with one range the first by name stays, so whoever else does this leaves the same.
        """
        for folder in self._folders.of(number):
            self.place.sweep(folder)
        upto = -1
        for item in sorted(self._ranges(number), key=lambda item: (item.after, -item.last, item)):
            if item.last <= upto:
                self.place.remove(item.path)
            upto = max(upto, item.last)


def chain_of(ranges: Iterable[ArchivedRange]) -> Chain:
    """Return the ranges that continue to the last one, oldest first.

    They may overlap; of those that go on the longest counts, so there are as few as can be.
    """
    chain: list[ArchivedRange] = []
    longest: ArchivedRange | None = None
    for item in sorted(ranges, key=lambda item: (-item.last, item)):
        if not chain:
            chain.append(item)
            continue
        if longest is not None and item.last < chain[-1].after:
            chain.append(longest)
            longest = None
        if item.last < chain[-1].after:
            break
        if item.after < (longest or chain[-1]).after:
            longest = item
    return tuple(reversed(chain if longest is None else [*chain, longest]))
