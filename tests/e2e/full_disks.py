"""Disks of a cluster that can be full: of a node, of its tables alone, and of what keeps the log.

Two kinds. A limit on the size of files, which anyone may set on a process of theirs (EFBIG); and
small file systems that are filled up (ENOSPC), for who may mount some. Those are mounted where no
other process sees them (``own_mounts``), and go with the program.
"""

import ctypes
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from clusters import Cluster, Node
from postgres_server import Postgres

CLONE_NEWNS = 0x00020000
"""unshare(2): a mount namespace of its own."""
FILL_BYTES = (1 << 20, 4096, 1)
"""Written at a time, until there is no room for that: to the last byte."""
SIZE = "120m"
"""Of a small file system: room for the files that an engine lays out at its start, and for all that
some hundred rounds write to the tables."""


class Disk(Protocol):
    """A disk that can be full."""

    def fill(self) -> None:
        """Take all room; called again and again, because whoever is told so may free some."""

    def free(self) -> None:
        """Give it back."""


class Limited:
    """Processes of a ``user`` whose files may not grow, nor be written at all."""

    def __init__(self, pids: Callable[[], Iterable[int]], user: Mapping[str, Any] | None) -> None:
        self._pids, self._user = pids, user or {}

    def fill(self) -> None:
        """Set the limit on all, and on those that were started since."""
        self._limit("0")

    def free(self) -> None:
        """Take the limit back; children have it of their parents."""
        self._limit("unlimited")

    def _limit(self, size: str) -> None:
        """Have it set by prlimit(1), as the user whose processes they are; some may have ended."""
        for pid in self._pids():
            command = ["prlimit", f"--pid={pid}", f"--fsize={size}:unlimited"]
            subprocess.run(command, capture_output=True, check=False, **self._user)


class Small:
    """File systems with a file that has all the rest."""

    def __init__(self, *places: Path) -> None:
        self._files = [place / "filler" for place in places]

    def fill(self) -> None:
        """Have the file grow until nothing is left."""
        for path in self._files:
            with path.open("ab", buffering=0) as file:
                for size in FILL_BYTES:
                    with suppress(OSError):
                        while file.write(bytes(size)) == size:
                            pass

    def free(self) -> None:
        """Remove the file."""
        for path in self._files:
            path.unlink()


def engines_of(node: Node) -> list[int]:
    """Return the process id of a node's NATS server; none while it is started again."""

    def is_engine(pid: int) -> bool:
        try:
            return b"nats-server" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:  # it has ended meanwhile
            return False

    return list(filter(is_engine, node.children))


def limited(what: str, node: Node, database: Postgres | None) -> Disk:
    """Return what stands for a disk of a node, its tables or its engine, by limits."""

    if what == "engine" and database is not None:
        return Limited(lambda: database.pids, database.user)
    if what == "engine":
        return Limited(lambda: engines_of(node), None)
    if what == "tables":
        return Limited(lambda: {node.running.pid, *node.children} - set(engines_of(node)), None)
    return Limited(lambda: [node.running.pid, *node.children], None)


def small(what: str, node: Node, database: Postgres | None) -> Disk:
    """Return the file systems of a node, its tables or its engine."""
    data = node.folder / "data"
    if what == "engine":
        return Small(data / "nats" if database is None else database.folder)
    if what == "tables" or database is not None:
        return Small(data)
    return Small(data, data / "nats")


def own_mounts() -> None:
    """See mounts from here on that no other process sees, but those that this one starts."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "this user may not mount a file system")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


@contextmanager
def mounted(place: Path) -> Iterator[None]:
    """Have a small file system at a place, for any user."""
    place.mkdir(parents=True, exist_ok=True)
    options = f"size={SIZE},mode=0777"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def places(cluster: Cluster, *, engines: bool) -> Iterator[Path]:
    """Return where nodes have file systems of their own; with ``engines`` those of NATS, too."""
    for node in cluster.nodes.values():
        yield node.folder / "data"
        if engines:
            yield node.folder / "data" / "nats"
