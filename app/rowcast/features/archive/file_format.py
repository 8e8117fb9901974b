"""The format of archived files, as the archive needs it; ``rowcast_lake.archive`` has one."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from rowcast.store.sql_rows import Row


class Group(NamedTuple):
    """A group of rows of a file, which is decoded as a whole."""

    first: int
    last: int
    """The numbers of its first and its last row."""
    newest: int
    """The greatest version of its rows."""


class OpenFile(Protocol):
    """A file that is read."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

    def groups(self) -> tuple[Group, ...]:
        """Return its groups, in order."""

    def rows(self, index: int, topic: str | None = None) -> list[Row]:
        """Return the rows of a group, all or those at a topic."""


class FileFormat(Protocol):
    """Opens and writes files; every method blocks, and raises OSError."""

    def open(self, path: Path) -> OpenFile:
        """Open a file; FileNotFoundError if it is gone."""

    def groups(self, path: Path) -> tuple[Group, ...]:
        """Return the groups of a file, without the rest of it where that is far away."""

    def write(self, path: Path, rows: Iterable[Row], facts: Mapping[str, object]) -> None:
        """Write a file that is there whole or not at all; on return it is durable."""

    def merge(self, paths: Sequence[Path], path: Path, facts: Mapping[str, object]) -> None:
        """Write a file with the rows of others, in their order."""

    def cut(self, path: Path, target: Path, upto: int, facts: Mapping[str, object]) -> None:
        """Write a file with the rows of another up to a number."""
