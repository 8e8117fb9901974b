"""Staged events: the invisible pages of a large result in the tables, until they are switched.

Its events are in the log table at numbers that are far ahead: every read of that table ends at
``staged_after`` (``SEEN`` of ``sql_tables.py``), in its own snapshot. What they make of records is
in a table of its own, ``rowcast_staged``, with the columns and indexes of the table that they are
for; a deletion is a row with the form -1. The switch is one small transaction: the bound of the log
goes, and from then on readers see the table through a view that has the staged rows over those of
the table (``overlay.py``). The rows are moved into the table afterwards, some at a time: a move
changes nothing that anybody sees.

Changes of facts, such as the tombstones of its deletions, are apart until the switch, too.

A result that gives way loses each row of which somebody writes the record meanwhile with a newer
version: the transaction of that write removes the row, its event and its fact. So the switch, which
comes later in the log, takes back nothing that is newer, and has nothing to compare.

There is one result at a time. What is left of one that was never switched is swept, some at a time.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from sqlite3 import Cursor
from typing import Final

from rowcast.core.events import DELETE, RETAINED, Event
from rowcast.core.write_marks import ORIGIN
from rowcast.store.records import Key
from rowcast.store.sql_commit import LogPartition, Share, log_rows, split, write_fact
from rowcast.store.sql_database import Database
from rowcast.store.sql_statements import LogStatement, RecordStatements, marks
from rowcast.store.sql_tables import (
    FORM,
    LOG,
    META,
    OVERLAY,
    STAGED,
    STAGED_AFTER,
    STAGED_FACTS,
    STATES,
    SWITCHED_IN,
    TABLES,
    indexes,
    quoted,
)
from rowcast.store.store import Change, StagedPage

_TABLE: Final = "staged_table"
_DEAD: Final = "staged_dead"
_VERSION: Final = "staged_version"
"""The version of the rows of a result that gives way."""
_LOST: Final = "staged_lost"
"""Which of its rows were lost to newer writes: puts, deletions, and bytes of payloads."""
_NAMES: Final = (_TABLE, STAGED_AFTER, OVERLAY, SWITCHED_IN, _DEAD, _VERSION, _LOST)
_GONE: Final = -1
"""The form of a row that stands for a deletion."""
_FOLDED_MAX: Final = 500
"""Keys in one statement that moves the rows of a write: SQLite takes 32,766 values."""
_ALL: Final = "1"
_NO_LIMIT: Final = -1
_FIRST_FACTS: Final = (
    f"(name,owner) IN (SELECT name,owner FROM {STAGED_FACTS} ORDER BY name,owner LIMIT ?)"
)

Lost = tuple[int, int, int]
"""Puts, deletions, and bytes of payloads."""


class Staging:
    """What is staged in one open database; used by the thread that writes it."""

    def __init__(self, database: Database, changes_parts: Callable[[Cursor], None]) -> None:
        self._database = database
        self._changes_parts = changes_parts
        self._log = LogStatement()
        self._statements: RecordStatements | None = None
        self._version = 0
        """That of its rows, if it gives way to newer ones; else 0."""
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
        self._version = int(known.get(_VERSION, 0))
        self._key = _key(cursor) if self.table else ""

    @property
    def works(self) -> bool:
        """Whether something is to be moved or swept."""
        return self.switched or self.dead

    # -- staging -----------------------------------------------------------------------------------

    def write(
        self,
        part: LogPartition,
        after: int,
        page: StagedPage,
        *,
        gives_way: bool = False,
    ) -> None:
        """Stage a page of one result, whose numbers follow ``after``; the first one begins it.

        ``page``: its events, and changes of facts. ``gives_way``: newer writes win over its rows.
        """
        events, changes = page
        with self._database.writing() as cursor:
            if (after, part.rows.name) != (self.after, self.table) or self.works:
                self.finish(cursor)
                self._begin(cursor, part, after, events[0].version if gives_way else 0)
            self._write(cursor, part, events)
            cursor.executemany(
                f"INSERT OR REPLACE INTO {STAGED_FACTS} (owner,name,value) VALUES (?,?,?)",
                [change for change in changes if change.value is not None],
            )

    def finish(self, cursor: Cursor) -> None:
        """Move or sweep all that is left of an earlier result, within a transaction."""
        if self.switched:
            self._move(cursor, _ALL, ())
            self._move_facts(cursor, _NO_LIMIT)
        elif self.table:
            cursor.execute(f"DELETE FROM {LOG} WHERE seq>?", (self.after,))
        if self.table:
            self._clear(cursor)

    def _begin(self, cursor: Cursor, part: LogPartition, after: int, version: int) -> None:
        name, table = part.rows.name, part.rows.layout.table
        (text,) = cursor.execute("SELECT sql FROM sqlite_master WHERE name=?", (name,)).fetchone()
        cursor.execute(f"CREATE TABLE {STAGED} {text[text.index('(') :]}")
        for number, what in enumerate(indexes(table).values() if table is not None else ()):
            cursor.execute(f'CREATE INDEX "rowcast_staged.{number}" ON {STAGED} {what}')
        write_fact(cursor, _TABLE, name)
        write_fact(cursor, STAGED_AFTER, after)
        if version:
            write_fact(cursor, _VERSION, version)
        self.load(cursor)

    def _clear(self, cursor: Cursor) -> None:
        cursor.execute(f"DROP TABLE IF EXISTS {STAGED}")
        cursor.execute(f"DELETE FROM {STAGED_FACTS}")
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

    # -- writes of others --------------------------------------------------------------------------

    def meet(
        self, cursor: Cursor, shares: Sequence[Share], events: Sequence[Event], epoch: str
    ) -> None:
        """Make room for what a batch writes at staged rows: they are moved first, or give way.

        ``epoch`` is the log's, the origin of all its rows.
        """
        for share in shares:
            if share.part.rows.name != self.table:
                continue
            if self.switched:
                share.part.count += self.fold(cursor, share.keys)
            elif self._version and not self.dead:
                of_share = (events[index] for index in share.indexes)
                newer = {
                    key: event.topic
                    for key, event in zip(share.keys, of_share, strict=True)
                    if event.kind in RETAINED and _stamp(event, epoch) > (self._version, epoch)
                }
                self._give_way(cursor, newer)

    def _give_way(self, cursor: Cursor, newer: Mapping[Key, str]) -> None:
        """Remove the staged rows at these keys, with their events and facts."""
        keys = list(newer)
        for start in range(0, len(keys), _FOLDED_MAX):
            some = keys[start : start + _FOLDED_MAX]
            at = f"{self._key} IN ({marks(len(some))})"
            text = f"SELECT {self._key},_seq FROM {STAGED} WHERE {at}"
            found = dict(cursor.execute(text, some).fetchall())
            if not found:
                continue
            seqs, topics = list(found.values()), [newer[key] for key in found]
            these = f"seq IN ({marks(len(seqs))})"
            puts, deletions, size = self.lost(cursor)
            more = cursor.execute(
                f"SELECT coalesce(sum(kind<>?),0),coalesce(sum(kind=?),0),"
                f"coalesce(sum(length(CAST(payload AS BLOB))),0) FROM {LOG} WHERE {these}",
                (DELETE, DELETE, *seqs),
            ).fetchone()
            lost = puts + more[0], deletions + more[1], size + more[2]
            write_fact(cursor, _LOST, json.dumps(lost))
            cursor.execute(f"DELETE FROM {LOG} WHERE {these}", seqs)
            cursor.execute(f"DELETE FROM {STAGED} WHERE {at}", some)
            named = f"name IN ({marks(len(topics))})"
            cursor.execute(f"DELETE FROM {STAGED_FACTS} WHERE {named}", topics)

    def lost(self, cursor: Cursor) -> Lost:
        """Return which rows of the result have given way to newer ones."""
        row = cursor.execute(f"SELECT value FROM {META} WHERE name=?", (_LOST,)).fetchone()
        puts, deletions, size = json.loads(row[0]) if row is not None else (0, 0, 0)
        return puts, deletions, size

    def forget(self, cursor: Cursor, changes: Sequence[Change]) -> None:
        """Forget facts of a switched result that are changed now."""
        if not self.switched:
            return
        one = f"DELETE FROM {STAGED_FACTS} WHERE name=? AND owner=?"
        cursor.executemany(one, [(item.name, item.owner) for item in changes if item.name])
        gone = [(item.owner,) for item in changes if not item.name]
        cursor.executemany(f"DELETE FROM {STAGED_FACTS} WHERE owner=?", gone)

    # -- the switch --------------------------------------------------------------------------------

    def switch(self, part: LogPartition, count: int, size: int, number: int) -> tuple[int, int]:
        """Let all see what is staged: so many events, with payloads of so many bytes.

        ``number`` is that of the batch that says so. Returns how many of both are left: others may
        have given way to newer writes.
        """
        with self._database.writing() as cursor:
            puts, deletions, lost_bytes = self.lost(cursor)
            count, size = count - puts - deletions, size - lost_bytes
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
        return count, size

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
            if self._move_facts(cursor, limit) < limit:
                self._clear(cursor)
            return new

    def _sweep(self, cursor: Cursor, limit: int) -> None:
        rows = f"SELECT seq FROM {LOG} WHERE seq>? LIMIT ?"
        cursor.execute(f"DELETE FROM {LOG} WHERE seq IN ({rows})", (self.after, limit))
        swept = cursor.rowcount
        rows = f"SELECT {self._key} FROM {STAGED} ORDER BY {self._key} LIMIT ?"
        cursor.execute(f"DELETE FROM {STAGED} WHERE {self._key} IN ({rows})", (limit,))
        swept = max(swept, cursor.rowcount)
        cursor.execute(f"DELETE FROM {STAGED_FACTS} WHERE {_FIRST_FACTS}", (limit,))
        if max(swept, cursor.rowcount) < limit:
            self._clear(cursor)

    def _move_facts(self, cursor: Cursor, limit: int) -> int:
        """Move up to so many facts to the others; return how many."""
        cursor.execute(
            f"INSERT OR REPLACE INTO {STATES} (owner,name,value)"
            f" SELECT owner,name,value FROM {STAGED_FACTS} WHERE {_FIRST_FACTS}",
            (limit,),
        )
        cursor.execute(f"DELETE FROM {STAGED_FACTS} WHERE {_FIRST_FACTS}", (limit,))
        return cursor.rowcount

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


def _stamp(event: Event, epoch: str) -> tuple[int, str]:
    """Return version and origin of an event, by which of two writes the newer one is known."""
    origin = event.properties.get(ORIGIN) if event.properties is not None else None
    return event.version, origin if isinstance(origin, str) else epoch


def _columns(cursor: Cursor) -> list[str]:
    return [quoted(row[1]) for row in cursor.execute(f"PRAGMA table_info({STAGED})")]


def _key(cursor: Cursor) -> str:
    """Return the name of the column of the key."""
    columns = cursor.execute(f"PRAGMA table_info({STAGED})").fetchall()
    return next((quoted(row[1]) for row in columns if row[5]), "")
