"""Renames SQL tables of older files, whose version gave two declared tables one name.

The name of most tables is unchanged. The former name of the others was, or would have been, that of
another table, too, so the owner is checked before renaming. Newer files record the database of each
table.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

import json
from collections.abc import Sequence
from sqlite3 import Cursor

from rowcast.core.errors import Code, Error
from rowcast.core.tables import Table
from rowcast.store.sql_tables import TABLES, former_sql_name, index_prefix, quoted, sql_name


def rename_tables(cursor: Cursor, tables: Sequence[Table]) -> None:
    """Rename declared tables from their former names.

    It is done within the transaction that opens the tables.
    """
    by_name = {sql_name(table): table for table in tables}
    for table in tables:
        name, former = sql_name(table), former_sql_name(table)
        if name == former or _found(cursor, name) is not None:
            continue
        found = _found(cursor, former)
        if found is not None and _is_of(found, table, by_name.get(former)):
            _rename(cursor, former, name)


_Row = tuple[str | None, str]


def _found(cursor: Cursor, name: str) -> _Row | None:
    query = f"SELECT path,shape FROM {TABLES} WHERE name=?"
    found: _Row | None = cursor.execute(query, (name,)).fetchone()
    return found


def _is_of(row: _Row, table: Table, other: Table | None) -> bool:
    """Whether an entry belongs to a table, and not to another one with the same former name."""
    path, shape = row
    database = json.loads(shape).get("database")
    if database is not None or other is None:
        return database in {None, table.database}
    if path is None or path not in {table.path, other.path}:
        raise Error(
            Code.INVALID,
            f"the database has a table {former_sql_name(table)!r} that may be the one of "
            f"{table.own_name} in {table.database!r} or the one of {other.own_name} in "
            f"{other.database!r}; start the server once with only the one that made it in the "
            "schema",
        )
    return path == table.path


def _rename(cursor: Cursor, former: str, name: str) -> None:
    """Rename a table; its indexes, named after it, are recreated when it is opened."""
    found = cursor.execute(
        "SELECT name FROM sqlite_master WHERE type='index' AND tbl_name=?", (former,)
    ).fetchall()
    for (index,) in found:
        if index.startswith(index_prefix(former)):
            cursor.execute(f"DROP INDEX {quoted(index)}")
    cursor.execute(f"ALTER TABLE {quoted(former)} RENAME TO {quoted(name)}")
    cursor.execute(f"UPDATE {TABLES} SET name=? WHERE name=?", (name, former))
