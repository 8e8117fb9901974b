"""The overlay: makes the staged rows of a switched result visible to a reading connection.

While they are being moved into their tables, the file says so (``OVERLAY``: each table, and what a
view of it is to select). A view of the connection's own (TEMP) has the name of the table, and
SQLite looks for a name there first, so each statement reads the rows where they are. Which views a
connection has must follow from the snapshot that it reads: it is looked at in the transaction,
which begins again when there have to be others.
"""

# ruff: noqa: S608 - names are quoted and of the schema

import json
from sqlite3 import Connection, Cursor
from typing import Final, cast

from rowcast.store.sql_tables import META, OVERLAY, quoted

_WANTED: Final = f"SELECT value FROM {META} WHERE name='{OVERLAY}'"


class ViewingConnection(Connection):
    """A connection that knows which views it has."""

    overlay = ""


def begin(cursor: Cursor) -> None:
    """Begin a read transaction whose names mean what its snapshot says."""
    connection = cast("ViewingConnection", cursor.connection)
    while True:
        cursor.execute("BEGIN")
        row = cursor.execute(_WANTED).fetchone()
        wanted = "" if row is None else str(row[0])
        if wanted == connection.overlay:
            return
        cursor.execute("ROLLBACK")
        _replace(cursor, connection.overlay, wanted)
        connection.overlay = wanted


def _replace(cursor: Cursor, known: str, wanted: str) -> None:
    (only,) = cursor.execute("PRAGMA query_only").fetchone()
    cursor.execute("PRAGMA query_only=OFF")  # for the views, which are in no file
    for name, _ in _views(known):
        cursor.execute(f"DROP VIEW temp.{quoted(name)}")
    for name, select in _views(wanted):
        cursor.execute(f"CREATE TEMP VIEW {quoted(name)} AS {select}")
    cursor.execute(f"PRAGMA query_only={only}")


def _views(text: str) -> list[tuple[str, str]]:
    """Return tables, and what their views select; earlier versions wrote those of one table."""
    views = json.loads(text) if text else []
    return [(views[0], views[1])] if views and isinstance(views[0], str) else views
