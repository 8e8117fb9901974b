"""Private files: readable by their owner only, whatever the umask; existing ones, too.

The files contain all records, so other users of the machine must not bypass the server's rights.
SQLite creates a database's write-ahead log and index with the mode of the database. The module does
not know the content of files.
"""

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Final

log = logging.getLogger("rowcast.store")

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
_OTHERS: Final = 0o077


def make_directory(path: Path) -> None:
    """Create a directory if it is missing. Raises OSError."""
    path.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)


def make_file(path: Path) -> None:
    """Create an empty file if it is missing. Raises OSError.

    An existing file is not opened: closing it would release SQLite's locks on it.
    """
    try:
        open_new(path).close()
    except FileExistsError:
        return


def open_new(path: Path) -> IO[bytes]:
    """Create a new file for writing. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, FILE_MODE), "wb")


def replace_file(path: Path, data: bytes) -> None:
    """Write a file that is there as before or whole, whatever happens. Raises OSError."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with open_new(fresh) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def open_to_append(path: Path) -> IO[str]:
    """Open a file, such as a lock, creating it if missing. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, FILE_MODE), "a", encoding="ascii")


def tighten(paths: Iterable[Path]) -> None:
    """Remove permissions of other users from files and directories of earlier versions."""
    for path in paths:
        try:
            mode = path.stat().st_mode
            if not mode & _OTHERS:
                continue
            path.chmod(mode & ~_OTHERS & 0o7777)
        except FileNotFoundError:
            continue
        except OSError as error:
            words = "%s can be read by others, and cannot be changed (%s); run: chmod go= %s"
            log.warning(words, path, error.strerror, path)
        else:
            log.warning("%s could be read by others; now its owner alone may", path)
