"""Staged events: the invisible pages of a large result in the tables, until they are switched.

Its events are in the log table at numbers that are far ahead: every read of that table ends at
``staged_after`` (``SEEN`` of ``sql_tables.py``), in its own snapshot. What they make of the records
of a table is in a table of its own (``staged_table.py``): ``rowcast_staged`` for the first that the
result writes, ``rowcast_staged_1`` and so on for others. The switch is one small transaction for
all of them: the bound of the log goes, and from then on readers see each table through a view that
has the staged rows over those of the table (``overlay.py``). The rows are moved into their tables
afterwards, some at a time: a move changes nothing that anybody sees.

Changes of facts, such as the tombstones of its deletions, are apart until the switch, too.

In a table where a result gives way it loses each row of which somebody writes the record meanwhile
with a newer version: the transaction of that write removes the row, its event and its fact. So the
switch, which comes later in the log, takes back nothing that is newer, and has nothing to compare.

There is one result at a time. What is left of one that was never switched is swept, some at a time.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from sqlite3 import Cursor
from typing import Final, cast

from rowcast.core.events import DELETE, RETAINED, Event
from rowcast.core.write_marks import ORIGIN
from rowcast.store.overlay import ViewingConnection
from rowcast.store.records import Key
from rowcast.store.sql_commit import LogPartition, Share, log_rows, split, write_fact
from rowcast.store.sql_database import Database
from rowcast.store.sql_statements import LogStatement, marks
from rowcast.store.sql_tables import (
    LOG,
    META,
    OVERLAY,
    STAGED_AFTER,
    STAGED_FACTS,
    STATES,
    SWITCHED_IN,
    TABLES,
)
from rowcast.store.staged_table import StagedTable
from rowcast.store.store import Change, StagedPage

_TABLE: Final = "staged_table"
"""The SQL tables that it is for, as a list; the name of the one in files of earlier versions."""
_DEAD: Final = "staged_dead"
_VERSION: Final = "staged_version"
"""The version of the rows that give way."""
_YIELDING: Final = "staged_yielding"
"""The tables where they do, as a list; all in files of earlier versions."""
_LOST: Final = "staged_lost"
"""Which of its rows were lost to newer writes: puts, deletions, and bytes of payloads, by table;
of the one table in files of earlier versions."""
_NAMES: Final = (
    _TABLE,
    STAGED_AFTER,
    OVERLAY,
    SWITCHED_IN,
    _DEAD,
    _VERSION,
    _YIELDING,
    _LOST,
)
_NO_LIMIT: Final = -1
_FIRST_FACTS: Final = (
    f"(name,owner) IN (SELECT name,owner FROM {STAGED_FACTS} ORDER BY name,owner LIMIT ?)"
)

Lost = tuple[int, int, int]
"""Puts, deletions, and bytes of payloads."""
Grown = dict[str, int]
"""How many records tables have more, by their names in SQL."""
_NONE_LOST: Final[Lost] = (0, 0, 0)


class Staging:
    """What is staged in one open database; used by the thread that writes it."""

    def __init__(self, database: Database, changes_parts: Callable[[Cursor], None]) -> None:
        self._database = database
        self._changes_parts = changes_parts
        self._log = LogStatement()
        self._version = 0
        """That of its rows, if some give way to newer ones; else 0."""
        self._yielding: frozenset[str] = frozenset()
        """The SQL tables where they do."""
        self.tables: dict[str, StagedTable] = {}
        """What is staged, by the SQL tables that it is for."""
        self.after = 0
        """The number after which it has its own."""
        self.switched = self.dead = False
        """Whether all see it; whether nobody ever will."""

    def load(self, cursor: Cursor) -> None:
        """Read the state from the file, within a transaction."""
        known = dict(cursor.execute(f"SELECT name,value FROM {META}"))
        names = _names(known.get(_TABLE, "[]"))
        self.tables = {name: StagedTable(cursor, name, at) for at, name in enumerate(names)}
        self.after = int(known.get(STAGED_AFTER, 0))
        self.switched, self.dead = OVERLAY in known, _DEAD in known
        self._version = int(known.get(_VERSION, 0))
        yielding = known.get(_YIELDING)
        self._yielding = frozenset(names if yielding is None else _names(yielding))

    def complete(self, cursor: Cursor) -> None:
        """Give staged rows the columns that their tables have got: more pages may have values."""
        if not self.switched:
            for staged in self.tables.values():
                staged.complete(cursor)

    @contextmanager
    def _writing(self) -> Iterator[Cursor]:
        """Begin a transaction; one that fails changes nothing here either."""
        known = dict(vars(self))
        try:
            with self._database.writing() as cursor:
                yield cursor
        except BaseException:
            vars(self).update(known)
            raise

    @property
    def works(self) -> bool:
        """Whether something is to be moved or swept."""
        return self.switched or self.dead

    # -- staging -----------------------------------------------------------------------------------

    def write(
        self, part: LogPartition, after: int, page: StagedPage, *, yields: bool = False
    ) -> Grown:
        """Stage a page for a table, whose numbers follow ``after``; the first one begins a result.

        ``page``: its events, and changes of facts. ``yields``: newer writes win over the rows
        of this table. Returns what is moved of an earlier result.
        """
        events, changes = page
        grown: Grown = {}
        with self._writing() as cursor:
            if after != self.after or self.works:
                grown = self.finish(cursor)
                write_fact(cursor, STAGED_AFTER, after)
            if part.rows.name not in self.tables:
                self._begin(cursor, part, events[0].version if yields else 0)
            self._write(cursor, part, events)
            cursor.executemany(
                f"INSERT OR REPLACE INTO {STAGED_FACTS} (owner,name,value) VALUES (?,?,?)",
                [change for change in changes if change.value is not None],
            )
        return grown

    def finish(self, cursor: Cursor) -> Grown:
        """Move or sweep all that is left of an earlier result, within a transaction.

        Returns what is moved.
        """
        grown: Grown = {}
        if self.switched:
            grown = {name: staged.move(cursor) for name, staged in self.tables.items()}
            self._move_facts(cursor, _NO_LIMIT)
        elif self.tables:
            cursor.execute(f"DELETE FROM {LOG} WHERE seq>?", (self.after,))
        if self.tables:
            self._clear(cursor)
        return grown

    def _begin(self, cursor: Cursor, part: LogPartition, version: int) -> None:
        """Begin with a table, which gives way if its rows have a ``version``."""
        StagedTable.make(cursor, part, len(self.tables))
        write_fact(cursor, _TABLE, json.dumps([*self.tables, part.rows.name]))
        yielding = self._yielding | {part.rows.name} if version else self._yielding
        write_fact(cursor, _YIELDING, json.dumps(sorted(yielding)))
        if version:
            write_fact(cursor, _VERSION, version)
        self.load(cursor)

    def _clear(self, cursor: Cursor) -> None:
        for staged in self.tables.values():
            staged.drop(cursor)
        cursor.execute(f"DELETE FROM {STAGED_FACTS}")
        cursor.execute(f"DELETE FROM {META} WHERE name IN ({marks(len(_NAMES))})", _NAMES)
        self._changes_parts(cursor)
        self.load(cursor)

    def _write(self, cursor: Cursor, part: LogPartition, events: Sequence[Event]) -> None:
        span = events[0].seq, events[-1].seq
        cursor.execute(f"DELETE FROM {LOG} WHERE seq BETWEEN ? AND ?", span)  # of before a kill
        self._log.write(cursor, log_rows(split(events, lambda _: part, {}), events))
        self.tables[part.rows.name].write(cursor, part, events)

    # -- writes of others --------------------------------------------------------------------------

    def meet(
        self, cursor: Cursor, shares: Sequence[Share], events: Sequence[Event], epoch: str
    ) -> Grown:
        """Make room for what a batch writes at staged rows: they are moved first, or give way.

        ``epoch`` is the log's, the origin of all its rows. Returns what is moved.
        """
        grown: Grown = {}
        for share in shares:
            staged = self.tables.get(share.part.rows.name)
            if staged is None:
                continue
            if self.switched:
                grown[staged.name] = staged.fold(cursor, share.keys)
                share.part.statements.forget()
            elif self._version and staged.name in self._yielding and not self.dead:
                of_share = (events[index] for index in share.indexes)
                newer = {
                    key: event.topic
                    for key, event in zip(share.keys, of_share, strict=True)
                    if event.kind in RETAINED and _stamp(event, epoch) > (self._version, epoch)
                }
                self._give_way(cursor, staged, newer)
        return grown

    def _give_way(self, cursor: Cursor, staged: StagedTable, newer: Mapping[Key, str]) -> None:
        """Remove the staged rows at these keys, with their events and facts."""
        for found in staged.taken(cursor, list(newer)):
            seqs, topics = list(found.values()), [newer[key] for key in found]
            these = f"seq IN ({marks(len(seqs))})"
            more = cursor.execute(
                f"SELECT coalesce(sum(kind<>?),0),coalesce(sum(kind=?),0),"
                f"coalesce(sum(length(CAST(payload AS BLOB))),0) FROM {LOG} WHERE {these}",
                (DELETE, DELETE, *seqs),
            ).fetchone()
            lost = self._lost(cursor)
            lost[staged.name] = _sum([lost.get(staged.name, _NONE_LOST), more])
            write_fact(cursor, _LOST, json.dumps(lost))
            cursor.execute(f"DELETE FROM {LOG} WHERE {these}", seqs)
            named = f"name IN ({marks(len(topics))})"
            cursor.execute(f"DELETE FROM {STAGED_FACTS} WHERE {named}", topics)

    def _lost(self, cursor: Cursor) -> dict[str, Lost]:
        row = cursor.execute(f"SELECT value FROM {META} WHERE name=?", (_LOST,)).fetchone()
        lost = {} if row is None else json.loads(row[0])
        if isinstance(lost, list):
            lost = dict.fromkeys(self.tables, lost)
        return cast("dict[str, Lost]", lost)

    def lost(self, cursor: Cursor) -> Lost:
        """Return which rows of the result have given way to newer ones, in all tables."""
        return _sum(self._lost(cursor).values())

    def forget(self, cursor: Cursor, changes: Sequence[Change]) -> None:
        """Forget facts of a switched result that are changed now."""
        if not self.switched:
            return
        one = f"DELETE FROM {STAGED_FACTS} WHERE name=? AND owner=?"
        cursor.executemany(one, [(item.name, item.owner) for item in changes if item.name])
        gone = [(item.owner,) for item in changes if not item.name]
        cursor.executemany(f"DELETE FROM {STAGED_FACTS} WHERE owner=?", gone)

    # -- the switch --------------------------------------------------------------------------------

    def switch(
        self, counts: Sequence[tuple[LogPartition, int, int]], number: int
    ) -> list[tuple[LogPartition, int, int]]:
        """Let all see what is staged: of each part so many events, with so many bytes of payloads.

        ``number`` is that of the batch that says so. Returns how many of both are left: others may
        have given way to newer writes. Without effect, and empty, when it is done or nothing is
        staged.
        """
        if self.switched or not self.tables:
            return []
        left: list[tuple[LogPartition, int, int]] = []
        with self._database.writing() as cursor:
            lost = self._lost(cursor)
            for part, count, size in counts:
                puts, deletions, lost_bytes = lost.get(part.rows.name, _NONE_LOST)
                left.append((part, count - puts - deletions, size - lost_bytes))
            self.complete(cursor)
            cursor.execute(f"DELETE FROM {META} WHERE name=?", (STAGED_AFTER,))
            views = [(staged.name, staged.view(cursor)) for staged in self.tables.values()]
            write_fact(cursor, OVERLAY, json.dumps(views))
            write_fact(cursor, SWITCHED_IN, number)
            cursor.executemany(
                f"UPDATE {TABLES} SET events=events+?,bytes=bytes+? WHERE id=?",
                [(count, size, part.table_id) for part, count, size in left],
            )
            self._changes_parts(cursor)
        self.switched, self.after = True, 0
        return left

    def abandon(self) -> None:
        """Have what is staged swept, before anybody sees it."""
        if self.tables and not self.works:
            with self._database.writing() as cursor:
                write_fact(cursor, _DEAD, 1)
            self.dead = True

    # -- afterwards --------------------------------------------------------------------------------

    def work(self, limit: int) -> Grown:
        """Move or sweep up to ``limit`` rows of a table; return how many records it has more."""
        with self._writing() as cursor:
            if not self.switched:
                self._sweep(cursor, limit)
                return {}
            for name, staged in self.tables.items():
                new = staged.move_some(cursor, limit)
                if new is not None:
                    return {name: new}
            if self._move_facts(cursor, limit) < limit:
                self._clear(cursor)
            return {}

    def _sweep(self, cursor: Cursor, limit: int) -> None:
        rows = f"SELECT seq FROM {LOG} WHERE seq>? LIMIT ?"
        cursor.execute(f"DELETE FROM {LOG} WHERE seq IN ({rows})", (self.after, limit))
        swept = [cursor.rowcount]
        swept += [staged.sweep(cursor, limit) for staged in self.tables.values()]
        cursor.execute(f"DELETE FROM {STAGED_FACTS} WHERE {_FIRST_FACTS}", (limit,))
        if max(*swept, cursor.rowcount) < limit:
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


def moving(cursor: Cursor, name: str) -> StagedTable | None:
    """Return the staged rows that all see over a table, within a read transaction, if it has any.

    ``name`` is that of the table in SQL.
    """
    if not cast("ViewingConnection", cursor.connection).overlay:
        return None
    text = cursor.execute(f"SELECT value FROM {META} WHERE name=?", (_TABLE,)).fetchone()[0]
    names = _names(text)
    return StagedTable(cursor, name, names.index(name)) if name in names else None


def _stamp(event: Event, epoch: str) -> tuple[int, str]:
    """Return version and origin of an event, by which of two writes the newer one is known."""
    origin = event.properties.get(ORIGIN) if event.properties is not None else None
    return event.version, origin if isinstance(origin, str) else epoch


def _names(text: str) -> list[str]:
    """Return a list of names; no name of an SQL table begins with a bracket."""
    return cast("list[str]", json.loads(text)) if text.startswith("[") else [text]


def _sum(parts: Iterable[Lost]) -> Lost:
    puts = deletions = size = 0
    for some in parts:
        puts, deletions, size = puts + some[0], deletions + some[1], size + some[2]
    return puts, deletions, size
