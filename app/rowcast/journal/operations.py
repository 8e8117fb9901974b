"""Operations: changes of the log and the tables that are no events, as part of a batch.

Each is a name and plain arguments, so that every node applies it at the same position with the same
result: a trim carries its limits and the time, not what it deletes.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast

from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource, TopicRoot, TopicTable
from rowcast.log.batch_content import Operation, TableOf
from rowcast.store.store import Keep

Argument = str | int | float | None
Arguments = tuple[Argument, ...]


class Operates(Protocol):
    """The part of the tables that operations call."""

    def reserve(self, seq: int) -> None:
        """Reserve numbers."""

    def return_versions(self, version: int) -> None:
        """Reset the last version."""

    def define(self, *tables: TopicTable) -> None:
        """Create topic tables."""

    def drop(self, table: TopicTable) -> None:
        """Drop a topic table."""

    def trim(self, source: LogSource, keep: Keep, now_seconds: float, limit: int) -> int:
        """Delete old events."""


def reserve(seq: int) -> Operation:
    """Return the operation that reserves numbers up to one."""
    return Operation("reserve", (seq,))


def return_versions(version: int) -> Operation:
    """Return the operation that resets the last version."""
    return Operation("return_versions", (version,))


def define(made: Sequence[TopicTable]) -> Operation:
    """Return the operation that creates topic tables, all or none."""
    return Operation("define", tuple(x for item in made for x in (item.name, item.branch.level)))


def drop(table: TopicTable) -> Operation:
    """Return the operation that drops a topic table."""
    return Operation("drop", (table.name, table.branch.level))


def trim(source: LogSource, keep: Keep, now_seconds: float, limit: int) -> Operation:
    """Return the operation that deletes a source's events beyond limits."""
    limits = (keep.seconds, keep.events, keep.bytes, now_seconds, limit)
    return Operation("trim", (*_source(source), *limits))


def _source(source: LogSource) -> tuple[str, str | None]:
    if isinstance(source, Table):
        return "table", source.name
    if isinstance(source, TopicRoot):
        return "root", source.level
    return "undeclared", None


def carry_out(operation: Operation, tables: Operates, table_of: TableOf) -> int:
    """Carry out an operation; return its result: how many events a trim deleted, else 0.

    Raises what the tables raise, and KeyError or ValueError for an unknown operation.
    """
    return _CALLS[operation.name](tables, operation.arguments, table_of)


def _reserve(tables: Operates, arguments: Arguments, _table_of: TableOf) -> int:
    (seq,) = arguments
    tables.reserve(cast("int", seq))
    return 0


def _return_versions(tables: Operates, arguments: Arguments, _table_of: TableOf) -> int:
    (version,) = arguments
    tables.return_versions(cast("int", version))
    return 0


def _define(tables: Operates, arguments: Arguments, _table_of: TableOf) -> int:
    pairs = zip(arguments[::2], arguments[1::2], strict=True)
    tables.define(*(_topic_table(name, level) for name, level in pairs))
    return 0


def _drop(tables: Operates, arguments: Arguments, _table_of: TableOf) -> int:
    name, level = arguments
    tables.drop(_topic_table(name, level))
    return 0


def _topic_table(name: Argument, level: Argument) -> TopicTable:
    return TopicTable(cast("str", name), TopicRoot(cast("str | None", level)))


def _trim(tables: Operates, arguments: Arguments, table_of: TableOf) -> int:
    kind, name, seconds, events, size, now_seconds, limit = arguments
    source: LogSource = None
    if kind == "table":
        source = table_of(cast("str", name))
        if source is None:  # it is not declared any more
            return 0
    elif kind == "root":
        source = TopicRoot(cast("str | None", name))
    keep = Keep(cast("float", seconds), cast("int", events), cast("int", size))
    return tables.trim(source, keep, cast("float", now_seconds), cast("int", limit))


_CALLS: Final[dict[str, Callable[[Operates, Arguments, TableOf], int]]] = {
    "reserve": _reserve,
    "return_versions": _return_versions,
    "define": _define,
    "drop": _drop,
    "trim": _trim,
}
