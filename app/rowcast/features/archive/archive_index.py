"""The index of an archive: which file has a number, from the names of files alone.

    <directory>/<number of the part>/source              the name of the part
    <directory>/<number of the part>/<after>-<last>.parquet

A file has all events of its part with numbers above ``after`` and up to ``last``. The files of a
part that count are a chain: each begins where the one before ends. What does not continue to the
newest file is not read, and nothing is where the chain ends before what the log has trimmed: a
cursor gets every event or is refused.

A chain is replaced, never changed, so readers on other threads need no lock. This knows no format.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from rowcast.log.segment import sync_directory
from rowcast.store.private import make_directory, replace_file

_NAME: Final = re.compile(r"([0-9]+)-([0-9]+)\.parquet")
SOURCE: Final = "source"
"""The file with the name of the part."""


class ArchivedRange(NamedTuple):
    """One file: all events of a part above one number and up to another."""

    after: int
    last: int
    path: Path


Chain = tuple[ArchivedRange, ...]


class ArchiveIndex:
    """The files of one log, by the numbers of its parts."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._chains: dict[int, Chain] = {}
        self._lock = Lock()

    # -- any thread, without blocking --------------------------------------------------------------

    def numbers(self) -> Collection[int]:
        """Return the parts that have files."""
        return tuple(self._chains)

    def chain(self, number: int) -> Chain:
        """Return the files of a part that count, oldest first."""
        return self._chains.get(number, ())

    def archived(self, number: int) -> int:
        """Return the number up to which a part is archived; 0 if nothing is."""
        chain = self.chain(number)
        return chain[-1].last if chain else 0

    def after(self, number: int, trimmed: int) -> int:
        """Return the number after which all events of a part are in its files, or in the log."""
        chain = self.chain(number)
        return min(chain[0].after, trimmed) if chain and chain[-1].last >= trimmed else trimmed

    # -- blocking ----------------------------------------------------------------------------------

    def read(self, parts: Mapping[int, tuple[str, int]], *, clean: bool) -> list[Path]:
        """Read the names of all files; ``parts`` are names and trimmed positions by number.

        ``clean``: also remove what a crash left, and put aside the files of parts that are no more
        there, whose number another one has got; these are returned. Raises OSError.
        """
        aside: list[Path] = []
        places = list(self.directory.iterdir()) if self.directory.is_dir() else []
        for place in (place for place in places if place.name.isdecimal()):
            number = int(place.name)
            if number in parts and _name_of(place) not in {parts[number][0], ""}:
                if clean:
                    aside.append(_put_aside(place))
                continue
            if clean:
                _remove_rests(place)
            self.look(number, parts[number][1] if number in parts else 0)
        return aside

    def look(self, number: int, trimmed: int) -> None:
        """Read the names of a part's files again, if those that are known are too few."""
        if self.archived(number) >= trimmed and number in self._chains:
            return
        self.renew(number, trimmed)

    def renew(self, number: int, trimmed: int = 0) -> None:
        """Read the names of a part's files again."""
        with self._lock:
            chain = chain_of(_ranges(self.place(number)))
            if chain and chain[-1].last >= trimmed:
                self._chains[number] = chain
            else:
                self._chains.pop(number, None)

    def place(self, number: int) -> Path:
        """Return the directory of a part's files."""
        return self.directory / str(number)

    def prepare(self, number: int, name: str) -> Path:
        """Make the directory of a part's files, and return it.

        One of a part whose number this one has got is put aside: its files are too old, or unread.
        """
        place = self.place(number)
        known = _name_of(place)
        if known == name:
            return place
        if known:
            _put_aside(place)
        parents = (self.directory, *self.directory.parents[:2])
        for path in (*reversed(parents[:2]), place):
            make_directory(path)
        replace_file(place / SOURCE, name.encode())
        for path in (place, *parents):
            sync_directory(path)
        return place

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
        return [item for item in _ranges(self.place(number)) if item not in chain]

    def forget(self, number: int) -> ArchivedRange:
        """Note that a part's oldest file is to be removed; return it."""
        with self._lock:
            oldest, *rest = self.chain(number)
            if rest:
                self._chains[number] = tuple(rest)
            else:
                del self._chains[number]
            return oldest


def chain_of(ranges: Iterable[ArchivedRange]) -> Chain:
    """Return the ranges that continue to the last one, oldest first.

    Of two that begin or end together the longer counts: a crash may leave what was merged.
    """
    chain: list[ArchivedRange] = []
    for item in sorted(ranges, key=lambda item: (-item.last, item.after)):
        if not chain or item.last == chain[-1].after:
            chain.append(item)
    return tuple(reversed(chain))


def _ranges(place: Path) -> list[ArchivedRange]:
    try:
        paths = list(place.iterdir())
    except FileNotFoundError:
        return []
    found = ((_NAME.fullmatch(path.name), path) for path in paths)
    return [ArchivedRange(int(name[1]), int(name[2]), path) for name, path in found if name]


def _name_of(place: Path) -> str:
    try:
        return (place / SOURCE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _put_aside(place: Path) -> Path:
    free = (place.with_name(f"{place.name}.{number}") for number in range(1, 1 << 30))
    aside = next(path for path in free if not path.exists())
    return place.rename(aside)


def _remove_rests(place: Path) -> None:
    """Remove unfinished files, and those that were merged into others."""
    for path in place.glob("*.new"):
        path.unlink()
    ranges = _ranges(place)
    for item in ranges:
        whole = (x for x in ranges if x != item and x.after <= item.after and item.last <= x.last)
        if any(whole):
            item.path.unlink()
