"""Staged events: the invisible pages of a large result in the tables, until they are switched.

Its events are in the log table at numbers that are far ahead: every read of that table ends at
``staged_after`` (``SEEN`` of ``sql_tables.py``), in its own snapshot. What they make of records is
in a table of its own, ``rowcast_staged``, with the columns and indexes of the table that they are
for; a deletion is a row with the form -1. The switch is one small transaction: the bound of the log
goes, and from then on readers see the table through a view that has the staged rows over those of
the table (``overlay.py``). The rows are moved into the table afterwards, some at a time: a move
changes nothing that anybody sees.

There is one result at a time. What is left of one that was never switched is swept, some at a time.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

import json
from collections.abc import Callable, Iterable, Sequence
from sqlite3 import Cursor
from typing import Final

from rowcast.core.events import DELETE, Event
from rowcast.store.records import Key
from rowcast.store.sql_commit import LogPartition, log_rows, split, write_fact
from rowcast.store.sql_database import Database
from rowcast.store.sql_statements import LogStatement, RecordStatements, marks
from rowcast.store.sql_tables import (
    FORM,
    LOG,
    META,
    OVERLAY,
    STAGED,
    STAGED_AFTER,
    SWITCHED_IN,
    TABLES,
    indexes,
    quoted,
)

_TABLE: Final = "staged_table"
_DEAD: Final = "staged_dead"
_NAMES: Final = (_TABLE, STAGED_AFTER, OVERLAY, SWITCHED_IN, _DEAD)
_GONE: Final = -1
"""The form of a row that stands for a deletion."""
_FOLDED_MAX: Final = 500
"""Keys in one statement that moves the rows of a write: SQLite takes 32,766 values."""
_ALL: Final = "1"


class Staging:
    """What is staged in one open database; used by the thread that writes it."""

    def __init__(self, database: Database, changes_parts: Callable[[Cursor], None]) -> None:
        self._database = database
        self._changes_parts = changes_parts
        self._log = LogStatement()
        self._statements: RecordStatements | None = None
        self._key = ""
        self.table = ""
        """The SQL table that it is for; empty without any."""
        self.after = 0
        """The number after which it has its own."""
        self.switched = self.dead = False
        """Whether all see it; whether nobody ever will."""

    def load(self, cursor: Cursor) -> None:
        """Read the state from the file, within a transaction."""
        known = dict(cursor.execute(f"SELECT name,value FROM {META}"))
        self._statements = None
        self.table, self.after = known.get(_TABLE, ""), int(known.get(STAGED_AFTER, 0))
        self.switched, self.dead = OVERLAY in known, _DEAD in known
        self._key = _key(cursor) if self.table else ""

    @property
    def works(self) -> bool:
        """Whether something is to be moved or swept."""
        return self.switched or self.dead

    # -- staging -----------------------------------------------------------------------------------

    def write(self, part: LogPartition, after: int, events: Sequence[Event]) -> None:
        """Stage a page of one result, whose numbers follow ``after``; the first one begins it."""
        with self._database.writing() as cursor:
            if (after, part.rows.name) != (self.after, self.table) or self.works:
                self.finish(cursor)
                self._begin(cursor, part, after)
            self._write(cursor, part, events)

    def finish(self, cursor: Cursor) -> None:
        """Move or sweep all that is left of an earlier result, within a transaction."""
        if self.switched:
            self._move(cursor, _ALL, ())
        elif self.table:
            cursor.execute(f"DELETE FROM {LOG} WHERE seq>?", (self.after,))
        if self.table:
            self._clear(cursor)

    def _begin(self, cursor: Cursor, part: LogPartition, after: int) -> None:
        name, table = part.rows.name, part.rows.layout.table
        (text,) = cursor.execute("SELECT sql FROM sqlite_master WHERE name=?", (name,)).fetchone()
        cursor.execute(f"CREATE TABLE {STAGED} {text[text.index('(') :]}")
        for number, what in enumerate(indexes(table).values() if table is not None else ()):
            cursor.execute(f'CREATE INDEX "rowcast_staged.{number}" ON {STAGED} {what}')
        write_fact(cursor, _TABLE, name)
        write_fact(cursor, STAGED_AFTER, after)
        self.load(cursor)

    def _clear(self, cursor: Cursor) -> None:
        cursor.execute(f"DROP TABLE IF EXISTS {STAGED}")
        cursor.execute(f"DELETE FROM {META} WHERE name IN ({marks(len(_NAMES))})", _NAMES)
        self._changes_parts(cursor)
        self.load(cursor)

    def _write(self, cursor: Cursor, part: LogPartition, events: Sequence[Event]) -> None:
        span = events[0].seq, events[-1].seq
        cursor.execute(f"DELETE FROM {LOG} WHERE seq BETWEEN ? AND ?", span)  # of before a kill
        self._log.write(cursor, log_rows(split(events, lambda _: part, {}), events))
        if self._statements is None:
            self._statements = RecordStatements(part.rows, STAGED)
        key = part.rows.layout.key
        puts = [part.rows.row(key(it.topic), it) for it in events if it.kind != DELETE]
        if puts:
            self._statements.upsert(cursor, puts)
            if part.rows.mixes(puts):
                cursor.execute(f"UPDATE {TABLES} SET mixed=1 WHERE id=?", (part.table_id,))
        cursor.executemany(
            f"INSERT OR REPLACE INTO {STAGED} ({part.rows.key},{FORM},_seq) VALUES (?,{_GONE},?)",
            [(key(it.topic), it.seq) for it in events if it.kind == DELETE],
        )

    # -- the switch --------------------------------------------------------------------------------

    def switch(self, part: LogPartition, count: int, size: int, number: int) -> None:
        """Let all see what is staged: so many events, with payloads of so many bytes.

        ``number`` is that of the batch that says so.
        """
        with self._database.writing() as cursor:
            self._complete(cursor)
            cursor.execute(f"DELETE FROM {META} WHERE name=?", (STAGED_AFTER,))
            write_fact(cursor, OVERLAY, json.dumps([self.table, self._view(cursor)]))
            write_fact(cursor, SWITCHED_IN, number)
            cursor.execute(
                f"UPDATE {TABLES} SET events=events+?,bytes=bytes+? WHERE id=?",
                (count, size, part.table_id),
            )
            self._changes_parts(cursor)
        self.switched, self.after = True, 0

    def _complete(self, cursor: Cursor) -> None:
        """Add the columns that the table got by a restart while this was staged."""
        known = set(_columns(cursor))
        for _, name, kind, *_ in cursor.execute(f"PRAGMA table_info({quoted(self.table)})"):
            if quoted(name) not in known:
                cursor.execute(f"ALTER TABLE {STAGED} ADD COLUMN {quoted(name)} {kind}")

    def _view(self, cursor: Cursor) -> str:
        """Return what the view selects that has the staged rows over those of the table."""
        columns, key = ",".join(_columns(cursor)), self._key
        return (
            f"SELECT {columns} FROM main.{quoted(self.table)} AS t WHERE NOT EXISTS"
            f" (SELECT 1 FROM main.{STAGED} AS s WHERE s.{key}=t.{key})"
            f" UNION ALL SELECT {columns} FROM main.{STAGED} WHERE {FORM}>{_GONE}"
        )

    def abandon(self) -> None:
        """Have what is staged swept, before anybody sees it."""
        if self.table and not self.works:
            with self._database.writing() as cursor:
                write_fact(cursor, _DEAD, 1)
            self.dead = True

    # -- afterwards --------------------------------------------------------------------------------

    def fold(self, cursor: Cursor, keys: Sequence[Key]) -> int:
        """Move the rows at some keys, which are about to be written; return how many are new."""
        new = 0
        for start in range(0, len(keys), _FOLDED_MAX):
            some = keys[start : start + _FOLDED_MAX]
            new += self._move(cursor, f"s.{self._key} IN ({marks(len(some))})", some)
        return new

    def work(self, limit: int) -> int:
        """Move or sweep up to ``limit`` rows; return how many records the table has more."""
        with self._database.writing() as cursor:
            if not self.switched:
                self._sweep(cursor, limit)
                return 0
            text = f"SELECT {self._key} FROM {STAGED} ORDER BY {self._key} LIMIT 1 OFFSET ?"
            last = cursor.execute(text, (limit - 1,)).fetchone()
            if last is not None:
                return self._move(cursor, f"s.{self._key}<=?", last)
            new = self._move(cursor, _ALL, ())
            self._clear(cursor)
            return new

    def _sweep(self, cursor: Cursor, limit: int) -> None:
        rows = f"SELECT seq FROM {LOG} WHERE seq>? LIMIT ?"
        cursor.execute(f"DELETE FROM {LOG} WHERE seq IN ({rows})", (self.after, limit))
        swept = cursor.rowcount
        rows = f"SELECT {self._key} FROM {STAGED} ORDER BY {self._key} LIMIT ?"
        cursor.execute(f"DELETE FROM {STAGED} WHERE {self._key} IN ({rows})", (limit,))
        if max(swept, cursor.rowcount) < limit:
            self._clear(cursor)

    def _move(self, cursor: Cursor, where: str, values: Iterable[object]) -> int:
        """Move staged rows into their table; return how many records it has more."""
        name, key, known = quoted(self.table), self._key, tuple(values)
        columns = ",".join(_columns(cursor))
        (new,) = cursor.execute(
            f"SELECT coalesce(sum((s.{FORM}>{_GONE})-(t.{key} IS NOT NULL)),0) FROM {STAGED} AS s"
            f" LEFT JOIN {name} AS t ON t.{key}=s.{key} WHERE {where}",
            known,
        ).fetchone()
        cursor.execute(
            f"INSERT OR REPLACE INTO {name} ({columns}) SELECT {columns} FROM {STAGED} AS s"
            f" WHERE {where} AND {FORM}>{_GONE} ORDER BY {key}",
            known,
        )
        gone = f"SELECT {key} FROM {STAGED} AS s WHERE {where} AND {FORM}={_GONE}"
        cursor.execute(f"DELETE FROM {name} WHERE {key} IN ({gone})", known)
        cursor.execute(f"DELETE FROM {STAGED} AS s WHERE {where}", known)
        count = f"UPDATE {TABLES} SET records=records+? WHERE name=?"
        cursor.execute(count, (new, self.table))
        return int(new)


def _columns(cursor: Cursor) -> list[str]:
    return [quoted(row[1]) for row in cursor.execute(f"PRAGMA table_info({STAGED})")]


def _key(cursor: Cursor) -> str:
    """Return the name of the column of the key."""
    columns = cursor.execute(f"PRAGMA table_info({STAGED})").fetchall()
    return next((quoted(row[1]) for row in columns if row[5]), "")
