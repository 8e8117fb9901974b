"""Wiring of the archive: where its files are, and their format."""

import shutil
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol, cast

from rowcast.core.errors import Code, Error
from rowcast.features.archive.archiver import ArchiverBounds
from rowcast.features.archive.disk_place import ArchivePlace, DiskPlace
from rowcast.features.archive.feature import LogArchive
from rowcast.features.archive.file_format import FileFormat
from rowcast.journal.follower_store import FollowerStore
from rowcast.program.config import Config
from rowcast.program.parts import Parts

_FORMAT: Final = "rowcast_lake.archive.log_files"
_STORES: Final = "rowcast_lake.archive.store_place"
"""Programs beside the server, loaded where a setting asks for them."""
DIRECTORY: Final = "archive"
"""Its name in the data directory."""
_CACHE: Final = "archive-cache"
"""The name of the directory with files of an archive in an object store."""
_DAY_SECONDS: Final = 86_400


class StoredArchive(ArchivePlace, FileFormat, Protocol):
    """An archive in an object store."""

    def copy(self, path: Path, other: "StoredArchive", target: Path) -> None:
        """Copy a file to ``target`` of another place of the store. Raises OSError."""


def archive_of(it: Parts) -> LogArchive | None:
    """Return the archive that the settings ask for; raises UNSUPPORTED without its library."""
    config, epoch = it.config, it.store.epoch
    if not config.log.archive:
        return None
    files = file_format("log.archive: true writes Parquet", ", or set log.archive: false")
    place: ArchivePlace = DiskPlace(config.data / DIRECTORY / epoch)
    follows = isinstance(it.store, FollowerStore)
    if config.log.archive_location:
        _check_moved(config, epoch)
        if config.cluster.name or not follows:
            _remove_others(config.data / _CACHE, epoch)
        place = files = stored_archive(config, epoch)
    bounds = ArchiverBounds(keep_seconds=config.log.archive_days * _DAY_SECONDS)
    shared = bool(config.cluster.name)
    return LogArchive(it.store, place, files, bounds, writes=not follows, shared=shared)


def stored_archive(config: Config, epoch: str) -> StoredArchive:
    """Return the archive of a log in the object store that the settings name."""
    file_format("log.archive_location names an object store")
    url, cache = config.log.archive_location, config.data / _CACHE
    made = import_module(_STORES).store_place(url, epoch, cache, config.log.archive_cache_bytes)
    return cast("StoredArchive", made)


def file_format(why: str, otherwise: str = "") -> FileFormat:
    """Return the format of archived files; raises UNSUPPORTED without its library."""
    if find_spec("pyarrow") is None:
        raise Error(
            Code.UNSUPPORTED,
            f"{why}, which needs pyarrow, and that is not installed: "
            f"pip install 'rowcast[parquet]'{otherwise}",
        )
    return cast("FileFormat", import_module(_FORMAT).ParquetFiles())


def _check_moved(config: Config, epoch: str) -> None:
    """Raise INVALID if there are files of the log on this disk, which would not be read."""
    here, url = config.data / DIRECTORY / epoch, config.log.archive_location
    if here.is_dir():
        raise Error(
            Code.INVALID,
            f"log.archive_location is {url}, and {here} has archived events; copy them to "
            f"{url}/{epoch} (aws s3 cp --recursive, rclone copy), and move that directory away",
        )


def _remove_others(cache: Path, epoch: str) -> None:
    """Remove cached files of other logs."""
    for place in cache.iterdir() if cache.is_dir() else ():
        if place.name != epoch:
            shutil.rmtree(place, ignore_errors=True)
