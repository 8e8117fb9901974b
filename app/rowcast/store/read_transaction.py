"""A read transaction: one snapshot over a complete database file that may be in use.

It has its own read-only connection, and one read transaction for all tables: later commits are
invisible, so tables are consistent with each other. ``seq`` is the last number of the log within
it. Rows are returned as in SQL, sorted by key, in batches; the caller decodes them (``sql_rows``
documents rows, ``sql_tables`` columns).

While one is open, SQLite keeps its state, so the write-ahead log grows.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from rowcast.core.errors import Code, Error
from rowcast.core.events import Record
from rowcast.core.limits import STORE_BUSY_SECONDS
from rowcast.core.tables import Table, Type
from rowcast.core.topic_tables import TopicRoot, TopicTable
from rowcast.store import sql_log
from rowcast.store.overlay import ViewingConnection, begin
from rowcast.store.read_transaction_log import LogInTransaction, walk
from rowcast.store.records import Layout
from rowcast.store.sql_database import FILE_NAME, file_of, refuse
from rowcast.store.sql_log import HEAD
from rowcast.store.sql_migrate import FORMAT
from rowcast.store.sql_rows import Row, TableRows
from rowcast.store.sql_tables import (
    EXTRA,
    FORM,
    LOG,
    META,
    STATES,
    TABLES,
    TOPICS,
    key_name,
    quoted,
    sql_name,
    value_attributes,
)
from rowcast.store.sql_topic_tables import level_of

SYSTEM_COLUMNS: Final = (EXTRA, "_seq", "_version", "_client", "_properties")
"""The columns after a declared table's key and attributes."""
CONTENT_COLUMNS: Final = (FORM, "_payload", "_content_type")
"""The next columns, of a table whose rows may have content that is no value."""
MESSAGE_COLUMNS: Final = (
    "seq", "version", "topic", "payload", "qos", "retain", "client", "content_type", "kind",
    "properties",
)  # fmt: skip
"""The columns of a topic table's rows."""
RETAINED_COLUMNS: Final = (
    "topic", "payload", "content_type", "qos", "client", "properties", "expires", "seq", "version",
)  # fmt: skip
"""The columns of an undeclared topic's record."""

Key = int | str | None
"""The key of a row; None for none."""
STATE: Final = (
    HEAD,
    "SELECT schema_version FROM pragma_schema_version",
    f"SELECT name,CAST(value AS TEXT) FROM {META} ORDER BY name",
    f"SELECT name,shape FROM {TABLES} ORDER BY name",
)
"""Statements whose answers change when rows do: the log's head, the version of SQLite's schema, the
facts about the file, of which one is up to where the log is applied, and what tables are declared
as."""


@dataclass(frozen=True, slots=True)
class Range:
    """Rows of a table with keys beyond one and not beyond another."""

    after: Key
    upto: Key
    rows: int
    size: int
    """Bytes of their texts and blobs."""


def rows_statement(
    table: Table, names: Sequence[str], after: Key, upto: Key
) -> tuple[str, list[int | str]]:
    """Return the statement of ``ReadTransaction.rows``, and its values."""
    key = quoted(key_name(table))
    columns = ",".join((key, *map(quoted, names)))
    bounds = [(f"{key}>?", after), (f"{key}<=?", upto)]
    given = [(text, bound) for text, bound in bounds if bound is not None]
    within = f" WHERE {' AND '.join(text for text, _ in given)}" if given else ""
    text = f"SELECT {columns} FROM {quoted(sql_name(table))}{within} ORDER BY {key}"
    return text, [bound for _, bound in given]


@dataclass(frozen=True, slots=True)
class TableInTransaction:
    """A declared table within a read transaction."""

    table: Table
    records: int
    """The number of records at the last count, for progress reports."""
    mixed: bool
    """Whether some rows may have content that is no value of the table."""
    rest: bool
    """Whether some rows have undeclared attributes."""


@dataclass(frozen=True, slots=True)
class RootInTransaction:
    """A table of undeclared topics within a read transaction."""

    table: TopicTable
    number: int
    """The number of its part of the log."""
    since: int
    """The position up to which its events may be in the general part."""
    events: int
    """The number of events, for progress reports."""


class ReadTransaction:
    """An open read transaction of a database; created by ``open_read_transaction``."""

    def __init__(self, path: Path, cursor: sqlite3.Cursor) -> None:
        self.path = path
        self._cursor = cursor
        facts = dict(cursor.execute(f"SELECT name,value FROM {META}"))
        if facts.get("format") != FORMAT:
            raise Error(
                Code.INVALID,
                f"{path} was written by another version of the store (format "
                f"{facts.get('format')}, here {FORMAT}); start this version's server on it once, "
                "or read it with that version",
            )
        self.epoch = str(facts["epoch"])
        self.seq = sql_log.head(cursor)

    def declared(self, table: Table) -> TableInTransaction:
        """Return a table of the snapshot; raises INVALID when it differs from its declaration."""
        name = sql_name(table)
        found = self._ask(f"SELECT records,mixed,shape FROM {TABLES} WHERE name=?", name)
        if not found:
            raise Error(Code.INVALID, f"the table {name} is not in {self.path} yet; {_MEND}")
        records, mixed, text = cast("tuple[int | None, int | None, str]", found[0])
        shape = json.loads(text)
        for item in value_attributes(table):
            if item.name not in shape["declared"]:
                raise Error(
                    Code.INVALID,
                    f"the attribute {name}.{item.name} is not in {self.path} yet; {_MEND}",
                )
        if shape["key"][0] != key_name(table):
            raise Error(
                Code.INVALID,
                f"the key of {name} is {shape['key'][0]} in {self.path}, and {key_name(table)} in "
                f"the schema; {_MEND}",
            )
        return TableInTransaction(table, records or 0, bool(mixed), self._rest(table))

    def _rest(self, table: Table) -> bool:
        """Whether rows have undeclared attributes; True without a check where they are allowed."""
        if not table.sealed:
            return True
        text = f"SELECT 1 FROM {quoted(sql_name(table))} WHERE {quoted(EXTRA)} IS NOT NULL LIMIT 1"
        return bool(self._ask(text))

    @property
    def state(self) -> str:
        """What two cuts of one file have in common if they read the same rows."""
        return repr([self._ask(text) for text in STATE])

    @property
    def staged(self) -> bool:
        """Whether rows are elsewhere than in their tables, so that names need this connection."""
        return bool(cast("ViewingConnection", self._cursor.connection).overlay)

    def rows(
        self, table: Table, names: Sequence[str], after: Key = None, upto: Key = None
    ) -> Iterator[list[Row]]:
        """Return a table's rows: the key, and the named columns.

        Only those with keys beyond ``after`` and not beyond ``upto``, which None does not limit.
        """
        text, given = rows_statement(table, names, after, upto)
        return walk(self._cursor.connection, text, *given)

    def range_after(self, table: Table, after: Key, rows_max: int) -> Range:
        """Return the range of so many rows after a key, or after the beginning."""
        key = quoted(key_name(table))
        long = [item.name for item in value_attributes(table) if item.type not in _SHORT]
        columns = dict.fromkeys((key, *map(quoted, (*long, *_SYSTEM_TEXTS))))
        size = "+".join(f"ifnull(length(CAST({column} AS BLOB)),0)" for column in columns)
        within, given = ("", ()) if after is None else (f"WHERE {key}>?", (after,))
        text = f"SELECT {key} AS k,{size} AS size FROM {quoted(sql_name(table))} {within}"
        text = f"SELECT max(k),count(*),total(size) FROM ({text} ORDER BY {key} LIMIT {rows_max})"
        last, rows, size_in_all = self._ask(text, *given)[0]
        return Range(after, cast("Key", last), cast("int", rows), int(cast("float", size_in_all)))

    def records(self, table: Table) -> Iterator[list[Record]]:
        """Return a table's records, by key."""
        rows = TableRows(Layout(table))
        text = f"SELECT {','.join(rows.columns)} FROM {quoted(rows.name)} ORDER BY {rows.key}"
        for some in walk(self._cursor.connection, text):
            yield [rows.record(row) for row in some]

    def topic_tables(self) -> list[RootInTransaction]:
        """Return the tables of undeclared topics, in the order of their creation."""
        rows = self._ask(
            f"SELECT id,name,shape,events FROM {TABLES} WHERE name>='/' AND name<'0' ORDER BY id"
        )
        found: list[RootInTransaction] = []
        for number, entry, text, events in cast("list[tuple[int, str, str, int]]", rows):
            shape = json.loads(text)
            table = TopicTable(shape["name"], TopicRoot(level_of(entry)))
            found.append(RootInTransaction(table, number, shape["since"], events))
        return found

    def messages(self, branch: RootInTransaction) -> Iterator[list[Row]]:
        """Return a topic table's rows, as MESSAGE_COLUMNS, in the order of the log.

        Rows from before the table was created are in the general part.
        """
        columns = ",".join(MESSAGE_COLUMNS).replace("payload", "CAST(payload AS BLOB) AS payload")
        select = f"SELECT {columns} FROM {LOG} WHERE table_id"
        connection = self._cursor.connection
        own = f"{select}={branch.number}"
        if not branch.since:
            return walk(connection, f"{own} ORDER BY seq")
        level = branch.table.branch.level
        general = f"{select}=0 AND seq<={branch.since} AND"
        if level is None:
            return walk(connection, f"{general} instr(topic,'/')=0 UNION ALL {own} ORDER BY seq")
        text = f"{general} substr(topic,1,?)=? UNION ALL {own} ORDER BY seq"
        return walk(connection, text, len(level) + 1, f"{level}/")

    def retained(self, prefix: str = "") -> Iterator[list[Row]]:
        """Return the records of undeclared topics, as RETAINED_COLUMNS, in topic order.

        ``prefix``: only topics that begin with it; it ends in a slash.
        """
        columns = ",".join(RETAINED_COLUMNS)
        return walk(
            self._cursor.connection,
            f"SELECT {columns} FROM {TOPICS} WHERE topic>=? AND topic<? ORDER BY topic",
            prefix, _after(prefix),
        )  # fmt: skip

    def log(self, tables: Collection[Table]) -> LogInTransaction:
        """Return the log of the snapshot; ``tables`` are all declared tables."""
        return LogInTransaction(self._cursor.connection, tables)

    def facts(self, prefix: str) -> Iterator[list[tuple[str, str, bytes]]]:
        """Return the facts of owners that begin with ``prefix``, by owner and name.

        It ends in a slash.
        """
        rows = walk(
            self._cursor.connection,
            f"SELECT owner,name,value FROM {STATES} WHERE owner>=? AND owner<? ORDER BY owner,name",
            prefix, _after(prefix),
        )  # fmt: skip
        return cast("Iterator[list[tuple[str, str, bytes]]]", rows)

    def _ask(self, text: str, *values: object) -> list[Row]:
        return self._cursor.execute(text, values).fetchall()


_SYSTEM_TEXTS: Final = (EXTRA, "_client", "_properties")
_SHORT: Final = frozenset({Type.BOOLEAN, Type.INT, Type.LONG, Type.FLOAT, Type.DATE})
"""Types whose values have a few bytes."""


def _after(prefix: str) -> str:
    """Return the least text greater than all texts with this prefix."""
    return f"{prefix[:-1]}{chr(ord(prefix[-1]) + 1)}" if prefix else chr(0x10FFFF)


_MEND: Final = (
    "start the server once with this schema, or name the schema that the data is of with --schema"
)


@contextmanager
def open_read_transaction(url: str | Path) -> Iterator[ReadTransaction]:
    """Open a read transaction of the database at a path or URL."""
    path = file_of(url)
    if not path.is_file():
        raise Error(
            Code.NOT_FOUND,
            f"there is no data at {path}; name the data directory of a server with --data"
            f" (its file is {FILE_NAME})",
        )
    try:
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode=ro",
            STORE_BUSY_SECONDS,
            isolation_level=None,
            uri=True,
            factory=ViewingConnection,
        )
        with closing(connection):
            connection.execute("PRAGMA query_only=ON")
            cursor = connection.cursor()
            begin(cursor)
            yield ReadTransaction(path, cursor)
    except sqlite3.Error as error:
        refuse(error, path)
        raise
