"""The snapshot store: the interface of a directory of snapshots, on a disk or in an object store.

``SnapshotDirectory`` is the one on a disk. The server has no library for object stores, so the
one for them is passed in (``rowcast_lake/snapshots/object_snapshot_store.py``).
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import IO, Any, Protocol, Self


class Stat(Protocol):
    """The facts of a file: those of ``os.stat_result`` that are used."""

    @property
    def st_size(self) -> int:
        """Its size in bytes."""

    @property
    def st_mtime(self) -> float:
        """When it was written, in seconds since 1970."""


class Folder(Protocol):
    """A place of files: of ``pathlib.Path`` what is used."""

    @property
    def name(self) -> str:
        """The last part of it."""

    def __truediv__(self, name: str, /) -> Self:
        """Return what is below it."""

    def iterdir(self) -> Iterable[Self]:
        """Return what is directly below it; raises FileNotFoundError."""

    def is_dir(self) -> bool:
        """Whether there is anything below it."""

    def rglob(self, pattern: str, /) -> Iterable[Self]:
        """Return what is below it at any depth."""

    def open(self, mode: Any, /) -> IO[bytes]:
        """Open a file for reading bytes."""

    def read_bytes(self) -> bytes:
        """Return what is in a file."""

    def stat(self) -> Stat:
        """Return the facts of a file; raises FileNotFoundError."""


class Making(Protocol):
    """A snapshot, or a page of changes, under construction."""

    @property
    def place(self) -> Any:
        """Where its files are written, a ``Folder``."""

    def aim(self, name: str) -> None:
        """Say which name it will have: where nothing can be renamed it is written there."""

    def write(self, name: str, text: str) -> None:
        """Write a small file: the manifest, by which it becomes complete."""

    def publish(self, seq: int, *, newest: bool = True) -> Any:
        """Let it be seen as the snapshot of a cut; return its place."""

    def settle(self, target: Any) -> None:
        """Let it be seen under this name."""


class SnapshotStore(Protocol):
    """Where snapshots stand."""

    @property
    def directory(self) -> Any:
        """The place, a ``Folder``."""

    def names(self) -> list[str]:
        """Return the snapshots that are there, the oldest cut first."""

    def pages(self) -> list[str]:
        """Return the pages of changes: ``changes/seq=a-b``, and ``merged/seq=a-b``."""

    def newest(self) -> str | None:
        """Return the snapshot that ``newest`` names."""

    def place(self, name: str) -> Any:
        """Return where a snapshot is; raises NOT_FOUND."""

    def making(self) -> AbstractContextManager[Making]:
        """Begin to make something."""

    def remove(self, name: str) -> None:
        """Remove a snapshot."""

    def remove_page(self, name: str) -> None:
        """Remove a page of changes."""

    def keep(self, count: int, since_seconds: float = 0) -> list[str]:
        """Remove all but so many of the newest, and those older than a time."""

    def pin(self, name: str) -> AbstractContextManager[Any]:
        """Hold a snapshot, and return its place."""

    def hold(self, name: str) -> "Held":
        """Hold a snapshot or page until what is returned is closed; raises NOT_FOUND."""

    def free(self, name: str) -> bool:
        """Whether nobody holds a snapshot or page."""


class Held(Protocol):
    """A snapshot that is held."""

    def close(self) -> None:
        """Give it free."""
