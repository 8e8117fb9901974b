"""What a schema changes in a database: reported before the server opens it, and nothing is changed.

A change is *safe*, or it is not: what was declared is no longer shown and is lost with the next
write of its record, or records need something before they can be written again, or the server would
refuse to start. Only the stored shapes and counts are read.
"""

# ruff: noqa: S608 - names are quoted and of the schema

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Cursor
from typing import NamedTuple

from rowcast.core.errors import Error
from rowcast.core.limits import STORE_BUSY_SECONDS
from rowcast.core.tables import Attribute, Table, Type
from rowcast.store.sql_migrate import WIDER, TableColumns, check_column, check_key, read_shape
from rowcast.store.sql_retype import check_retype
from rowcast.store.sql_rows import TYPED
from rowcast.store.sql_tables import EXTRA, FORM, TABLES, TOPICS, quoted, sql_name, value_attributes


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One change: the table or attribute, what happens, and whether nothing is lost or refused."""

    what: str
    description: str
    safe: bool = True


def schema_changes(file: Path, tables: Sequence[Table]) -> list[SchemaChange]:
    """Return what opening a database with these tables changes; ``file`` may be missing."""
    if not file.exists():
        return [SchemaChange(table.name, "new table") for table in tables]
    with _reading(file) as cursor:
        known = _stored(cursor)
        found: list[SchemaChange] = []
        for table in tables:
            old = known.pop(sql_name(table), None)
            if old is None:
                found.append(SchemaChange(table.name, "new table"))
                found += _hidden_by(cursor, table)
            else:
                found += _of_path(cursor, table, old.path)
                found += _of_table(cursor, table, old.shape)
        return found + [_dropped(cursor, name) for name in sorted(known)]


def tables_declared_otherwise(file: Path, tables: Sequence[Table]) -> set[str]:
    """Return the SQL names of stored tables with another path or type now, or not declared."""
    with _reading(file) as cursor:
        known = _stored(cursor)
    declared = {sql_name(table): table for table in tables}
    return {
        name
        for name, stored in known.items()
        if (table := declared.get(name)) is None
        or table.path != stored.path
        or any(_is_retyped(item, stored.shape) for item in value_attributes(table))
    }


class _Stored(NamedTuple):
    """What a database says of a table."""

    shape: TableColumns
    path: str | None


@contextmanager
def _reading(file: Path) -> Iterator[Cursor]:
    address = f"{file.resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, STORE_BUSY_SECONDS, uri=True)) as connection:
        yield connection.cursor()


def _stored(cursor: Cursor) -> dict[str, _Stored]:
    """Return the tables of a database by their SQL names.

    Topic tables have entries, too; their names begin with '/', which those of types cannot.
    """
    ask = (
        f"SELECT name,shape,path FROM {TABLES} WHERE shape<>'{{}}' AND NOT (name>='/' AND name<'0')"
    )
    return {name: _Stored(read_shape(text), path) for name, text, path in cursor.execute(ask)}


def _is_retyped(item: Attribute, old: TableColumns) -> bool:
    """Whether values of a column would be read as another type."""
    was = old.columns.get(item.name, item.type.value)
    return was != item.type.value and (Type(was), item.type) not in WIDER


def _hidden_by(cursor: Cursor, table: Table) -> Iterator[SchemaChange]:
    """Yield how many records of undeclared topics are where a table's records will be."""
    below = f"{table.path}/".replace("'", "''")
    bounds = f"topic>='{below}' AND topic<'{below[:-1]}0'"  # '0' follows '/'
    if table.path and (count := _count(cursor, TOPICS, bounds)):
        text = (
            f"{count} records of undeclared topics are below {below}: they stay in the database, "
            "and are no longer served there; to keep them, read them before and write them again"
        )
        yield SchemaChange(table.name, text, safe=False)


def _dropped(cursor: Cursor, name: str) -> SchemaChange:
    count = _count(cursor, name)
    if not count:
        return SchemaChange(name, "no longer declared; it has no records")
    text = f"no longer declared: its {count} records stay in the database, and are not served"
    return SchemaChange(name, text, safe=False)


def _of_path(cursor: Cursor, table: Table, before: str | None) -> Iterator[SchemaChange]:
    """Yield where the records of a table are served now, if that is not where they were."""
    if table.path == before:
        return
    count = _count(cursor, sql_name(table))
    if table.path is not None:
        was = "not exported" if before is None else f"at {before}"
        text = f"was {was}, is exported at {table.path}: its {count} records are served there"
        yield SchemaChange(table.name, text)
        yield from _hidden_by(cursor, table)
    elif count:
        text = f"no longer exported: its {count} records stay in the database, and are not served"
        yield SchemaChange(table.name, text, safe=False)
    else:
        yield SchemaChange(table.name, "no longer exported; it has no records")


def _of_table(cursor: Cursor, table: Table, old: TableColumns) -> Iterator[SchemaChange]:
    try:
        check_key(table, old)
    except Error as error:
        yield SchemaChange(table.name, f"refused: {error.message}", safe=False)
        return
    declared = {item.name: item for item in value_attributes(table)}
    for item in declared.values():
        yield from _of_attribute(cursor, table, item, old)
    for name in old.declared:
        if name not in declared:
            yield _removed(cursor, table, name)
    if table.sealed and (beside := _count(cursor, sql_name(table), _undeclared(declared))):
        text = f"sealed: {beside} records have undeclared attributes, and are refused when put back"
        yield SchemaChange(table.name, text, safe=False)


def _of_attribute(
    cursor: Cursor, table: Table, item: Attribute, old: TableColumns
) -> Iterator[SchemaChange]:
    what = f"{table.name}.{item.name}"
    try:
        if item.name not in old.columns:
            check_column(table, item, old.columns)
            yield SchemaChange(what, f"new attribute of type {item.type}")
        elif (was := Type(old.columns[item.name])) is not item.type:
            if (was, item.type) not in WIDER:
                check_retype(cursor, table, item, was)
            yield SchemaChange(what, f"was {was}, is {item.type}; all values stay")
        elif item.name not in old.declared:
            yield SchemaChange(what, "declared again; its values are shown again")
    except Error as error:
        yield SchemaChange(what, f"refused: {error.message}", safe=False)
        return
    missing = _missing(cursor, table, item, old) if item.required and item.role is None else 0
    if missing:
        text = f"required: {missing} records lack it, and need it at their next write"
        yield SchemaChange(what, text, safe=False)


def _removed(cursor: Cursor, table: Table, name: str) -> SchemaChange:
    count = _count(cursor, sql_name(table), f"{quoted(name)} IS NOT NULL")
    if not count:
        return SchemaChange(f"{table.name}.{name}", "no longer declared; it has no values")
    text = f"no longer declared: {count} values are hidden, and lost when their records are written"
    return SchemaChange(f"{table.name}.{name}", text, safe=False)


def _missing(cursor: Cursor, table: Table, item: Attribute, old: TableColumns) -> int:
    """Return how many records have no value of a required attribute."""
    beside = f"json_extract({quoted(EXTRA)},'$.{quoted(item.name)}') IS NULL"
    conditions = [beside]
    if item.name in old.columns:
        conditions.append(f"{quoted(item.name)} IS NULL")
    return _count(cursor, sql_name(table), " AND ".join([f"{quoted(FORM)}={TYPED}", *conditions]))


def _undeclared(declared: dict[str, Attribute]) -> str:
    """Return the condition of records with attributes that are not declared now."""
    names = ",".join(f"'{name}'" for name in declared)
    keys = f"SELECT 1 FROM json_each({quoted(EXTRA)}) WHERE key NOT IN ({names or 'NULL'})"
    return f"{quoted(FORM)}={TYPED} AND {quoted(EXTRA)} IS NOT NULL AND EXISTS ({keys})"


def _count(cursor: Cursor, name: str, where: str = "1") -> int:
    text = f"SELECT count(*) FROM {quoted(name)} WHERE {where}"
    return int(cursor.execute(text).fetchone()[0])
