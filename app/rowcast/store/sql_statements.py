"""Statements over many rows: their texts, and their sizes in rows.

A statement of many rows is one call of SQLite where ``executemany`` makes one for each row, and
with a busy event loop each return waits for the interpreter lock. The driver caches prepared
statements by their text, so the number of rows comes from a short list of sizes.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

import math
from collections.abc import Callable, Collection, Sequence
from sqlite3 import Cursor
from typing import Final, cast

from rowcast.core.limits import PRESENT_KEYS_MAX, STATEMENT_ROWS_MAX, STATEMENT_VARIABLES_MAX
from rowcast.store.records import Key
from rowcast.store.sql_rows import Cell, Row, Rows, loads
from rowcast.store.sql_tables import LOG

_SIZES: Final = (STATEMENT_ROWS_MAX, 50, 10, 3, 1)
_NONE: Final = "[]"
"""What SQLite makes of no keys as JSON."""
_NULL: Final = math.nan
"""What SQLite stores as NULL: it has no NaN (sqlite.org, "Floating Point Numbers", 2.2)."""


class Statement:
    """One statement over rows of ``width`` values, for any number of rows.

    With ``pads`` rows may be repeated to fill up a size, which saves a statement and must have no
    effect.
    """

    __slots__ = ("_pads", "_sizes", "_text_of", "_texts", "_width")

    def __init__(self, text_of: Callable[[int], str], width: int, *, pads: bool) -> None:
        self._text_of = text_of
        self._width = width
        self._pads = pads
        self._texts: dict[int, str] = {}
        self._sizes = tuple(size for size in _SIZES if size * width <= STATEMENT_VARIABLES_MAX)

    def run(self, cursor: Cursor, cells: Sequence[Cell]) -> list[Row]:
        """Run it for rows, given as one flat list of values; return its result rows."""
        width, rows, start = self._width, len(cells) // self._width, 0
        found: list[Row] = []
        for size in self._sizes:
            enough = max(1, size * 3 // 4) if self._pads else size
            while rows >= enough:
                text = self._texts.get(size)
                if text is None:
                    text = self._texts[size] = self._text_of(size)
                some = cells[start : start + size * width]
                if rows < size:
                    some = [*some, *list(some[-width:]) * (size - rows)]
                found += cursor.execute(text, some).fetchall()
                start, rows = start + size * width, rows - size
        return found


def marks(width: int) -> str:
    """Return the placeholders of one row."""
    return ",".join("?" * width)


def values(width: int, rows: int) -> str:
    """Return the placeholders of several rows."""
    return ",".join([f"({marks(width)})"] * rows)


def _bound(rows: Sequence[Row]) -> list[Cell]:
    """Return the cells of rows in one list, each as a type that sqlite3 binds at once.

    For each None, bytes and bool it would first look for an adapter (PEP 246) and find none, which
    takes longer than to bind it.
    """
    cells: list[Cell] = []
    for row in rows:
        for cell in row:
            if cell is None:
                cells.append(_NULL)
            elif type(cell) is bytes:
                cells.append(bytearray(cell))
            elif type(cell) is bool:
                cells.append(int(cell))
            else:
                cells.append(cell)
    return cells


class RecordStatements:
    """The statements that change and find the rows of one record table by key."""

    __slots__ = ("_existing", "_full", "_known", "_short", "_width", "delete", "find", "select")

    def __init__(self, rows: Rows, name: str = "") -> None:
        name, key, columns = f'"{name or rows.name}"', rows.key, rows.columns
        self._width = len(columns)
        self._known: set[Key] = set()
        """Keys that have a row for certain: of committed rows that nobody else has deleted."""
        self.select = f"SELECT {','.join(columns)} FROM {name}"
        cleared = [f"{column}=NULL" for column in rows.cleared]
        self._full = _upsert(name, columns, cleared)
        defaults = [f"{column}={default}" for column, default in rows.tail]
        self._short = _upsert(name, columns[: -len(defaults)], [*defaults, *cleared])
        self._existing = Statement(
            # One result row for all existing keys: each row returned costs a call into Python.
            lambda size: (
                f"SELECT json_group_array({key}) FROM {name} WHERE {key} IN ({marks(size)})"
            ),
            1,
            pads=True,
        )
        self.find = Statement(
            lambda size: f"{self.select} WHERE {key} IN ({marks(size)})", 1, pads=True
        )
        self.delete = Statement(
            lambda size: f"DELETE FROM {name} WHERE {key} IN ({marks(size)})", 1, pads=True
        )

    def present(self, cursor: Cursor, keys: Sequence[Key]) -> set[Key]:
        """Return which of these keys have a row."""
        present: set[Key] = set()
        asked: list[Key] = []
        for key in keys:
            if key in self._known:
                present.add(key)
            else:
                asked.append(key)
        if len(asked) == 1:
            if self._existing.run(cursor, asked)[0][0] != _NONE:
                present.add(asked[0])
        elif asked:
            for (text,) in self._existing.run(cursor, asked):
                present.update(cast("list[Key]", loads(text)))
        return present

    def learn(self, present: Collection[Key], deleted: Collection[Key]) -> None:
        """Note which keys have a row, and which have none any more, once that is committed."""
        self._known.difference_update(deleted)
        if len(self._known) + len(present) > PRESENT_KEYS_MAX:
            self._known.clear()
        if len(present) <= PRESENT_KEYS_MAX:
            self._known.update(present)

    def forget(self) -> None:
        """Ask the table again about each key: others may have deleted rows."""
        self._known.clear()

    def upsert(self, cursor: Cursor, rows: Sequence[Row]) -> None:
        """Insert or replace rows, short and full ones, by key."""
        width = self._width
        full = [row for row in rows if len(row) == width]
        if len(full) < len(rows):
            short = [row for row in rows if len(row) != width] if full else rows
            self._short.run(cursor, _bound(short))
        if full:
            self._full.run(cursor, _bound(full))


def _upsert(name: str, columns: Sequence[str], others: Sequence[str]) -> Statement:
    """Return the upsert of these columns that resets the others."""
    key = columns[0]
    names = ",".join(columns)
    changes = ",".join([*(f"{column}=excluded.{column}" for column in columns[1:]), *others])
    width = len(columns)
    return Statement(
        lambda size: (
            f"INSERT INTO {name} ({names}) VALUES {values(width, size)}"
            f" ON CONFLICT ({key}) DO UPDATE SET {changes}"
        ),
        width,
        pads=True,
    )


_LOG_HEAD: Final = "seq,table_id,topic,kind,version,qos,retain,client,content_type,payload"
LOG_COLUMNS: Final = f"{_LOG_HEAD},expires,properties"
"""The columns of the log, in the order of its rows."""


class LogStatement:
    """The statements that append to the log: with and without its last two columns."""

    __slots__ = ("_full", "_short", "_width")

    def __init__(self) -> None:
        self._full = _append(LOG_COLUMNS)
        self._short = _append(_LOG_HEAD)
        self._width = LOG_COLUMNS.count(",") + 1

    def write(self, cursor: Cursor, rows: Sequence[Row]) -> None:
        """Append rows that are all short or all full, so that they stay in order."""
        statement = self._full if len(rows[0]) == self._width else self._short
        statement.run(cursor, _bound(rows))


def _append(columns: str) -> Statement:
    width = columns.count(",") + 1
    return Statement(
        lambda size: f"INSERT INTO {LOG} ({columns}) VALUES {values(width, size)}",
        width,
        pads=False,  # each number occurs once in the log
    )
