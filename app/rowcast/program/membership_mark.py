"""A file in the data directory of a node: which cluster its tables belong to.

Without it a node that is started as a server of its own would write a second history under the same
cursors. A backup has the file, and so has what is restored to follow the same log.
"""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.store.private import make_directory, make_file, open_to_append

FILE: Final = "cluster.json"
_LEFT: Final = "left"
_SEVERAL: Final = "several"
"""In the file: the node has left its cluster; its cluster has further nodes."""
LOCK: Final = "cluster.lock"
"""Beside it: the file that a node locks for its life."""


def mark(data: Path, name: str, epoch: str, *, several: bool = False) -> None:
    """Note that tables belong to a cluster. Raises CONFLICT if they belong to another one.

    ``several``: it has further nodes, which have the same log.
    """
    check_name(data, name)
    if not marked(data):
        make_file(data / FILE)
        (data / FILE).write_text(json.dumps({"name": name, "epoch": epoch}) + "\n")
    if several:
        _note(data, _SEVERAL)


def check_name(data: Path, name: str) -> None:
    """Raise CONFLICT if tables belong to another cluster than the one of this name."""
    known = marked(data)
    if known not in {"", name}:
        raise Error(
            Code.CONFLICT,
            f"the tables in {data} are those of the cluster {known}, and not of {name}; name that "
            "one with --cluster, or another directory with --data",
        )


def marked(data: Path) -> str:
    """Return the cluster that tables belong to; empty for those of a server of its own."""
    try:
        return str(json.loads((data / FILE).read_text())["name"])
    except FileNotFoundError:
        return ""
    except NotADirectoryError as error:
        what = f"the data directory {data} is a file; name another with --data"
        raise Error(Code.INVALID, what) from error
    except PermissionError as error:
        what = f"the data directory {data} belongs to another user ({error.strerror})"
        raise Error(
            Code.INVALID, f"{what}; run the command as that user, or name another with --data"
        ) from error
    except OSError as error:
        what = f"{data / FILE} cannot be read: {error.strerror}"
        raise Error(Code.INVALID, what) from error
    except (ValueError, KeyError, TypeError) as error:
        raise Error(Code.INVALID, f"{data / FILE} cannot be read; restore it") from error


def mark_left(data: Path) -> None:
    """Note that a node has left its cluster."""
    _note(data, _LEFT)


def _note(data: Path, word: str) -> None:
    known = json.loads((data / FILE).read_text())
    if word not in known:
        (data / FILE).write_text(json.dumps(known | {word: True}) + "\n")


def _is_noted(data: Path, word: str) -> bool:
    return bool(marked(data)) and word in json.loads((data / FILE).read_text())


def is_left(data: Path) -> bool:
    """Whether the node whose tables these are has left its cluster."""
    return _is_noted(data, _LEFT)


def check_others(data: Path) -> None:
    """Raise CONFLICT where one of several nodes would keep a log that the others do not have."""
    if _is_noted(data, _SEVERAL):
        raise Error(
            Code.CONFLICT,
            f"the tables in {data} are those of a node of the cluster {marked(data)}, which has "
            "further nodes; alone it would write a second history under the same cursors. Name "
            "all of them with --peer; if most are gone for good, restore all from a backup of this "
            'one (docs/cluster.md, "Backup and restore of a cluster")',
        )


def check_alone(data: Path) -> None:
    """Raise CONFLICT where a server of its own would change the tables of a cluster."""
    if known := marked(data):
        raise Error(
            Code.CONFLICT,
            f"the tables in {data} are those of a node of the cluster {known}; start it with "
            "--cluster, or make a server of its own from a backup: rowcast restore",
        )


@contextmanager
def locked(data: Path) -> Iterator[None]:
    """Keep a data directory from a second node, before it starts anything. Raises BUSY."""
    try:
        make_directory(data)
        opened = open_to_append(data / LOCK)
    except OSError as error:
        what = f"the lock file {data / LOCK} cannot be written: {error.strerror}"
        raise Error(Code.BUSY, what) from error
    with opened as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Error(
                Code.BUSY, f"another process runs a node on {data}; end it, or name another --data"
            ) from None
        yield
