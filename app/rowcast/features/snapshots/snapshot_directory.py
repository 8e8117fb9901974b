"""The snapshot directory: a snapshot store on a disk, and how a snapshot appears in it.

    newest -> 000000000000001042      only ever a complete one; replaced in one step
    000000000000001042/               a snapshot, named by its cut; never changed
    changes/                          pages of the log after it, each written once
    merged/                           larger pages, each of several of those
    .making-<word>/                   under construction; readers look past names with a dot
    .lock                             held by the one program that makes something here

What is made is written and flushed below a hidden name, then renamed: a reader sees all of it or
nothing, and a power cut leaves what was there before. The lock goes with its program, however that
ends, so whatever hidden directory is there when somebody gets it is dead, and is removed.
"""

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path
from typing import IO, Final

from rowcast.core.errors import Code, Error
from rowcast.store.private import DIRECTORY_MODE, make_directory, make_file, open_to_append, tighten

NEWEST: Final = "newest"
_LOCK: Final = ".lock"
_HELD: Final = "manifest.json"
"""The file whose shared lock (flock) pins a snapshot."""
MAKING: Final = ".making-"
NAMED: Final = ".named"
"""Where it is noted which snapshots the metadata of open tables names."""
CHANGES: Final = "changes"
"""Where the pages of the log are as they were exported."""
MERGED: Final = "merged"
"""Where the pages are that compaction makes of others."""
PAGES: Final = (CHANGES, MERGED)
_PAGE: Final = re.compile(r"seq=([0-9]{18})-([0-9]{18})", re.ASCII)
_NAME: Final = re.compile(r"[0-9]{18}(-[0-9]+)?")
_NO_ROOM: Final = frozenset({ENOSPC, EDQUOT, EFBIG})


def name_of(seq: int, again: int = 0) -> str:
    """Return what the snapshot of a cut is called; ``again``: others of the cut are there."""
    return f"{seq:018d}-{again}" if again else f"{seq:018d}"


def page_range(name: str) -> str:
    """Return of the name of a page what sorts pages in the order of the log."""
    return name.partition("=")[2]


def known_name(asked: str, name: str | None, names: Sequence[str], place: object) -> str:
    """Return which of ``names`` a snapshot has that is asked for; raises NOT_FOUND.

    ``name`` is a name, a cut or its plain number; None is that of the newest where none is.
    """
    known = (name or "").rpartition(":")[2]
    if known.isdigit():
        known = name_of(int(known))
    if known in names:
        return known
    there = ", ".join(names[-5:]) or "none yet"
    raise Error(Code.NOT_FOUND, f"there is no snapshot {asked} in {place}; there are: {there}")


def oldest_first(
    names: Sequence[str], newest: str | None, made: Callable[[str], float]
) -> list[str]:
    """Return snapshots, sorted by cut, in the order in which they are to go.

    A restore numbers events anew, so a snapshot of the log before it may have a later cut than the
    newest one. It was made before that, and goes first. ``made`` is the time of a name.
    """
    if newest is None or newest not in names:
        return list(names)
    later = names[names.index(newest) + 1 :]
    former = [name for name in later if made(name) < made(newest)]
    return [*former, *(name for name in names if name not in former)]


class SnapshotDirectory:
    """The directory of snapshots.

    ``forget`` is called with the name of a snapshot that is about to be removed: it lets no
    metadata of open tables name its files. Without it such a snapshot is not removed.
    """

    def __init__(self, directory: Path, forget: Callable[[str], None] | None = None) -> None:
        self.directory = directory
        self._forget = self._refuse_named if forget is None else forget

    def names(self) -> list[str]:
        """Return the snapshots that are there, the oldest cut first."""
        with suppress(FileNotFoundError):
            found = [item.name for item in self.directory.iterdir() if item.is_dir()]
            return sorted(filter(_NAME.fullmatch, found), key=_order)
        return []

    def newest(self) -> str | None:
        """Return the snapshot that ``newest`` names; None without any."""
        with suppress(OSError):
            return (self.directory / NEWEST).readlink().name
        return None

    def place(self, name: str) -> Path:
        """Return where a snapshot is; ``newest`` and a cut's plain number are names, too."""
        known = self.newest() if name == NEWEST else name
        return self.directory / known_name(name, known, self.names(), self.directory)

    @contextmanager
    def making(self) -> Iterator["Making"]:
        """Hold the lock, with a directory to build something in; it is gone at the end."""
        with self._lock():
            self._sweep()
            place = self.directory / f"{MAKING}{secrets.token_hex(4)}"
            place.mkdir(DIRECTORY_MODE)
            try:
                yield Making(self, place)
            finally:
                shutil.rmtree(place, ignore_errors=True)

    def remove(self, name: str) -> None:
        """Remove a snapshot: first out of sight, then its files."""
        place = self.place(name)
        with self._lock():
            self._sweep()
            self._forget(place.name)
            gone = self.directory / f"{MAKING}{secrets.token_hex(4)}"
            left = [known for known in self.names() if known != place.name]
            if self.newest() == place.name:
                self.point(left[-1] if left else None)
            place.rename(gone)
            flush_directory(self.directory)
            shutil.rmtree(gone, ignore_errors=True)

    def _refuse_named(self, name: str) -> None:
        if (self.directory / NAMED / name).exists():
            raise Error(
                Code.CONFLICT,
                f"the metadata of open tables names the files of {name}; remove it with `rowcast "
                "snapshots remove`, which lets them forget it first",
            )

    def keep(self, count: int, since_seconds: float = 0) -> list[str]:
        """Remove all but so many of the newest, and those older than a time; return what is gone.

        No ``count`` is any number. The newest stays, and what is being read (``pin``).
        """
        gone: list[str] = []
        names = oldest_first(self.names(), self.newest(), self._made)
        many = frozenset(names[:-count] if count else ())
        for name in names:
            old = self._made(name) < since_seconds
            if name == self.newest() or not (old or name in many):
                continue
            with self._free(name) as free:
                if free:
                    self.remove(name)
                    gone.append(name)
        return gone

    def _made(self, name: str) -> float:
        return (self.directory / name).stat().st_mtime

    def pages(self) -> list[str]:
        """Return the pages of changes, as far as they are complete: ``changes/seq=a-b``."""
        pages: list[str] = []
        for folder in PAGES:
            with suppress(OSError):
                found = [item.name for item in (self.directory / folder).iterdir()]
                pages += [f"{folder}/{name}" for name in filter(_PAGE.fullmatch, found)]
        return sorted(pages, key=page_range)

    def remove_page(self, name: str) -> None:
        """Remove a page of changes: first its name, so that no reader sees a part of it."""
        gone = self.directory / f"{MAKING}{name.rpartition('=')[2]}"
        with refusing(self.directory):
            (self.directory / name).rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def hold(self, name: str) -> IO[bytes]:
        """Hold a snapshot or page until what is returned is closed; raises NOT_FOUND."""
        try:
            held = (self.directory / name / _HELD).open("rb")
        except OSError as error:
            raise Error(
                Code.NOT_FOUND, f"{name}/{_HELD} cannot be opened: {error.strerror}"
            ) from error
        fcntl.flock(held, fcntl.LOCK_SH)
        return held

    def free(self, name: str) -> bool:
        """Whether nobody holds a snapshot or page."""
        with self._free(name) as free:
            return free

    @contextmanager
    def pin(self, name: str) -> Iterator[Path]:
        """Hold a snapshot: as long as somebody does, ``keep`` leaves it."""
        place, held = self._held(name)
        with held:
            yield place

    def _held(self, name: str) -> tuple[Path, IO[bytes]]:
        """Lock a snapshot's manifest; of one that was removed meanwhile, look again."""
        while True:
            place = self.place(name)
            try:
                held = (place / _HELD).open("rb")
            except FileNotFoundError:
                if place.exists():
                    raise Error(
                        Code.INVALID, f"{place} has no {_HELD}; remove it and take another"
                    ) from None
                continue
            fcntl.flock(held, fcntl.LOCK_SH)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(held.fileno()), (place / _HELD).stat()):
                    return place, held
            held.close()

    @contextmanager
    def _free(self, name: str) -> Iterator[bool]:
        """Keep readers from beginning with a snapshot, if none has begun."""
        try:
            held = (self.directory / name / _HELD).open("rb")
        except FileNotFoundError:
            yield True
            return
        with held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    def point(self, name: str | None) -> None:
        """Let ``newest`` name a snapshot, in one step; None: there is none any more."""
        if name is None:
            (self.directory / NEWEST).unlink(missing_ok=True)
        else:
            link = self.directory / f"{MAKING}{secrets.token_hex(4)}"
            link.symlink_to(name)
            link.replace(self.directory / NEWEST)
        flush_directory(self.directory)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with refusing(self.directory):
            make_directory(self.directory)
            lock = open_to_append(self.directory / _LOCK)
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Error(
                    Code.BUSY,
                    f"another export is at work in {self.directory}; wait until it has ended",
                ) from None
            with refusing(self.directory):
                yield

    def _sweep(self) -> None:
        """Remove what programs that are dead have left: nobody else has the lock."""
        for item in self.directory.iterdir():
            if item.name.startswith(MAKING):
                if item.is_symlink():
                    item.unlink()
                else:
                    shutil.rmtree(item, ignore_errors=True)


def keep_private(directory: Path) -> None:
    """Let only its owner read an existing snapshot directory; leave other directories alone."""
    if (directory / _LOCK).exists():
        tighten([directory])


class Making:
    """A directory under construction."""

    def __init__(self, snapshots: SnapshotDirectory, place: Path) -> None:
        self._snapshot_store = snapshots
        self.place = place

    def aim(self, name: str) -> None:
        """Do nothing: it has its name by being renamed."""

    def write(self, name: str, text: str) -> None:
        """Write a small file, and flush it."""
        make_file(self.place / name)
        with (self.place / name).open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def publish(self, seq: int, *, newest: bool = True) -> Path:
        """Let it be seen, as the snapshot of a cut, and as the newest one."""
        snapshots = self._snapshot_store
        there = snapshots.names()
        name = next(free for again in range(1000) if (free := name_of(seq, again)) not in there)
        self.settle(snapshots.directory / name)
        if newest:
            snapshots.point(name)
        return snapshots.directory / name

    def settle(self, target: Path) -> None:
        """Flush every directory of it, and give it its name, in one step."""
        for directory, _, _ in os.walk(self.place, topdown=False):
            flush_directory(Path(directory))
        self.place.rename(target)
        flush_directory(target.parent)


def _order(name: str) -> tuple[int, int]:
    seq, _, again = name.partition("-")
    return int(seq), int(again or 0)


def flush_directory(path: Path) -> None:
    """Make sure that the names in a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turn what a disk can do to us into an Error."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise full(path) from error
        raise Error(
            Code.BUSY,
            f"{error.filename or path} cannot be written: {error.strerror or error}",
        ) from error


def full(path: Path) -> Error:
    """Return the refusal of a disk without room."""
    return Error(
        Code.BUSY,
        f"the disk that holds {path} is full; free some space, or remove an old snapshot with"
        " `rowcast snapshots remove`, and try again",
    )
