"""The log within a read transaction: the events between two positions, in one consistent state.

Like the tables, it is read in batches while the server may write. Events of dropped topic
tables, which are still to be deleted, are left out; those of a table that is no longer declared
have their former topics.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Final, cast

from rowcast.core.events import Event
from rowcast.core.snapshot_limits import (
    SNAPSHOT_FETCH_BYTES,
    SNAPSHOT_FETCH_ROWS_FIRST,
    SNAPSHOT_FETCH_ROWS_MAX,
)
from rowcast.core.tables import Table
from rowcast.core.topic_tables import TopicRoot
from rowcast.store.records import Layout
from rowcast.store.sql_rows import Row, TableRows, properties_of
from rowcast.store.sql_statements import LOG_COLUMNS
from rowcast.store.sql_tables import FORMER, LOG, SEEN, TABLES, quoted, sql_name
from rowcast.store.sql_topic_tables import entry_name, level_of

_BETWEEN: Final = f"SELECT {LOG_COLUMNS} FROM {LOG} WHERE seq>? AND seq<=?"
_METRICS: Final = entry_name("$SYS")


@dataclass(frozen=True, slots=True)
class LogRow:
    """A row of the log at an undeclared topic, as in SQL."""

    seq: int
    topic: str
    kind: str
    version: int
    qos: int
    retain: int
    client: str
    content_type: str | None
    payload: bytes
    expires: float | None
    properties: str | None
    """As JSON."""


class LogInTransaction:
    """The log within one read transaction."""

    def __init__(self, connection: Connection, tables: Collection[Table]) -> None:
        self._connection = connection
        rows = connection.execute(f"SELECT id,name,path,trimmed FROM {TABLES} ORDER BY id")
        known = cast("list[tuple[int, str, str | None, int]]", rows.fetchall())
        self._numbers = {name: number for number, name, _, _ in known}
        declared = {sql_name(table) for table in tables}
        own = [(number, name, path) for number, name, path, _ in known if name not in declared]
        self._prefixes: Mapping[int, str] = {
            number: f"{path}/" if path else "" for number, name, path in own if not _hidden(name)
        }
        """The topic prefix of each part with events at undeclared topics."""
        self._trimmed_of = {number: trimmed for number, _, _, trimmed in known}
        self._trimmed = [(name, trimmed) for _, name, _, trimmed in known if not _hidden(name)]

    def gone(self, after: int) -> tuple[str, int] | None:
        """Return a part whose events after a position were trimmed, and the position of the trim.

        The server's metrics are ignored: they are only kept for a day.
        """
        former = self._connection.execute(f"SELECT branch,trimmed FROM {FORMER}").fetchall()
        for name, trimmed in (*self._trimmed, *former):
            if trimmed > after and name != _METRICS:
                return _shown(name), trimmed
        return None

    def of_table(self, table: Table, after: int, upto: int) -> Iterator[list[Event]]:
        """Return a declared table's events after a position, up to another."""
        number = self._numbers.get(sql_name(table))
        if number is None:
            return
        prefix = Layout(table).prefix
        text = f"{_BETWEEN} AND table_id=? ORDER BY seq"
        for rows in walk(self._connection, text, after, upto, number):
            yield [_event(row, table, prefix) for row in rows]

    def change(self, table: Table, topic: str, upto: int) -> Event | None:
        """Return the last put, patch or delete of a declared table's topic up to a position."""
        prefix = Layout(table).prefix
        text = (
            f"SELECT {LOG_COLUMNS} FROM {LOG} WHERE table_id=? AND topic=? AND seq<=?"
            " AND kind<>'message' ORDER BY seq DESC LIMIT 1"
        )
        facts = (self._numbers.get(sql_name(table)), topic.removeprefix(prefix), upto)
        row = self._connection.execute(text, facts).fetchone()
        return None if row is None else _event(row, table, prefix)

    def trimmed(self, table: Table) -> int:
        """Return up to where a declared table's events may be gone."""
        return self._trimmed_of.get(self._numbers.get(sql_name(table), -1), 0)

    def intervals(self, table: Table) -> Iterator[list[tuple[Event, int | None]]]:
        """Return the changes of a declared table's records, each with the time of the next change.

        Records whose last change was trimmed come first, as that change. The time is a version;
        None: there is no later change.
        """
        name, layout = sql_name(table), Layout(table)
        number = self._numbers.get(name)
        if number is None:
            return
        rows = TableRows(layout)
        text = (
            f"SELECT {','.join(rows.columns)} FROM {quoted(name)} AS r"
            f" WHERE NOT EXISTS (SELECT 1 FROM {LOG} WHERE seq=r._seq) ORDER BY _seq"
        )
        for some in walk(self._connection, text):
            yield [(rows.record(row), None) for row in some]
        columns = ",".join(f"l.{column}" for column in LOG_COLUMNS.split(","))
        changes = f"FROM {LOG} WHERE table_id=? AND seq<={SEEN} AND kind<>'message'"
        text = (
            f"SELECT {columns},n.ended FROM {LOG} AS l JOIN (SELECT seq,lead(version) OVER"
            f" (PARTITION BY topic ORDER BY seq) AS ended {changes}) AS n USING (seq) ORDER BY seq"
        )
        for some in walk(self._connection, text, number):
            yield [(_event(row, table, layout.prefix), cast("int | None", row[-1])) for row in some]

    def undeclared(self, after: int, upto: int) -> Iterator[list[LogRow]]:
        """Return events at undeclared topics after a position, up to another."""
        numbers = ",".join(map(str, self._prefixes))
        text = f"{_BETWEEN} AND table_id IN ({numbers}) ORDER BY seq"
        for rows in walk(self._connection, text, after, upto):
            yield [self._row(row) for row in rows]

    def branch(
        self, branch: TopicRoot, number: int, since: int, after: int, upto: int
    ) -> Iterator[list[LogRow]]:
        """Return the rows of a branch's part; earlier events are in the general part."""
        if after < since:
            for found in self.undeclared(after, min(since, upto)):
                older = [row for row in found if branch.has(row.topic)]
                if older:
                    yield older
        text = f"{_BETWEEN} AND table_id=? ORDER BY seq"
        for rows in walk(self._connection, text, max(after, since), upto, number):
            yield [self._row(row) for row in rows]

    def _row(self, row: Row) -> LogRow:
        seq, number, topic, kind, version, qos, retain, client, content_type = row[:9]
        prefix = self._prefixes[cast("int", number)]
        content = cast("bytes | str", row[9])
        payload = content if isinstance(content, bytes) else content.encode()
        facts = (seq, prefix + cast("str", topic), kind, version, qos, retain, client, content_type)
        return LogRow(*facts, payload, *row[10:])  # type: ignore[arg-type] # as LOG_COLUMNS says


def _hidden(name: str) -> bool:
    """Whether a part belongs to a dropped topic table (``sql_topic_tables``)."""
    return "0" <= name < ":"


def _shown(name: str) -> str:
    """Return a part's name for messages."""
    if not name.startswith("/"):
        return name or "undeclared topics"
    level = level_of(name)
    return "topics of one level" if level is None else f"{level}/#"


def _event(row: Row, table: Table, prefix: str) -> Event:
    seq, _, topic, kind, version, qos, retain, client, content_type, content = row[:10]
    payload = content if isinstance(content, bytes) else str(content).encode()
    return Event(
        prefix + cast("str", topic),
        cast("str", kind),
        payload,
        cast("str | None", content_type),
        cast("int", qos),
        retain == 1,
        table,
        cast("str", client),
        None if row[11] is None else properties_of(row[11]),
        cast("float", row[10] or 0.0),
        cast("int", seq),
        cast("int", version),
    )


def walk(connection: Connection, text: str, *values: object) -> Iterator[list[Row]]:
    """Return the rows of a statement in batches, bounded by their size in memory."""
    cursor = connection.execute(text, cast("Sequence[Row]", values))
    count = SNAPSHOT_FETCH_ROWS_FIRST
    while rows := cursor.fetchmany(count):
        yield rows
        size = sum(len(cell) for cell in rows[-1] if isinstance(cell, str | bytes))
        fitting = SNAPSHOT_FETCH_BYTES // (1 + size)
        count = max(1, min(fitting, 2 * count, SNAPSHOT_FETCH_ROWS_MAX))
