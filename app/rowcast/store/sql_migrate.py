"""Schema migration: creates and changes SQL tables for a schema, without loss of data.

A table's ``shape`` is stored: the type of each column it has ever had. A new attribute gets a
column, and values that were undeclared so far move into it; a value that does not fit the new type
stays undeclared: reads return it, and queries see null. A dropped attribute keeps its column and
values; the next write of a record clears it. A type may be widened if every old value is valid in
the new type, and a type that did not fit the values may be reverted (``sql_retype.py``); any other
change is refused, because the conversion of old values is unknown.

All of it is one transaction: a schema is opened, or nothing changes.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from sqlite3 import Cursor
from typing import Final, cast

from sqlalchemy.dialects import sqlite

from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.tables import Attribute, Table, Type
from rowcast.core.values import Checker
from rowcast.store import sql_views
from rowcast.store.records import Key, Layout
from rowcast.store.sql_commit import LogPartition
from rowcast.store.sql_renaming import rename_tables
from rowcast.store.sql_retype import retype
from rowcast.store.sql_rows import TYPED, Cell, Row, Rows, TableRows, TopicRows
from rowcast.store.sql_tables import (
    EXTRA,
    FORM,
    META,
    TABLES,
    check_names,
    column_type,
    create_own_statements,
    create_statement,
    index_prefix,
    indexes,
    key_name,
    key_type,
    quoted,
    sql_name,
    value_attributes,
)

FORMAT: Final = "2"
"""Version of the file's format; unknown ones are refused."""

WIDER: Final = frozenset(
    {
        (Type.ID, Type.STRING),
        (Type.STRING, Type.ID),
        (Type.INT, Type.LONG),
        (Type.INT, Type.FLOAT),
        (Type.OBJECT, Type.ANY),
        (Type.LIST, Type.ANY),
    }
)
"""Allowed widenings, from type to type: every old value is valid and has the same SQL form."""


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The stored shape of an SQL table: its key and every column it ever had."""

    key: str
    key_type: str
    columns: dict[str, str]
    declared: tuple[str, ...]
    """The columns of its attributes at the last opening."""
    open: bool
    database: str | None = field(default=None, compare=False)
    """The database of the table; missing in files of versions with other names."""

    @property
    def text(self) -> str:
        """The shape as JSON."""
        return json.dumps(
            {
                "key": [self.key, self.key_type],
                "columns": self.columns,
                "declared": self.declared,
                "open": self.open,
                "database": self.database,
            }
        )


def _shape(table: Table, old: TableColumns | None) -> TableColumns:
    now = {item.name: item.type.value for item in value_attributes(table)}
    columns = (old.columns if old else {}) | now
    key, type_ = key_name(table), key_type(table).value
    return TableColumns(key, type_, columns, tuple(now), table.open, table.database)


def read_shape(text: str) -> TableColumns:
    """Return the shape that ``TableColumns.text`` wrote."""
    read = json.loads(text)
    key, type_ = read["key"]
    declared = tuple(read["declared"])
    return TableColumns(key, type_, read["columns"], declared, read["open"], read.get("database"))


def make_own_tables(cursor: Cursor, epoch: str) -> None:
    """Create missing tables of the store itself; refuse a file of another format."""
    present = {name for (name,) in cursor.execute("SELECT name FROM sqlite_master")}
    for name, statements in create_own_statements().items():
        if name not in present:
            for statement in statements:
                cursor.execute(statement)
    known = dict(cursor.execute(f"SELECT name,value FROM {META}"))
    if not known:
        facts = {
            "format": FORMAT,
            "epoch": epoch,
            "reserved": "0",
            "last_version": "0",
            "trimmed": "0",
        }
        cursor.executemany(
            f"INSERT INTO {META} (name,value) VALUES (?,?)",
            facts.items(),
        )
        cursor.execute(_INSERT_TABLE, (0, "", None, "{}"))
    elif known.get("format") == "1":
        _from_format_1(cursor)
    elif known.get("format") != FORMAT:
        raise Error(
            Code.INVALID,
            f"the database was written by another version of the store (format "
            f"{known.get('format')}, here {FORMAT}); export it with that version",
        )


def _from_format_1(cursor: Cursor) -> None:
    """Upgrade a file of format 1, without changing any row of the log or of a table.

    Records are counted once, at the next opening of their table.
    """
    cursor.execute(f"ALTER TABLE {TABLES} ADD COLUMN records BIGINT")
    cursor.execute(f"ALTER TABLE {TABLES} ADD COLUMN mixed BOOLEAN")
    cursor.execute(
        f"INSERT INTO {META} (name,value) SELECT 'trimmed',CAST(max(trimmed) AS TEXT) FROM {TABLES}"
    )
    cursor.execute(f"UPDATE {META} SET value=? WHERE name='format'", (FORMAT,))


_INSERT_TABLE: Final = (
    f"INSERT INTO {TABLES} (id,name,path,shape,trimmed,events,bytes) VALUES (?,?,?,?,0,0,0)"
)


def open_tables(cursor: Cursor, tables: Sequence[Table], working_rows: int) -> list[LogPartition]:
    """Migrate the database to this schema; return the general part and those of the tables."""
    check_names(tables)
    rename_tables(cursor, tables)
    parts = [_loaded(cursor, TopicRows(), 0)]
    for table in tables:
        name = sql_name(table)
        row = cursor.execute(
            f"SELECT id,shape FROM {TABLES} WHERE name=?",
            (name,),
        ).fetchone()
        if row is None:
            table_id, old = _make(cursor, table), None
        else:
            table_id, old = int(row[0]), read_shape(row[1])
            _drop_indexes(cursor, table)  # one of an expression may use a column that changes
            _change(cursor, table, old, working_rows)
        new = _shape(table, old)
        if old is not None and new != old:  # values may have moved
            cursor.execute(f"UPDATE {TABLES} SET records=NULL WHERE id=?", (table_id,))
        cursor.execute(
            f"UPDATE {TABLES} SET path=?,shape=? WHERE id=?",
            (table.path, new.text, table_id),
        )
        _set_indexes(cursor, table)
        parts.append(_loaded(cursor, _rows(table, new), table_id))
    return parts


def _rows(table: Table, shape: TableColumns) -> TableRows:
    return TableRows(Layout(table), sorted(set(shape.columns) - set(shape.declared)))


def _make(cursor: Cursor, table: Table) -> int:
    """Create a missing table; return its number in the log."""
    name = sql_name(table)
    sql_views.give_way(cursor, name)
    taken = cursor.execute(
        "SELECT name FROM sqlite_master WHERE lower(name)=lower(?)", (name,)
    ).fetchone()
    if taken is not None:
        raise Error(
            Code.INVALID,
            f"the database already has {taken[0]!r}, which this server did not make as {name!r} "
            "(SQL does not tell capitals apart); rename the one or the other",
        )
    cursor.execute(create_statement(table))
    (table_id,) = cursor.execute(f"SELECT max(id)+1 FROM {TABLES}").fetchone()
    cursor.execute(_INSERT_TABLE, (table_id, name, table.path, "{}"))
    return int(table_id)


def _loaded(cursor: Cursor, rows: Rows, table_id: int) -> LogPartition:
    """Return a table's part with its counts; unknown ones are counted once."""
    part = LogPartition(rows, table_id)
    part.trimmed, part.events, part.bytes, records, mixed = cursor.execute(
        f"SELECT trimmed,events,bytes,records,mixed FROM {TABLES} WHERE id=?",
        (table_id,),
    ).fetchone()
    if records is None:
        others = f"total({quoted(FORM)}<>{TYPED})" if rows.layout.typed else "0"
        records, mixed = cursor.execute(
            f"SELECT count(*),{others}>0 FROM {quoted(rows.name)}"
        ).fetchone()
        cursor.execute(
            f"UPDATE {TABLES} SET records=?,mixed=? WHERE id=?", (records, mixed, table_id)
        )
    part.count, part.mixed = records, bool(mixed)
    return part


# -- changes of an existing table ------------------------------------------------------------------


def _change(cursor: Cursor, table: Table, old: TableColumns, working_rows: int) -> None:
    """Migrate an existing table to its declared attributes."""
    check_key(table, old)
    name = quoted(sql_name(table))
    retyped: set[str] = set()
    for item in value_attributes(table):
        if item.name in old.columns:
            was = Type(old.columns[item.name])
            if item.type is not was and (was, item.type) not in WIDER:
                retype(cursor, table, item, was, working_rows)
                retyped.add(item.name)
        else:
            check_column(table, item, old.columns)
            type_ = column_type(item.type).compile(dialect=sqlite.dialect())
            cursor.execute(f"ALTER TABLE {name} ADD COLUMN {quoted(item.name)} {type_}")
    known = set(old.declared) - retyped
    new = [item for item in value_attributes(table) if item.name not in known]
    if not table.open and (new or old.open):
        _move(cursor, table, old, new, working_rows)


def check_key(table: Table, old: TableColumns) -> None:
    """Raise INVALID when a table's key has changed."""
    name, type_ = key_name(table), key_type(table).value
    if (name, type_) != (old.key, old.key_type):
        raise Error(
            Code.INVALID,
            f"the key of the table {table.name} was {old.key} ({old.key_type}) and is now {name} "
            f"({type_}); ids cannot change, so keep the key, or give the table a new name and copy "
            "its records",
        )


def check_column(table: Table, item: Attribute, columns: Iterable[str]) -> None:
    """Raise INVALID when a new attribute would be the column of a former one."""
    same = next((name for name in columns if name.lower() == item.name.lower()), None)
    if same is not None:
        raise Error(
            Code.INVALID,
            f"the attribute {table.name}.{item.name} would be the same SQL column as the former "
            f"{same!r}, because names of columns do not tell capitals apart; choose another name",
        )


def _move(
    cursor: Cursor,
    table: Table,
    old: TableColumns,
    new: Sequence[Attribute],
    working_rows: int,
) -> None:
    """Move undeclared values into new columns, in steps."""
    shape = _shape(table, old)
    rows = _rows(table, shape)
    key = rows.key
    columns = ",".join(rows.columns)
    update = ",".join(f"{column}=?" for column in rows.columns[1:])
    beyond, after = "", list[Cell]()
    while True:
        found: list[Row] = cursor.execute(
            f"SELECT {columns} FROM {quoted(rows.name)} WHERE {quoted(EXTRA)} IS NOT NULL"
            f" {beyond} ORDER BY {key} LIMIT {working_rows}",
            after,
        ).fetchall()
        if not found:
            return
        changed = [moved for row in found if (moved := _moved(rows, row, new)) is not None]
        cursor.executemany(
            f"UPDATE {quoted(rows.name)} SET {update} WHERE {key}=?",
            [(*row[1:], row[0]) for row in changed],
        )
        beyond, after = f"AND {key}>?", [found[-1][0]]


def _moved(rows: TableRows, row: Row, new: Sequence[Attribute]) -> Row | None:
    """Return a row with its values moved to their columns; None when nothing changes."""
    value = rows.value(row)
    if not isinstance(value, dict):
        return None  # plain bytes, or a value that is no object: unchanged
    misfits: dict[str, object] = {}
    for item in new:
        if value.get(item.name) is not None:
            _fit(item, value, misfits)
    record = rows.record(row)
    event = Event(
        record.topic,
        record.kind,
        b"",
        None,
        record.qos,
        True,
        record.table,
        record.client,
        record.properties,
        record.expires_at,
        record.seq,
        record.version,
        value,
    )
    return rows.row_with(cast("Key", row[0]), event, misfits)


def _fit(item: Attribute, value: dict[str, object], misfits: dict[str, object]) -> None:
    """Convert one value to its new type, or remove it when it does not fit."""
    lone = replace(item, required=False, role=None)
    checker = Checker(Table("", None, (lone,)))
    try:
        fitting = cast("dict[str, object]", checker.check({item.name: value[item.name]}))
    except Error:
        misfits[item.name] = value.pop(item.name)
    else:
        value.update(fitting)


def _set_indexes(cursor: Cursor, table: Table) -> None:
    """Create missing indexes and drop those that are no longer declared."""
    name = sql_name(table)
    wanted = indexes(table)
    present = _drop_indexes(cursor, table)
    for index in sorted(wanted.keys() - present):
        cursor.execute(f"CREATE INDEX {quoted(index)} ON {quoted(name)} {wanted[index]}")


def _drop_indexes(cursor: Cursor, table: Table) -> set[str]:
    """Drop the indexes that are no longer declared; return the names of those that stay."""
    name = sql_name(table)
    wanted = indexes(table)
    found = cursor.execute(
        "SELECT name FROM sqlite_master WHERE type='index' AND tbl_name=?", (name,)
    ).fetchall()
    present = {row[0] for row in found if row[0].startswith(index_prefix(name))}
    for index in sorted(present - wanted.keys()):
        cursor.execute(f"DROP INDEX {quoted(index)}")
    return present & wanted.keys()
