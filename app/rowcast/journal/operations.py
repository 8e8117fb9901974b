"""Operations: changes of the log and the tables that are no events, as part of a batch.

Each is a name and plain arguments, so that every node applies it at the same position with the same
result: a trim carries its limits and the time, not what it deletes.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast

from rowcast.core.events import DELETE, Event
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource, TopicRoot, TopicTable
from rowcast.log.batch_content import (
    ABANDON,
    GIVE_WAY,
    STAGE,
    SWITCH,
    Content,
    Operation,
    TableOf,
    decode_content,
    encode_content,
)
from rowcast.store.store import Keep, StagedCount, StagedPage

Argument = str | int | float | bytes | None
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

    def stage(self, table: Table, after: int, page: StagedPage, *, yields: bool = False) -> None:
        """Keep an invisible page of a large result."""

    def switch(self, last: int, counts: Sequence[StagedCount]) -> None:
        """Let all see it, in all its tables."""

    def abandon(self) -> None:
        """Delete the invisible pages."""


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


def stage(table: Table, after: int, page: StagedPage, *, yields: bool = False) -> Operation:
    """Return the operation that keeps a page of a result, whose numbers follow ``after``.

    ``page``: its events, and changes of facts. ``yields``: newer writes win over its rows.
    """
    operations = (Operation(GIVE_WAY, ()),) if yields else ()
    return Operation(STAGE, (table.name, after, encode_content(Content(*page, operations), after)))


def switch(last: int, counts: Sequence[StagedCount]) -> Operation:
    """Return the operation by which all see what was staged for tables, up to a number."""
    arguments: list[str | int] = []
    for table, count, size in counts:
        arguments += (table.name, count, size)
    first, *more = arguments or ("", 0, 0)
    return Operation(SWITCH, (first, last, *more))


def switched_tables(arguments: Arguments) -> tuple[int, list[tuple[str, int, int]]]:
    """Return the number up to which a switch goes, and names of tables, events, bytes."""
    name, last, *more = arguments
    counts = (name, *more)
    each = zip(counts[::3], counts[1::3], counts[2::3], strict=True)
    return cast("int", last), [cast("tuple[str, int, int]", one) for one in each]


def abandon() -> Operation:
    """Return the operation that forgets what was staged."""
    return Operation(ABANDON, ())


def _source(source: LogSource) -> tuple[str, str | None]:
    if isinstance(source, Table):
        return "table", source.name
    if isinstance(source, TopicRoot):
        return "root", source.level
    return "undeclared", None


def carry_out(
    operation: Operation, tables: Operates, table_of: TableOf, restore: Callable[[Event], None]
) -> int:
    """Carry out an operation; return its result: how many events it deleted or staged, else 0.

    ``restore`` decodes the value of an event of the log. Raises what the tables raise, and KeyError
    or ValueError for an unknown operation.
    """
    if operation.name == STAGE:
        return _stage(tables, operation.arguments, table_of, restore)
    return _CALLS[operation.name](tables, operation.arguments, table_of)


def _stage(
    tables: Operates, arguments: Arguments, table_of: TableOf, restore: Callable[[Event], None]
) -> int:
    name, after, data = arguments
    table = table_of(cast("str", name))
    if table is not None:
        content = decode_content(cast("bytes", data), cast("int", after), table_of)
        events, changes, operations, _ = content
        for event in events:
            if event.kind != DELETE:
                restore(event)
        yields = any(item.name == GIVE_WAY for item in operations)
        tables.stage(table, cast("int", after), (events, changes), yields=yields)
        return len(events)
    return 0


def _switch(tables: Operates, arguments: Arguments, table_of: TableOf) -> int:
    last, part = switched_tables(arguments)
    known = ((table_of(name), count, size) for name, count, size in part)
    counts = [(table, count, size) for table, count, size in known if table is not None]
    tables.switch(last, counts)
    return 0


def _abandon(tables: Operates, _arguments: Arguments, _table_of: TableOf) -> int:
    tables.abandon()
    return 0


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
    SWITCH: _switch,
    ABANDON: _abandon,
}
