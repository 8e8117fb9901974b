"""The files of an upload, by which it is found again after any end of the server.

Two files with a name, in a folder of the data directory: its rows, and its notes, which say whose
it is, where the pages of each part are and what they sum up to, and as which results it was to be
committed. A part is there once its note is: its rows are synced before the note is written, and the
note before the part is answered. What a kill has left of the last note was answered to nobody, and
is cut off. When an upload was used last is the time of its notes.

It knows nothing of bounds and rights.
"""

import json
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final, cast
from uuid import uuid4
from zlib import crc32

from rowcast.log.segment import sync_directory
from rowcast.results.row_file import Page, RowFile, gone, not_kept
from rowcast.store.private import FILE_MODE, make_directory

DIRECTORY: Final = "uploads"
"""The folder within the data directory."""
NOTES: Final = ".notes"
ROWS: Final = ".rows"
_FRAME: Final = struct.Struct(">II")
"""Before each note: its length, and its checksum."""
_PART: Final = "part"
_COMMIT: Final = "commit"

Pages = Sequence[tuple[int, int, int, int]]
"""Place, size, rows and checksum of pages, as notes have them."""


@dataclass(frozen=True, slots=True)
class Title:
    """Whose upload it is, and under which rules its rows were checked."""

    name: str
    user: str
    table: str
    path: str
    """The path of the table."""
    epoch: str
    """The log for which it was begun."""
    rights: str
    """What differs for other rules of who may do what."""


class UploadFiles:
    """The files of one upload, made with its first part; methods that block are for threads."""

    def __init__(self, folder: Path, stem: str = "", size: int = 0) -> None:
        self._place = folder / (stem or uuid4().hex)
        self.rows = RowFile(None, self._place.with_suffix(ROWS), size)
        self._handle = -1
        self._closed = False
        self.noted = 0
        """Bytes of the notes."""
        self._lock = Lock()
        """Held while notes are written, one after the other."""

    def note_part(self, title: Title, part: str, pages: Sequence[Page], now: float) -> None:
        """Keep a part whose pages are written; it is durable on return. Raises BUSY."""
        places = [(page.at, page.size, page.rows, page.sum) for page in pages]
        try:
            if places:
                self.rows.sync()
            self._note(title, (_PART, part, places), now)
        except OSError as error:
            raise not_kept(error) from error

    def note_commit(self, title: Title, owner: str, number: int, now: float) -> None:
        """Keep as which result of which job it is about to be committed. Raises BUSY."""
        try:
            self._note(title, (_COMMIT, owner, number), now)
        except OSError as error:
            raise not_kept(error) from error

    def _note(self, title: Title, note: Sequence[object], now: float) -> None:
        with self._lock:
            if self._closed:
                raise gone()
            data = _framed(note)
            new = self._handle < 0
            if new:
                make_directory(self._place.parent)
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._handle = os.open(self._notes, flags, FILE_MODE)
                if not os.fstat(self._handle).st_size:
                    data = _framed(asdict(title)) + data
            self._append(data)
            os.utime(self._handle, (now, now))
            if new:
                sync_directory(self._place.parent)

    def _append(self, data: bytes) -> None:
        before = os.fstat(self._handle).st_size
        self.noted = before + len(data)
        try:
            while data:
                data = data[os.write(self._handle, data) :]
        except OSError:  # the disk is full: what comes later follows a whole note
            os.ftruncate(self._handle, before)
            raise
        self._closed = True  # unless it is durable: nobody knows after a sync that failed
        os.fdatasync(self._handle)
        self._closed = False

    @property
    def _notes(self) -> Path:
        return self._place.with_suffix(NOTES)

    def touch(self, now: float) -> None:
        """Keep that it is in use; nobody waits for the disk."""
        with self._lock, suppress(OSError):  # they may be open only once a note was written
            if not self._closed:
                os.utime(self._notes, (now, now))

    def discard(self) -> None:
        """Refuse all further reads and writes, at once."""
        self._closed = True
        self.rows.discard()

    def close(self) -> None:
        """Close the files, which stay."""
        self.rows.close()
        with self._lock:
            self._closed = True
            handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)

    def remove(self) -> None:
        """Remove the files; a kill leaves none without the rows that it notes."""
        self.close()
        for place in (self._notes, self._place.with_suffix(ROWS)):
            with suppress(OSError):
                place.unlink(missing_ok=True)


@dataclass(slots=True)
class FoundUpload:
    """An upload of an earlier run of the server."""

    title: Title
    files: UploadFiles
    touched: float
    parts: dict[str, list[Page]] = field(default_factory=dict)
    commits: list[tuple[str, int]] = field(default_factory=list)
    """As which results of which jobs it may have been committed."""


def found_uploads(folder: Path, is_of_now: Callable[[Title], bool]) -> list[FoundUpload]:
    """Return what is in a folder, the last one used first; the rest is removed.

    ``is_of_now`` says which uploads may go on. Raises no OSError: what cannot be read is left out.
    """
    found: dict[str, FoundUpload] = {}
    with suppress(OSError):
        stems = {place.stem for place in folder.iterdir() if place.suffix in {NOTES, ROWS}}
        for stem in stems:
            upload = _found(folder, stem)
            if upload is None or not is_of_now(upload.title):
                UploadFiles(folder, stem).remove()
                continue
            other = found.get(upload.title.name)
            older, newer = sorted((other or upload, upload), key=_touched)
            found[upload.title.name] = newer
            if older is not newer:
                older.files.remove()
    return sorted(found.values(), key=_touched, reverse=True)


def _touched(upload: FoundUpload) -> float:
    return upload.touched


def _found(folder: Path, stem: str) -> FoundUpload | None:
    """Read the notes of one upload, and cut off what is no whole note; None if they are none."""
    place = (folder / stem).with_suffix(NOTES)
    try:
        data, touched = place.read_bytes(), place.stat().st_mtime
        notes, whole = _read(data)
        title = Title(**cast("dict[str, str]", notes[0]))
        size = _size(place.with_suffix(ROWS))
        parts, commits = _parts_and_commits(notes[1:], size)
    except (OSError, ValueError, TypeError, IndexError):
        return None
    if whole < len(data):
        os.truncate(place, whole)
        os.utime(place, (touched, touched))
    upload = FoundUpload(title, UploadFiles(folder, stem), touched, parts, commits)
    upload.files.noted = whole
    ends = [page.at + page.size for pages in upload.parts.values() for page in pages]
    upload.files.rows.size = max(ends, default=0)
    if upload.files.rows.size < size:
        os.truncate(place.with_suffix(ROWS), upload.files.rows.size)
    return upload


def _parts_and_commits(
    notes: Sequence[object], size: int
) -> tuple[dict[str, list[Page]], list[tuple[str, int]]]:
    """Return what notes say of parts and commits, for rows of so many bytes."""
    parts, commits = dict[str, list[Page]](), list[tuple[str, int]]()
    for kind, name, what in cast("list[tuple[str, str, object]]", notes):
        if kind == _COMMIT:
            commits.append((name, cast("int", what)))
            continue
        pages = [Page(*page) for page in cast("Pages", what)]
        if all(page.at + page.size <= size for page in pages):  # else the disk has lost them
            parts[name] = pages
        else:
            parts.pop(name, None)
    return parts, commits


def _size(place: Path) -> int:
    try:
        return place.stat().st_size
    except FileNotFoundError:  # it has no rows yet
        return 0


def _framed(note: object) -> bytes:
    data = json.dumps(note).encode()
    return _FRAME.pack(len(data), crc32(data)) + data


def _read(data: bytes) -> tuple[list[object], int]:
    """Return the whole notes at the beginning of a file, and how many bytes they have."""
    notes, at = list[object](), 0
    for note, end in _frames(data):
        notes.append(json.loads(note))
        at = end
    return notes, at


def _frames(data: bytes) -> Iterator[tuple[bytes, int]]:
    at = 0
    while at + _FRAME.size <= len(data):
        size, known = _FRAME.unpack_from(data, at)
        note = data[at + _FRAME.size : at + _FRAME.size + size]
        if not size or len(note) < size or crc32(note) != known:
            return
        at += _FRAME.size + size
        yield note, at
