"""The store on SQLite: records in SQL tables, the log, and the facts, in one file.

This module opens and writes it, with the file (``sql_database``), the tables (``sql_tables``,
``sql_migrate``) and commits (``sql_commit``); ``sql_reads`` reads it. State in memory (counts, the
head) is changed only after its transaction on disk, by the writer thread; readers see either the
old or the new number.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

import secrets
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from sqlite3 import Cursor
from typing import Final, TypeVar

from rowcast.core.clock import PER_SECOND
from rowcast.core.events import Event, Record
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource, TopicTable
from rowcast.store import sql_log, sql_topic_tables, sql_views
from rowcast.store.overlay import begin
from rowcast.store.records import Key
from rowcast.store.sql_commit import (
    WRITE_FACT,
    LogPartition,
    note,
    split,
    write_batch,
    write_fact,
)
from rowcast.store.sql_database import Database
from rowcast.store.sql_follow import Following, Report, counts_of
from rowcast.store.sql_migrate import make_own_tables, open_tables
from rowcast.store.sql_reads import SqlReads
from rowcast.store.sql_staged import Grown, Lost, Staging
from rowcast.store.sql_statements import LogStatement
from rowcast.store.sql_states import StateStatements
from rowcast.store.sql_tables import META, TABLES
from rowcast.store.sql_times import Times
from rowcast.store.sql_views import Views
from rowcast.store.store import Change, Keep, Lag, StagedCount, StagedPage
from rowcast.store.store_limits import USUAL, StoreLimits

T = TypeVar("T")

_VERSION: Final = attrgetter("version")


class SqlStore(SqlReads):
    """Records and the log in an SQLite file.

    ``url`` is a path, a directory (the file in it is ``rowcast.db``) or ``sqlite:///...``. A file
    in use by another server is refused with BUSY, unless ``lock`` is off. Without ``synced`` a
    commit is atomic, but durable only after ``sync``. ``moves``: it may move staged rows, as no
    other process does. ``epoch`` names the log of a new file.
    """

    def __init__(
        self,
        url: str | Path,
        limits: StoreLimits = USUAL,
        *,
        synced: bool = True,
        lock: bool = True,
        moves: bool = True,
        epoch: str = "",
    ) -> None:
        self._new_epoch = epoch
        self._moves = moves
        database = Database(url, limits.busy_seconds, synced=synced, lock=lock)
        super().__init__(database, limits)
        self.epoch = ""
        """Eight hexadecimal digits that name this log."""
        try:
            self.look_again()
        except BaseException:
            self._database.close()
            raise
        self.touched: dict[int, LogPartition] = {}
        """The parts that commits have changed since the applier last cleared it."""
        self._views = Views(limits=limits)
        self._log = LogStatement()
        self._times = Times(self._last_version)
        self._following: Following | None = None
        self._states = StateStatements()
        self.staging = Staging(database, self._changes_parts)

    def look_again(self) -> None:
        """Read the state of the whole store, which another process may have written last."""
        with self._database.writing() as cursor:
            epoch = self._new_epoch or secrets.token_hex(4)
            make_own_tables(cursor, epoch)
            facts = dict(cursor.execute(f"SELECT name,value FROM {META}"))
            self._head = sql_log.head(cursor)
        self.epoch = str(facts["epoch"])
        self._reserved = int(facts["reserved"])
        self._last_version = int(facts["last_version"])
        self._applied = int(facts.get("applied", 0))
        self._generation = int(facts.get("generation", 0))

    @property
    def path(self) -> Path:
        """The database file."""
        return self._database.path

    def open(self, tables: Sequence[Table]) -> None:
        """Create missing tables and columns, without loss of data."""
        with self._database.writing() as cursor:
            self.staging.load(cursor)
            if self.staging.switched and self._moves:  # before columns may change
                self.staging.finish(cursor)
            limits = self._limits
            parts = open_tables(cursor, tables, limits.working_rows)
            self.staging.complete(cursor)
            known = cursor.execute(f"SELECT id,path FROM {TABLES}").fetchall()
            self._parts = sql_topic_tables.load(cursor, parts[0], parts[1:], limits)
            self._views = sql_views.load(cursor, limits)
        former = {number: f"{path}/" if path else "" for number, path in known}
        self._reader = sql_log.LogReader({part.table_id: part for part in parts}, former)

    def close(self) -> None:
        """Close the file; committed data stays."""
        self._database.close()

    def follow_writer(self, seen: Callable[[int], None] | None = None) -> None:
        """Leave writing to another process from now on, and follow what it writes.

        ``seen`` is called in each read transaction with the number of the last batch that it sees.
        """
        self._following = Following(self._parts, self._generation, self._limits, seen)
        self._database.on_snapshot = self._following.look

    def note(self, report: Report) -> None:
        """Take over what the writing process reports after a commit."""
        if self._following is None:
            return
        self._following.note(report.counts)
        self._head = max(self._head, report.head)
        self._applied = max(self._applied, report.applied)
        if self._following.is_behind(report.generation):
            with self._database.reading():  # which reads the parts again
                pass

    def report(self) -> Report:
        """Return the state after a commit, for processes that follow, and forget what was told."""
        counts = counts_of(list(self.touched.values()))
        self.touched = {}
        return Report(self._applied, self._head, self._generation, counts)

    def sync(self) -> int:
        """Make all commits durable; return the number of the last batch that is."""
        applied = self._applied
        self._database.sync()
        return applied

    # -- the writer thread -------------------------------------------------------------------------

    def reserve(self, seq: int) -> None:
        """Reserve numbers up to ``seq`` durably, so that they are not reused."""
        if seq > self._reserved:
            with self._database.writing() as cursor:
                write_fact(cursor, "reserved", seq)
            self._reserved = seq

    def commit(
        self, events: Sequence[Event], changes: Sequence[Change] = (), applied: int = 0
    ) -> list[bool]:
        """Write logged events, in order, their records, and changes: all or none."""
        if not events:
            self._change(changes, applied)
            return []
        shares = split(events, self._parts.of, self._parts.by_level)
        version = max(map(_VERSION, events))
        with self._database.writing() as cursor:
            grown = self.staging.meet(cursor, shares, events, self.epoch)
            existed = write_batch(cursor, shares, events, self._log)
            if version > self._last_version:
                cursor.execute(WRITE_FACT, ("last_version", str(version)))
            second = version // PER_SECOND
            if second > self._times.last:
                self._times.write(cursor, second, events[0].seq)
            if changes:
                self._write_facts(cursor, changes)
            if any(share.mixed and not share.part.mixed for share in shares):
                self._changes_parts(cursor)
            self._note_applied(cursor, applied)
        self._grow(grown)
        for share in shares:
            note(share)
            self.touched |= {tally.table_id: tally.part for tally in share.parts.values()}
        self._times.last = max(self._times.last, second)
        self._head = events[-1].seq
        self._last_version = max(self._last_version, version)
        self._applied = applied or self._applied
        return existed

    def _write_facts(self, cursor: Cursor, changes: Sequence[Change]) -> None:
        self.staging.forget(cursor, changes)
        self._states.write(cursor, changes)

    def _change(self, changes: Sequence[Change], applied: int) -> None:
        if changes or applied:
            with self._database.writing() as cursor:
                self._write_facts(cursor, changes)
                self._note_applied(cursor, applied)
            self._applied = applied or self._applied

    @staticmethod
    def _note_applied(cursor: Cursor, applied: int) -> None:
        if applied:
            write_fact(cursor, "applied", applied)

    def _changes_parts(self, cursor: Cursor) -> None:
        """Note within a transaction that parts change, for readers in other processes."""
        self._generation += 1
        write_fact(cursor, "generation", self._generation)

    def lookup(self, wanted: Sequence[tuple[Table | None, str]]) -> dict[str, Record]:
        """Return the current records of these topics, by topic; absent ones are left out."""
        keys: dict[int, tuple[LogPartition, list[Key]]] = {}
        for table, topic in wanted:
            part = self._parts.of(table)
            key = part.rows.layout.key_or_none(topic)
            if key is not None:
                keys.setdefault(part.table_id, (part, []))[1].append(key)
        found: dict[str, Record] = {}
        with self._database.guard():
            cursor = self._database.writer.cursor()
            if self._following is not None:  # else what is staged is moved before it is read
                begin(cursor)
            for part, some in keys.values():
                for row in part.statements.find.run(cursor, some):
                    record = part.rows.record(row)
                    found[record.topic] = record
            if self._following is not None:
                cursor.execute("ROLLBACK")
            cursor.close()
        return found

    def facts(self, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
        """Return the values of these facts, by owner and name; absent ones are left out."""
        with self._database.guard():
            cursor = self._database.writer.cursor()
            found = {
                (owner, name): value for owner, name, value in self._states.read(cursor, places)
            }
            cursor.close()
        return found

    # -- staged events -----------------------------------------------------------------------------

    def stage(self, table: Table, after: int, page: StagedPage, *, yields: bool = False) -> None:
        """Stage a page of a result for one table: events with numbers after ``after``, and facts.

        ``yields``: whoever writes one of its records meanwhile, with a newer version, wins.
        """
        part = self._parts.of(table)
        self._grow(self.staging.write(part, after, page, yields=yields))

    def superseded(self) -> Lost:
        """Return which rows of what is staged have given way to newer writes."""
        with self._database.reading() as cursor:
            return self.staging.lost(cursor)

    def switch(self, last: int, counts: Sequence[StagedCount]) -> None:
        """Let all see what is staged, so much of each table; no effect when that is done."""
        parts = [(self._parts.of(table), count, size) for table, count, size in counts]
        for part, count, size in self.staging.switch(parts, self._applied + 1):
            part.events += count
            part.bytes += size
            self.touched[part.table_id] = part
            self._head = max(self._head, last)

    def abandon(self) -> None:
        """Have what is staged swept, which nobody will see."""
        self.staging.abandon()

    def finish_staged(self) -> None:
        """Move what all see into its tables, and sweep what nobody will, at once."""
        with self._database.writing() as cursor:
            grown = self.staging.finish(cursor)
        self._grow(grown)

    def move_staged(self, limit: int) -> bool:
        """Move or sweep some staged rows; return whether more is left."""
        if self.staging.works:
            self._grow(self.staging.work(limit))
        return self.staging.works

    def _grow(self, grown: Grown) -> None:
        for name, new in grown.items():
            if part := self._parts.tables.get(name):
                part.count += new
                part.statements.forget()
                self.touched[part.table_id] = part

    def trim(self, source: LogSource, keep: Keep, now_seconds: float, limit: int) -> int:
        """Delete a part's oldest events beyond ``keep``, at most ``limit`` of them."""
        part = self._parts.own(source)
        if part is None or not (keep.seconds or keep.events or keep.bytes):
            return 0
        with self._parts.known_before(part), self._database.writing() as cursor:
            count, size, last = sql_log.trim(cursor, part, keep, now_seconds, limit)
            self._parts.mark(part, last)
            if count:
                self._changes_parts(cursor)
        part.events -= count
        part.bytes -= size
        return count

    def define(self, *tables: TopicTable) -> None:
        """Create tables of branches: their new events form separate parts."""
        missing = self._parts.missing(tables)
        if not missing:
            return
        views, made = self._views, list[tuple[LogPartition, int]]()
        with self._database.writing() as cursor:
            for table in missing:
                part, moved = sql_topic_tables.define(cursor, self._parts, table, self._head)
                made.append((part, moved))
                if views.few:
                    views = views.change(cursor, new={table.name: part.table_id})
            self._changes_parts(cursor)
        self._views = views
        for table, (part, moved) in zip(missing, made, strict=True):
            self._parts.add(table.branch.level, part, moved)

    def drop(self, table: TopicTable) -> None:
        """Drop a branch's table with its events."""
        if not self._parts.is_defined(table):
            return
        part = self._parts.by_level[table.branch.level]
        with self._parts.known_before(part), self._database.writing() as cursor:
            self._parts.mark(part, sql_topic_tables.last_number(cursor, part))
            sql_topic_tables.drop(cursor, self._parts, part, table.branch.level)
            views = self._views
            if views.few and table.name in views.made:
                views = views.change(cursor, [table.name])
            self._changes_parts(cursor)
        self._views = views
        self._parts.remove(table.branch.level, part)

    def tidy(self, limit: int) -> bool:
        """Delete up to ``limit`` events of dropped tables, or bring views up to date."""
        parts = self._parts
        if parts.hidden:
            number, *rest = parts.hidden
            with self._database.writing() as cursor:
                done = sql_topic_tables.purge(cursor, number, limit)
                if done < limit:
                    self._changes_parts(cursor)
            if done < limit:
                parts.hidden = tuple(rest)
            return True
        gone, new = self._views.changes(parts.numbers())
        if gone or new:
            with self._database.writing() as cursor:
                views = self._views.change(cursor, gone, new)
            self._views = views
        return bool(gone or new)

    # -- any thread --------------------------------------------------------------------------------

    def caught_up(self) -> None:
        """Do nothing: here a commit is in the tables."""

    def lag(self) -> Lag:
        """Return none, likewise."""
        return Lag()

    def missing(self, tables: Sequence[TopicTable]) -> list[TopicTable]:
        """Return which topic tables are missing; raises CONFLICT, as ``define`` does."""
        return self._parts.missing(tables)

    def head(self) -> int:
        """Return the greatest number committed or trimmed; 0 for a new log."""
        return self._head

    def reserved(self) -> int:
        """Return the number up to which numbers are reserved."""
        return self._reserved

    def applied(self) -> int:
        """Return the number of the log's last batch that was committed here; 0 for none."""
        return self._applied

    def last_version(self) -> int:
        """Return the greatest version committed since the last ``return_versions``, or 0."""
        return self._last_version

    def return_versions(self, version: int) -> None:
        """Reset the last version durably to this one, if it is greater."""
        if version < self._last_version:
            with self._database.writing() as cursor:
                write_fact(cursor, "last_version", version)
                times = self._times.forget(cursor, version)
            self._last_version, self._times = version, times
