"""Files that only their owner may read: whatever the umask is, and older ones too.

What is kept is everybody's records, so other users of the machine must not read it beside the
server, where nobody asks for their rights. SQLite gives a database's log and index the mode of the
database. It must not know what is in a file.
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
    """Make a directory that is not there yet. Raises OSError."""
    path.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)


def make_file(path: Path) -> None:
    """Make an empty file where there is none. Raises OSError.

    One that is there is not opened: to close it again would give up SQLite's locks on it.
    """
    try:
        open_new(path).close()
    except FileExistsError:
        return


def open_new(path: Path) -> IO[bytes]:
    """Open a file that is not there yet, to write it. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, FILE_MODE), "wb")


def open_to_append(path: Path) -> IO[str]:
    """Open a file, such as a lock, that is made if it is not there. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, FILE_MODE), "a", encoding="ascii")


def tighten(paths: Iterable[Path]) -> None:
    """Take others' rights to files and directories away, which an earlier version left them."""
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
