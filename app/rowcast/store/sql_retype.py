"""Change of an attribute's type, if its column is empty or its type did not fit the values.

Values that do not fit a declared type are stored in ``_extra``, unchanged. Such a declaration can
be corrected: the column is recreated, all values move to ``_extra``, and those that fit the new
type then move into the column (``sql_migrate.py``); no value is lost. The type of a column whose
values all fit cannot be changed.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

from sqlite3 import Cursor

from sqlalchemy.dialects import sqlite

from rowcast.core.errors import Code, Error
from rowcast.core.tables import Attribute, Table, Type
from rowcast.store.sql_rows import TYPED, cell_value, dumps, loads
from rowcast.store.sql_tables import (
    EXTRA,
    FORM,
    column_type,
    index_prefix,
    key_name,
    quoted,
    sql_name,
)


def retype(cursor: Cursor, table: Table, item: Attribute, was: Type, working_rows: int) -> None:
    """Clear an attribute's column and change its type; raises INVALID if that would lose data.

    Its values become undeclared.
    """
    name, column = quoted(sql_name(table)), quoted(item.name)
    check_retype(cursor, table, item, was)
    _set_aside(cursor, table, item, was, working_rows)
    old, new = (column_type(type_).compile(dialect=sqlite.dialect()) for type_ in (was, item.type))
    if old != new:
        cursor.execute(
            f"DROP INDEX IF EXISTS {quoted(f'{index_prefix(sql_name(table))}{item.name}')}"
        )
        cursor.execute(f"ALTER TABLE {name} DROP COLUMN {column}")
        cursor.execute(f"ALTER TABLE {name} ADD COLUMN {column} {new}")


def check_retype(cursor: Cursor, table: Table, item: Attribute, was: Type) -> None:
    """Raise INVALID if an attribute's type cannot change without loss."""
    if not _may_change(cursor, table, item):
        raise Error(
            Code.INVALID,
            f"the attribute {table.name}.{item.name} was {was} and is now {item.type}; its values "
            f"cannot change type without loss, so keep {was}, or declare a new attribute and copy "
            "the values",
        )


def _may_change(cursor: Cursor, table: Table, item: Attribute) -> bool:
    """Whether the column has no values, or some record's value did not fit."""
    name, column, extra = quoted(sql_name(table)), quoted(item.name), quoted(EXTRA)
    filled = cursor.execute(f"SELECT 1 FROM {name} WHERE {column} IS NOT NULL LIMIT 1").fetchone()
    if filled is None:
        return True
    beside = cursor.execute(
        f"SELECT 1 FROM {name} WHERE {quoted(FORM)}={TYPED} AND {extra} IS NOT NULL"
        f" AND json_extract({extra},?) IS NOT NULL LIMIT 1",
        (f'$."{item.name}"',),
    ).fetchone()
    return beside is not None


def _set_aside(cursor: Cursor, table: Table, item: Attribute, was: Type, working_rows: int) -> None:
    """Move the values of a column to ``_extra``, in steps; existing values there win."""
    name, column, extra = quoted(sql_name(table)), quoted(item.name), quoted(EXTRA)
    key = quoted(key_name(table))
    while True:
        found = cursor.execute(
            f"SELECT {key},{column},{extra} FROM {name} WHERE {column} IS NOT NULL"
            f" LIMIT {working_rows}"
        ).fetchall()
        if not found:
            return
        cursor.executemany(
            f"UPDATE {name} SET {column}=NULL,{extra}=? WHERE {key}=?",
            [(_beside(item.name, cell_value(was, cell), other), row) for row, cell, other in found],
        )


def _beside(name: str, value: object, other: str | None) -> str:
    undeclared = loads(other) if other is not None else {}
    return dumps({name: value} | (undeclared if isinstance(undeclared, dict) else {}))
