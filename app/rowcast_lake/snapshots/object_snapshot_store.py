"""Object snapshot store: snapshots in an object store, where nothing is renamed or locked.

    newest                             an object with the name of the newest snapshot
    000000000000001042/                a snapshot; its manifest is written last
    000000000000001042/.making-<word>  somebody writes it
    delta/<table>/000000000000001042/  the files of one that is a version of a Delta table
    changes/seq=a-b/                   pages of the log (``object_pages``)
    merged/seq=a-b/                    pages made of several of those
    .pins/<name>/<until>-<word>        a reader holds it until this time, in seconds since 1970

A snapshot is complete when it has its manifest; readers look past what has none. An export that is
killed leaves files without a manifest: no later one uses their name, and they are removed when
they are older than any export may run. Whoever begins writes a marker, then looks for another
one in the same place, and gives way: reads follow writes in S3 (strong consistency, 2020), so of
two at least one sees the other. The parts of an unfinished upload are removed by a lifecycle rule
of the bucket.
"""

import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.export_limits import EXPORT_SECONDS_MAX, SNAPSHOT_PINNED_SECONDS
from rowcast.core.snapshot_paths import DELTA
from rowcast.features.snapshots.snapshot_directory import (
    CHANGES,
    MAKING,
    NAMED,
    NEWEST,
    PAGES,
    known_name,
    name_of,
    oldest_first,
    page_range,
)
from rowcast_lake.snapshots.manifest import FILE_NAME
from rowcast_lake.snapshots.object_pages import ObjectPages
from rowcast_lake.stores.object_paths import ObjectPath, refusing

PINS: Final = ".pins"
_CUT: Final = re.compile(r"[0-9]{18}(-[0-9]{1,3})?", re.ASCII)
_PAGE: Final = re.compile(r"seq=([0-9]{18})-([0-9]{18})", re.ASCII)


class ObjectSnapshotStore:
    """The snapshots below one prefix of an object store (``features/snapshots/snapshot_store.py``).

    ``forget`` is that of ``SnapshotDirectory``.
    """

    def __init__(
        self,
        directory: ObjectPath,
        now: Callable[[], float] = time.time,
        forget: Callable[[str], None] | None = None,
    ) -> None:
        self.directory = directory
        self._now = now
        self._forget = self._refuse_named if forget is None else forget
        self._complete: set[str] = set()
        self.increments = ObjectPages(directory, now)

    # -- what there is

    def names(self) -> list[str]:
        """Return the complete snapshots, the oldest cut first."""
        return sorted(self._whole(self.directory, _CUT), key=_order)

    def pages(self) -> list[str]:
        """Return the complete pages of changes: ``changes/seq=a-b``, and ``merged/seq=a-b``."""
        pages = [
            f"{folder}/{name}"
            for folder in PAGES
            for name in self._whole(self.directory / folder, _PAGE)
        ]
        return sorted(pages, key=page_range)

    def _whole(self, place: ObjectPath, pattern: re.Pattern[str]) -> list[str]:
        with refusing(place):
            found = [path for path in place.iterdir() if pattern.fullmatch(path.name)]
            whole = [path for path in found if self._is_complete(path)]
        return [path.name for path in whole]

    def _is_complete(self, path: ObjectPath) -> bool:
        if path.key not in self._complete and (path / FILE_NAME).is_file():
            self._complete.add(path.key)
        return path.key in self._complete

    def newest(self) -> str | None:
        """Return the snapshot that ``newest`` names; None without any."""
        with refusing(self.directory), suppress(FileNotFoundError):
            return (self.directory / NEWEST).read_text().strip() or None
        return None

    def place(self, name: str) -> ObjectPath:
        """Return where a snapshot is; ``newest`` and a cut's plain number are names, too."""
        known = self.newest() if name == NEWEST else name
        return self.directory / known_name(name, known, self.names(), self.directory)

    # -- what comes

    @contextmanager
    def making(self) -> Iterator["ObjectMaking"]:
        """Begin to make something; what is not published is gone at the end."""
        with refusing(self.directory):
            self.increments.finish()
            self._sweep()
            making = ObjectMaking(self)
            try:
                yield making
            finally:
                making.end()

    def _sweep(self) -> None:
        """Remove what has no manifest, and was begun longer ago than any export runs."""
        before = self._now() - EXPORT_SECONDS_MAX
        places = ((self.directory, _CUT), *((self.directory / folder, _PAGE) for folder in PAGES))
        for place, pattern in places:
            for path in place.iterdir():
                if not pattern.fullmatch(path.name) or self._is_complete(path):
                    continue
                every = (
                    item for folder in self._folders(path) for item in folder.listed(deep=True)
                )
                times = [facts.st_mtime for _, facts in every if facts]
                if max(times, default=0) < before:
                    self.clear(path)

    def free_name(self, seq: int) -> str:
        """Return the first name of a cut that nobody has written anything to."""
        there = {path.name for path in self.directory.iterdir()}
        return next(free for again in range(1000) if (free := name_of(seq, again)) not in there)

    def point(self, name: str | None) -> None:
        """Let ``newest`` name a snapshot; None: there is none any more."""
        if name is None:
            (self.directory / NEWEST).remove()
        else:
            (self.directory / NEWEST).write_bytes(name.encode())

    # -- what goes

    def _refuse_named(self, name: str) -> None:
        if (self.directory / NAMED / name).is_file():
            raise Error(
                Code.CONFLICT,
                f"the metadata of open tables names the files of {name}; remove it with `rowcast "
                "snapshots remove`, which lets them forget it first",
            )

    def remove(self, name: str) -> None:
        """Remove a snapshot: first its manifest, so that it is none any more, then its files."""
        place = self.place(name)
        with refusing(self.directory):
            self._forget(place.name)
            left = [known for known in self.names() if known != place.name]
            if self.newest() == place.name:
                self.point(left[-1] if left else None)
            self._remove(place)

    def remove_page(self, name: str) -> None:
        """Remove a page of changes."""
        with refusing(self.directory):
            if name.startswith(f"{CHANGES}/"):
                self.increments.forget(name.removeprefix(f"{CHANGES}/"))
            self._remove(self.directory / name)

    def _remove(self, place: ObjectPath) -> None:
        self._complete.discard(place.key)
        if _CUT.fullmatch(place.name):  # its name is taken until all its files are gone
            (place / f"{MAKING}gone").write_bytes(b"")
        (place / FILE_NAME).remove()
        self.clear(place)
        (self.directory / PINS / self._named(place)).remove()

    def clear(self, place: ObjectPath) -> None:
        """Remove the files of what has no manifest, the place with its name last."""
        for folder in self._folders(place):
            folder.remove()

    def _folders(self, place: ObjectPath) -> list[ObjectPath]:
        """Return where the files of a snapshot or page may be; last the place with its name."""
        tables = (self.directory / DELTA).iterdir() if _CUT.fullmatch(place.name) else ()
        return [*(table / place.name for table in tables), place]

    def _named(self, place: ObjectPath) -> str:
        return place.relative_to(self.directory).key

    def keep(self, count: int, since_seconds: float = 0) -> list[str]:
        """Remove all but so many of the newest, and those older than a time; return what is gone.

        No ``count`` is any number. The newest stays, and what is being read (``pin``).
        """
        gone: list[str] = []
        newest = self.newest()
        names = oldest_first(self.names(), newest, self._made)
        many = frozenset(names[:-count] if count else ())
        for name in names:
            old = self._made(name) < since_seconds
            if name != newest and (old or name in many) and self.free(name):
                self.remove(name)
                gone.append(name)
        return gone

    def _made(self, name: str) -> float:
        return (self.directory / name / FILE_NAME).stat().st_mtime

    # -- who reads

    @contextmanager
    def pin(self, name: str) -> Iterator[ObjectPath]:
        """Hold a snapshot for as long as an export may run."""
        place = self.place(name)
        held = self.hold(place.name, EXPORT_SECONDS_MAX)
        try:
            yield place
        finally:
            held.close()

    def hold(self, name: str, seconds: float = SNAPSHOT_PINNED_SECONDS) -> "Pin":
        """Hold a snapshot or page until what is returned is closed, or for so many seconds."""
        until = int(self._now() + seconds)
        with refusing(self.directory):
            pin = self.directory / PINS / name / f"{until}-{secrets.token_hex(4)}"
            pin.write_bytes(b"")
            if not (self.directory / name / FILE_NAME).is_file():
                pin.remove()
                raise Error(Code.NOT_FOUND, f"{name} is not in {self.directory} any more")
        return Pin(pin)

    def free(self, name: str) -> bool:
        """Whether nobody holds a snapshot or page; pins of the past are removed."""
        held = False
        with refusing(self.directory):
            for pin in (self.directory / PINS / name).rglob():
                until = pin.name.partition("-")[0]
                if until.isdigit() and int(until) >= self._now():
                    held = True
                else:
                    pin.remove()
        return not held


class Pin:
    """A snapshot that is held."""

    def __init__(self, place: ObjectPath) -> None:
        self._place = place

    def close(self) -> None:
        """Give it free; a pin that stays ends by its time."""
        with suppress(OSError):
            self._place.remove()


class ObjectMaking:
    """A snapshot or a merged page under construction where it will be, or a page of changes."""

    def __init__(self, snapshots: ObjectSnapshotStore) -> None:
        self._snapshot_store = snapshots
        self._place: ObjectPath | None = None
        self._marks: list[ObjectPath] = []
        self._text = ""

    @property
    def place(self) -> ObjectPath:
        """Where its files are written; ``aim`` comes first."""
        if self._place is None:
            raise AssertionError("what is made has no name yet")
        return self._place

    def aim(self, name: str) -> None:
        """Write it below this name; a snapshot's may get a number. Raises BUSY."""
        snapshots = self._snapshot_store
        folder, _, page = name.partition("/")
        if page:  # whoever merges the same pages writes the same
            own = folder == CHANGES
            self._place = snapshots.increments.begin(page) if own else snapshots.directory / name
            return
        name = snapshots.free_name(int(name[:18]))
        self._place = snapshots.directory / name
        mark = self._place / f"{MAKING}{secrets.token_hex(4)}"
        mark.write_bytes(b"")
        others = {path.key for path in self._place.rglob()} - {mark.key}
        if any(key.rpartition("/")[2].startswith(MAKING) for key in others):
            mark.remove()
            self._place = None  # its files are not ours
            raise Error(
                Code.BUSY,
                f"another export is at work in {snapshots.directory}/{name}, or was until a moment "
                "ago; try again when it has ended",
            )
        self._marks.append(mark)

    def write(self, name: str, text: str) -> None:
        """Keep the manifest, which is written last."""
        if name != FILE_NAME:
            raise AssertionError(name)
        self._text = text

    def publish(self, seq: int, *, newest: bool = True) -> ObjectPath:
        """Let it be seen, and as the newest one."""
        snapshots, place = self._snapshot_store, self.place
        self.settle(place)
        if newest:
            snapshots.point(place.name)
        if int(place.name[:18]) != seq:
            raise AssertionError(seq)
        return place

    def settle(self, target: ObjectPath) -> None:
        """Let it be seen: write its manifest."""
        place, increments = self.place, self._snapshot_store.increments
        if place == target:
            (target / FILE_NAME).write_bytes(self._text.encode())
        else:
            increments.decide(place, self._text)
            self._place = None  # it is the next export's to end, if this one cannot
            increments.publish(place)
        self._place = None
        for mark in self._marks:
            mark.remove()

    def end(self) -> None:
        """Remove what was not published."""
        if self._place is not None:
            with suppress(OSError):
                if not (self._place / FILE_NAME).is_file():
                    self._snapshot_store.clear(self._place)


def _order(name: str) -> tuple[int, int]:
    seq, _, again = name.partition("-")
    return int(seq), int(again or 0)
