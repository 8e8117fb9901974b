"""Where the files of an archive are: what the index needs of it, and a directory on a disk.

    <directory>/<number of the part>/source              the name of the part
    <directory>/<number of the part>/<after>-<last>.parquet

``rowcast_lake.archive.store_place`` has one in an object store. Every method blocks, and raises
OSError; ConnectionError means that the place is away for now.
"""

from pathlib import Path
from typing import Final, Protocol

from rowcast.log.segment import sync_directory
from rowcast.store.private import make_directory, replace_file

SOURCE: Final = "source"
"""The file with the name of the part."""


class ArchivePlace(Protocol):
    """A place for the files of one log, which are read at paths of this machine."""

    @property
    def directory(self) -> Path:
        """Where files are read and written; each part has a directory in it."""

    def folders(self) -> list[str]:
        """Return the folders that have files."""

    def names(self, folder: str) -> list[str]:
        """Return the names of a folder's files."""

    def source(self, folder: str) -> str:
        """Return the name of the part of a folder; empty where there is none."""

    def begin(self, folder: str, name: str) -> None:
        """Make the place of a folder's files; durable on return."""

    def put_aside(self, folder: str) -> str:
        """Let files of a folder be those of none; return where they are."""

    def sweep(self, folder: str) -> None:
        """Remove what an unfinished write in a folder left."""

    def size(self, path: Path) -> int:
        """Return the bytes of a file."""

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""

    def give_up(self, path: Path) -> None:
        """Keep no copy of a file that is not read any more. Raises nothing."""


class DiskPlace:
    """A directory of this machine."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def folders(self) -> list[str]:
        """Return the folders that have files."""
        places = list(self.directory.iterdir()) if self.directory.is_dir() else []
        return [place.name for place in places]

    def names(self, folder: str) -> list[str]:
        """Return the names of a folder's files."""
        try:
            return [path.name for path in self._of(folder).iterdir()]
        except FileNotFoundError:
            return []

    def source(self, folder: str) -> str:
        """Return the name of the part of a folder; empty where there is none."""
        try:
            return (self._of(folder) / SOURCE).read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    def begin(self, folder: str, name: str) -> None:
        """Make the directory of a folder's files."""
        place = self._of(folder)
        parents = (self.directory, *self.directory.parents[:2])
        for path in (*reversed(parents[:2]), place):
            make_directory(path)
        replace_file(place / SOURCE, name.encode())
        for path in (place, *parents):
            sync_directory(path)

    def put_aside(self, folder: str) -> str:
        """Rename the directory of a folder's files; return its new path."""
        place = self._of(folder)
        free = (place.with_name(f"{folder}.{again}") for again in range(1, 1 << 30))
        aside = next(path for path in free if not path.exists())
        return str(place.rename(aside))

    def sweep(self, folder: str) -> None:
        """Remove unfinished files of a folder."""
        for path in self._of(folder).glob("*.new"):
            path.unlink()

    def size(self, path: Path) -> int:
        """Return the bytes of a file."""
        return path.stat().st_size

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)

    def give_up(self, path: Path) -> None:
        """Do nothing: there are no copies."""

    def _of(self, folder: str) -> Path:
        return self.directory / folder
