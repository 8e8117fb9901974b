"""Wiring of the archive: its directory, and the format of its files."""

from importlib import import_module
from importlib.util import find_spec
from typing import Final, cast

from rowcast.core.errors import Code, Error
from rowcast.features.archive.archiver import ArchiverBounds
from rowcast.features.archive.feature import LogArchive
from rowcast.features.archive.file_format import FileFormat
from rowcast.journal.follower_store import FollowerStore
from rowcast.program.parts import Parts

_FORMAT: Final = "rowcast_lake.archive.log_files"
"""A program beside the server, loaded where a setting asks for it."""
DIRECTORY: Final = "archive"
"""Its name in the data directory."""
_DAY_SECONDS: Final = 86_400


def archive_of(it: Parts) -> LogArchive | None:
    """Return the archive that the settings ask for; raises UNSUPPORTED without its library."""
    settings = it.config.log
    if not settings.archive:
        return None
    files = file_format("log.archive: true writes Parquet", ", or set log.archive: false")
    bounds = ArchiverBounds(keep_seconds=settings.archive_days * _DAY_SECONDS)
    follows = isinstance(it.store, FollowerStore)
    return LogArchive(it.store, it.config.data / DIRECTORY, files, bounds, writes=not follows)


def file_format(why: str, otherwise: str = "") -> FileFormat:
    """Return the format of archived files; raises UNSUPPORTED without its library."""
    if find_spec("pyarrow") is None:
        raise Error(
            Code.UNSUPPORTED,
            f"{why}, which needs pyarrow, and that is not installed: "
            f"pip install 'rowcast[parquet]'{otherwise}",
        )
    return cast("FileFormat", import_module(_FORMAT).ParquetFiles())
