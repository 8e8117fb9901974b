"""Places of snapshots: a local directory, or a server that serves their files.

Both have one layout: a directory for each cut, with a manifest and the files that it names.
"""

import io
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Protocol, Self, cast

from rowcast.core.errors import Code, Error
from rowcast.core.pipeline_limits import (
    EXPORT_POLL_SECONDS,
    EXPORT_SECONDS_MAX,
    LISTED_ATTEMPTS,
    LISTED_ROWS,
    REMOTE_BLOCK_BYTES,
)
from rowcast.core.places import is_object_store
from rowcast.core.snapshot_paths import plain_path
from rowcast_lake.spark.parts import MANIFEST, epochs_in
from rowcast_lake.spark.remote import Remote, path_of
from rowcast_lake.stores.object_paths import ObjectPath

NEWEST: Final = "newest"
ROWS: Final = "$SYS/snapshots"
"""The server's system rows of snapshots."""
FORMATS: Final = frozenset({1, 2, 3})
DONE: Final = "done"
"""The state of a successful export."""
Facts = Mapping[str, object]


def root_of(text: str) -> Path | ObjectPath:
    """Return a place of files by its path or URL."""
    return ObjectPath.of(text) if is_object_store(text) else Path(text).absolute()


class Place(Protocol):
    """A place that has the files of snapshots."""

    def resolve(self, snapshot: str) -> str:
        """Return the directory of a snapshot; ``newest`` may resolve to another one later."""

    def manifest(self, snapshot: str) -> Facts:
        """Return the manifest of a snapshot, by its directory; raises NOT_FOUND."""

    def open(self, snapshot: str, path: str) -> str | io.RawIOBase:
        """Return a file, as a path or as a seekable object."""

    def known(self, epoch: str) -> Sequence[str]:
        """Return the directories of the complete snapshots and increments of one log."""


@dataclass(frozen=True)
class Directory:
    """A directory of snapshots, or a single snapshot."""

    path: str

    def resolve(self, snapshot: str) -> str:
        """Resolve the symbolic link ``newest``."""
        link = Path(self.path) / snapshot
        return link.readlink().name if link.is_symlink() else snapshot

    def manifest(self, snapshot: str) -> Facts:
        """Read a manifest."""
        file = self._folder(snapshot) / MANIFEST
        try:
            return checked(json.loads(file.read_bytes()), str(file))
        except FileNotFoundError:
            raise Error(
                Code.NOT_FOUND,
                f"there is no snapshot {snapshot} at {self.path} ({file} is not there); make one "
                "with: rowcast export",
            ) from None

    def open(self, snapshot: str, path: str) -> str:
        """Return the path of a file."""
        return str(self._folder(snapshot) / path)

    def known(self, epoch: str) -> Sequence[str]:
        """Read the manifests that were not read before."""
        found = epochs_in(Path(self.path), self._seen)
        return [name for name, of_log in found if of_log == epoch]

    @cached_property
    def _seen(self) -> dict[str, str]:
        return {}

    def _folder(self, snapshot: str) -> Path:
        folder = Path(self.path)
        return folder if (folder / MANIFEST).is_file() else folder / snapshot


@dataclass(frozen=True)
class Stored:
    """Snapshots in an object store, by their URL; each process opens the store itself."""

    url: str

    @cached_property
    def _root(self) -> ObjectPath:
        return ObjectPath.of(self.url)

    @cached_property
    def _seen(self) -> dict[str, str]:
        return {}

    def __getstate__(self) -> dict[str, str]:
        return {"url": self.url}  # a connection is not pickled

    def resolve(self, snapshot: str) -> str:
        """Read the object ``newest``."""
        if snapshot != NEWEST:
            return snapshot
        try:
            return (self._root / NEWEST).read_text().strip()
        except FileNotFoundError:
            return snapshot
        except OSError as error:
            raise self._lost(error) from error

    def manifest(self, snapshot: str) -> Facts:
        """Read a manifest."""
        file = self._root / snapshot / MANIFEST
        try:
            return checked(json.loads(file.read_bytes()), str(file))
        except FileNotFoundError:
            raise Error(
                Code.NOT_FOUND,
                f"there is no snapshot {snapshot} at {self.url}; make one with: rowcast export "
                f"--out {self.url}",
            ) from None
        except OSError as error:
            raise self._lost(error) from error

    def open(self, snapshot: str, path: str) -> io.RawIOBase:
        """Open an object."""
        return cast("io.RawIOBase", (self._root / snapshot / path).open())

    def known(self, epoch: str) -> Sequence[str]:
        """Read the manifests that were not read before."""
        try:
            return [name for name, of_log in epochs_in(self._root, self._seen) if of_log == epoch]
        except OSError as error:
            raise self._lost(error) from error

    def _lost(self, error: OSError) -> Error:
        return Error(Code.BUSY, f"{self.url} cannot be reached: {error}")


@dataclass(frozen=True)
class Served:
    """The snapshots of a server; with ``export``, one is created when there is none."""

    remote: Remote
    export: bool = False

    def resolve(self, snapshot: str) -> str:
        """Query the server for the snapshot's name; creates one first if ``export`` is set."""
        if self.export and snapshot == NEWEST:
            self._make()
        return str(self._get(snapshot, path_of(ROWS, snapshot))["id"])

    def manifest(self, snapshot: str) -> Facts:
        """Fetch a manifest."""
        path = path_of(ROWS, snapshot, MANIFEST)
        return checked(self._get(snapshot, path), self.remote.url + path)

    def _get(self, snapshot: str, path: str) -> Facts:
        try:
            return cast("Facts", self.remote.get(path))
        except Error as error:
            if error.code is not Code.NOT_FOUND:
                raise
            raise Error(
                Code.NOT_FOUND,
                f"{self.remote.url} has no snapshot {snapshot}; make one with rowcast export, with "
                f"POST /{ROWS}/, or by the option export=true",
            ) from None

    def open(self, snapshot: str, path: str) -> "ServedFile":
        """Return a file that is read by ranges."""
        return ServedFile(self.remote, path_of(ROWS, snapshot, plain_path(path)))

    def known(self, epoch: str) -> Sequence[str]:
        """Query the server for what is there; anew when something was removed meanwhile."""
        for _ in range(LISTED_ATTEMPTS):
            rows = self._listed()
            if rows is not None:
                return [name for name, cut in rows.items() if cut.startswith(f"{epoch}:")]
        raise Error(Code.BUSY, f"{self.remote.url} removes snapshots all the time; try again")

    def _listed(self) -> dict[str, str] | None:
        """Return names and cuts; each page begins with the last row of the one before it."""
        found: dict[str, str] = {}
        asked = f"/{ROWS}/?state==complete&select(id,cut)"
        while True:
            at = max(0, len(found) - 1)
            rows = cast("list[Facts]", self.remote.get(f"{asked}&limit({at},{at + LISTED_ROWS})"))
            if found and (not rows or rows[0]["id"] != next(reversed(found))):
                return None
            found |= {str(row["id"]): str(row["cut"]) for row in rows}
            if len(rows) < LISTED_ROWS:
                return found

    def _make(self) -> None:
        """Request an export, and wait until it is done."""
        created = cast("Facts", self.remote.send("POST", f"/{ROWS}/", {}, again=False))
        name, waited = str(created["id"]), 0.0
        while waited < EXPORT_SECONDS_MAX:
            row = cast("Facts", self.remote.get(path_of(ROWS, name)))
            if row.get("error"):
                raise Error(Code.BUSY, f"the snapshot was not made: {row['error']}")
            if row.get("state") == DONE:
                return
            time.sleep(EXPORT_POLL_SECONDS)
            waited += EXPORT_POLL_SECONDS
        raise Error(Code.BUSY, f"the snapshot is not there after {EXPORT_SECONDS_MAX} seconds")


def checked(manifest: Facts, where: str) -> Facts:
    """Return a manifest if its format is supported; raises Error otherwise."""
    if manifest.get("format") not in FORMATS:
        known = " and ".join(map(str, sorted(FORMATS)))
        raise Error(
            Code.UNSUPPORTED,
            f"{where} has the format {manifest.get('format')!r}; this version reads {known}",
        )
    return manifest


class ServedFile(io.RawIOBase):
    """A file of a server, read by HTTP ranges; the last range is cached."""

    def __init__(self, remote: Remote, path: str) -> None:
        super().__init__()
        self._remote = remote
        self._path = path
        self._size = int(remote.head(path)["content-length"])
        self._at = 0
        self._block = b""
        self._start = 0

    def __enter__(self) -> Self:
        return self

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True: any offset can be read."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the offset."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        """Return the offset."""
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        end = self._size if size < 0 else min(self._at + size, self._size)
        if end <= self._at:
            return b""
        if not self._start <= self._at <= end <= self._start + len(self._block):
            last = min(max(end, self._at + REMOTE_BLOCK_BYTES), self._size)
            self._block = self._remote.part(self._path, self._at, last)
            self._start = self._at
        data = self._block[self._at - self._start : end - self._start]
        self._at = end
        return data

    def readinto(self, buffer: object) -> int:
        """Fill a buffer with the next bytes."""
        view = memoryview(cast("bytearray", buffer))
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)
