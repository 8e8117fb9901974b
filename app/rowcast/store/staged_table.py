"""The staged rows of one table: a table beside it, with its columns and indexes.

A deletion is a row with the form -1. Rows are written and removed while nobody sees them; from the
switch of their result on, a view has them over those of the table, until they are moved there. All
of it is within the transactions of ``sql_staged.py``.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

from collections.abc import Iterator, Sequence
from sqlite3 import Cursor
from typing import Final

from rowcast.core.events import DELETE, Event
from rowcast.store.records import Key
from rowcast.store.sql_commit import LogPartition
from rowcast.store.sql_statements import RecordStatements, marks
from rowcast.store.sql_tables import FORM, STAGED, TABLES, indexes, quoted

_GONE: Final = -1
"""The form of a row that stands for a deletion."""
_FOLDED_MAX: Final = 500
"""Keys in one statement that moves the rows of a write: SQLite takes 32,766 values."""
_ALL: Final = "1"


class StagedTable:
    """The staged rows of one table, the ``number``-th of the result."""

    def __init__(self, cursor: Cursor, name: str, number: int) -> None:
        self.name = name
        """The SQL table that they are for."""
        self.beside = _beside(number)
        """The SQL table that they are in."""
        columns = cursor.execute(f"PRAGMA table_info({quoted(self.beside)})").fetchall()
        self._key = next((quoted(row[1]) for row in columns if row[5]), "")
        self._statements: RecordStatements | None = None

    @classmethod
    def make(cls, cursor: Cursor, part: LogPartition, number: int) -> "StagedTable":
        """Create it, without rows."""
        name, table, beside = part.rows.name, part.rows.layout.table, _beside(number)
        (text,) = cursor.execute("SELECT sql FROM sqlite_master WHERE name=?", (name,)).fetchone()
        cursor.execute(f"CREATE TABLE {quoted(beside)} {text[text.index('(') :]}")
        for index, what in enumerate(indexes(table).values() if table is not None else ()):
            cursor.execute(f'CREATE INDEX "{beside}.{index}" ON {quoted(beside)} {what}')
        return cls(cursor, name, number)

    def drop(self, cursor: Cursor) -> None:
        """Delete it with its rows."""
        cursor.execute(f"DROP TABLE IF EXISTS {quoted(self.beside)}")

    def _columns(self, cursor: Cursor) -> list[str]:
        rows = cursor.execute(f"PRAGMA table_info({quoted(self.beside)})")
        return [quoted(row[1]) for row in rows]

    # -- staging -----------------------------------------------------------------------------------

    def write(self, cursor: Cursor, part: LogPartition, events: Sequence[Event]) -> None:
        """Write what events make of records."""
        if self._statements is None:
            self._statements = RecordStatements(part.rows, self.beside)
        key = part.rows.layout.key
        puts = [part.rows.row(key(it.topic), it) for it in events if it.kind != DELETE]
        if puts:
            self._statements.upsert(cursor, puts)
            if part.rows.mixes(puts):
                cursor.execute(f"UPDATE {TABLES} SET mixed=1 WHERE id=?", (part.table_id,))
        cursor.executemany(
            f"INSERT OR REPLACE INTO {quoted(self.beside)} ({part.rows.key},{FORM},_seq)"
            f" VALUES (?,{_GONE},?)",
            [(key(it.topic), it.seq) for it in events if it.kind == DELETE],
        )

    def taken(self, cursor: Cursor, keys: Sequence[Key]) -> Iterator[dict[Key, int]]:
        """Remove the rows at keys, some at a time; yield the numbers of their events."""
        for some in _divided(keys):
            at = f"{self._key} IN ({marks(len(some))})"
            text = f"SELECT {self._key},_seq FROM {quoted(self.beside)} WHERE {at}"
            found = dict(cursor.execute(text, some).fetchall())
            if found:
                cursor.execute(f"DELETE FROM {quoted(self.beside)} WHERE {at}", some)
                yield found

    def sweep(self, cursor: Cursor, limit: int) -> int:
        """Delete up to so many rows; return how many."""
        beside = quoted(self.beside)
        rows = f"SELECT {self._key} FROM {beside} ORDER BY {self._key} LIMIT ?"
        return cursor.execute(
            f"DELETE FROM {beside} WHERE {self._key} IN ({rows})", (limit,)
        ).rowcount

    def complete(self, cursor: Cursor) -> None:
        """Add the columns that the table got by a restart while this was staged."""
        known = set(self._columns(cursor))
        columns = cursor.execute(f"PRAGMA table_info({quoted(self.name)})").fetchall()
        for _, name, kind, *_ in columns:
            if quoted(name) not in known:
                added = f"{quoted(name)} {kind}"
                cursor.execute(f"ALTER TABLE {quoted(self.beside)} ADD COLUMN {added}")

    # -- the switch --------------------------------------------------------------------------------

    def view(self, cursor: Cursor) -> str:
        """Return what the view selects that has the staged rows over those of the table."""
        columns, key, beside = ",".join(self._columns(cursor)), self._key, quoted(self.beside)
        return (
            f"SELECT {columns} FROM main.{quoted(self.name)} AS t WHERE NOT EXISTS"
            f" (SELECT 1 FROM main.{beside} AS s WHERE s.{key}=t.{key})"
            f" UNION ALL SELECT {columns} FROM main.{beside} WHERE {FORM}>{_GONE}"
        )

    # -- afterwards --------------------------------------------------------------------------------

    def fold(self, cursor: Cursor, keys: Sequence[Key]) -> int:
        """Move the rows at some keys, which are about to be written; return how many are new."""
        moved = 0
        for some in _divided(keys):
            moved += self._move(cursor, f"s.{self._key} IN ({marks(len(some))})", some)
        return moved

    def move(self, cursor: Cursor) -> int:
        """Move all rows into the table; return how many records it has more."""
        return self._move(cursor, _ALL, ())

    def move_some(self, cursor: Cursor, limit: int) -> int | None:
        """Move up to so many rows; return how many records are new, None if no row was left."""
        text = f"SELECT {self._key} FROM {quoted(self.beside)} ORDER BY {self._key} LIMIT 1 OFFSET"
        last = cursor.execute(f"{text} ?", (limit - 1,)).fetchone()
        if last is not None:
            return self._move(cursor, f"s.{self._key}<=?", last)
        left = cursor.execute(f"{text} 0").fetchone()
        return None if left is None else self.move(cursor)

    def new(self, cursor: Cursor, where: str = _ALL, values: Sequence[object] = ()) -> int:
        """Return how many records the table has more with these rows than without."""
        name, key, beside = quoted(self.name), self._key, quoted(self.beside)
        (new,) = cursor.execute(  # not those of a view, which has the name of the table
            f"SELECT coalesce(sum((s.{FORM}>{_GONE})-(t.{key} IS NOT NULL)),0) FROM {beside} AS s"
            f" LEFT JOIN main.{name} AS t ON t.{key}=s.{key} WHERE {where}",
            values,
        ).fetchone()
        return int(new)

    def _move(self, cursor: Cursor, where: str, values: Sequence[object]) -> int:
        """Move staged rows into their table; return how many records it has more."""
        name, key, beside = quoted(self.name), self._key, quoted(self.beside)
        columns = ",".join(self._columns(cursor))
        new = self.new(cursor, where, values)
        cursor.execute(
            f"INSERT OR REPLACE INTO {name} ({columns}) SELECT {columns} FROM {beside} AS s"
            f" WHERE {where} AND {FORM}>{_GONE} ORDER BY {key}",
            values,
        )
        gone = f"SELECT {key} FROM {beside} AS s WHERE {where} AND {FORM}={_GONE}"
        cursor.execute(f"DELETE FROM {name} WHERE {key} IN ({gone})", values)
        cursor.execute(f"DELETE FROM {beside} AS s WHERE {where}", values)
        count = f"UPDATE {TABLES} SET records=records+? WHERE name=?"
        cursor.execute(count, (new, self.name))
        return new


def _beside(number: int) -> str:
    return f"{STAGED}_{number}" if number else STAGED


def _divided(keys: Sequence[Key]) -> Iterator[Sequence[Key]]:
    for start in range(0, len(keys), _FOLDED_MAX):
        yield keys[start : start + _FOLDED_MAX]
