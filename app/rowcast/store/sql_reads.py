"""Reading the store on SQLite: records, the log, and what is counted in memory.

Called by any thread. Each read is one transaction, which sees one committed state.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from sqlite3 import Cursor
from typing import Final, TypeVar

from rowcast.core.events import Event, Record
from rowcast.core.grouping import Grouping, GroupRow
from rowcast.core.queries import Query
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource, TopicTable, branch_of
from rowcast.core.topics import TopicFilter
from rowcast.store import sql_expiry, sql_log, sql_scan, sql_search
from rowcast.store.older_rows import OlderRows, Oldest, OldestRoom
from rowcast.store.page_room import PageRoom
from rowcast.store.read_limit import ReadLimit
from rowcast.store.scan_pace import ScanPace
from rowcast.store.sql_commit import LogPartition
from rowcast.store.sql_database import Database
from rowcast.store.sql_parts import END, Parts, Plan
from rowcast.store.sql_report import tables_declared_otherwise
from rowcast.store.sql_rows import TopicRows
from rowcast.store.sql_staged import moving
from rowcast.store.sql_states import read_states
from rowcast.store.sql_tables import TABLES
from rowcast.store.sql_topic_tables import entry_name
from rowcast.store.store import Figures, Keep, Page, Scan
from rowcast.store.store_limits import StoreLimits

T = TypeVar("T")

_RECORDS: Final = f"SELECT records FROM {TABLES} WHERE name=?"  # noqa: S608 - no user's text
_NOWHERE: Final = "\0"
"""An id that no record can have."""


class SqlReads:
    """The reads of one open database; ``SqlStore`` sets its parts when it is opened."""

    def __init__(self, database: Database, limits: StoreLimits) -> None:
        self._database = database
        self._limits = limits
        self._parts = Parts(LogPartition(TopicRows(), 0))
        self._reader = sql_log.LogReader({}, {})
        self._pace = ScanPace()

    def limited(self, limit: ReadLimit, call: Callable[[], T]) -> T:
        """Run reads on this thread under a limit; raises its Error."""
        return self._database.limited(limit, call)

    def declared_otherwise(self, tables: Sequence[Table]) -> set[str]:
        """Return the SQL names of stored tables with another path or type now, or not declared.

        To be asked before the store is opened with these.
        """
        return tables_declared_otherwise(self._database.path, tables)

    def is_beyond(self, source: LogSource, keep: Keep, now_seconds: float) -> bool:
        """Whether ``trim`` would delete anything."""
        part = self._parts.own(source)
        if part is None:
            return False
        with self._database.reading() as cursor:
            return sql_log.is_beyond(cursor, part, keep, now_seconds)

    def trimmed(self, source: LogSource) -> int:
        """Return the greatest number of a source that may be trimmed, and is in no archive."""
        return self._parts.forgotten_upto(source)

    def trimmed_here(self, source: LogSource) -> int:
        """Return the greatest number of a source that may be no longer in the database."""
        return self._parts.trimmed(source)

    def read_older(self, older: OlderRows) -> None:
        """Read what was trimmed from an archive, from now on; after ``open``."""
        self._reader.older = self._parts.older = older
        self._reader.check = self._database.check_limit

    def log_parts(self) -> dict[int, tuple[str, int]]:
        """Return the entry of each part by its number, and the number up to which it is trimmed."""
        parts = self._parts
        found = {
            part.table_id: (part.rows.name, part.trimmed)
            for part in (parts.general, *parts.tables.values())
        }
        branches = list(parts.by_level.items())
        return found | {p.table_id: (entry_name(level), p.trimmed) for level, p in branches}

    def oldest_beyond(
        self, source: LogSource, keep: Keep, now_seconds: float, room: OldestRoom
    ) -> Oldest | None:
        """Return a part's oldest rows beyond ``keep``, those that ``trim`` would delete first.

        None if there is no such part, or nothing limits it.
        """
        older = self._reader.older
        with self._database.reading() as cursor:
            part = self._parts.own(source)  # as this transaction has it
            if part is None or not (keep.seconds or keep.events or keep.bytes):
                return None
            archived = 0 if older is None else older.archived(part.table_id)
            name = self.log_parts()[part.table_id][0]
            return sql_log.oldest(cursor, part, (keep, now_seconds), room, (name, archived))

    def topic_tables(self) -> list[TopicTable]:
        """Return the topic tables, in the order of their creation."""
        return self._parts.topic_tables()

    def figures(self, source: LogSource) -> Figures:
        """Return the counts of a source from memory."""
        return self._parts.figures(source)

    def count(self, source: LogSource) -> int:
        """Return the number of a source's records; of undeclared topics from memory."""
        if not isinstance(source, Table):
            return self._parts.figures(source).records
        name = self._parts.of(source).rows.name
        with self._database.reading() as cursor:
            staged = moving(cursor, name)  # which are counted in the table once they are there
            more = staged.new(cursor) if staged is not None else 0
            (records,) = cursor.execute(_RECORDS, (name,)).fetchone()
        return int(records) + more

    def place(self, after: int, sources: Sequence[LogSource] | None) -> str:
        """Return a text for the parts that ``read`` would read; equal for equal parts."""
        return self._parts.plan(after, sources).name

    def get(self, table: Table | None, topic: str) -> Record | None:
        """Return the current record at a topic."""
        part = self._parts.of(table)
        key = part.rows.layout.key_or_none(topic)
        if key is None:
            return None
        with self._database.reading() as cursor:
            row = next(iter(part.statements.find.run(cursor, [key])), None)
        return None if row is None else part.rows.record(row)

    def read(
        self, after: int, limit: int, sources: Sequence[LogSource] | None = None
    ) -> list[Event]:
        """Return up to ``limit`` events with ``seq > after`` of these sources, in order."""
        read = self._reader.read
        return self._read(after, sources, lambda cursor, plan: read(cursor, plan, after, limit))

    def read_back(
        self, before: int, limit: int, sources: Sequence[LogSource] | None = None
    ) -> list[Event]:
        """Return up to ``limit`` events with ``seq < before`` of these sources, newest first."""
        read = self._reader.read_back
        return self._read(0, sources, lambda cursor, plan: read(cursor, plan, before, limit))

    def _read(
        self, after: int, sources: Sequence[LogSource] | None, ask: Callable[[Cursor, Plan], T]
    ) -> T:
        """Read these sources' parts of the log; repeats if a part was created or dropped meanwhile.

        A part is registered in memory before its first write: if the parts did not change during
        the read, the result is complete for its snapshot.
        """
        parts = self._parts
        while True:
            generation = parts.generation
            plan = parts.plan(after, sources)
            with self._database.reading() as cursor:
                found = ask(cursor, plan)
            if generation == parts.generation:
                return found

    def scan(self, table: Table | None, topics: TopicFilter, after: str, limit: int) -> Page:
        """Return up to ``limit`` records that match the filter, sorted by key."""
        part = self._parts.of(table)
        with self._database.reading() as cursor:
            position = sql_log.head(cursor)
            found = sql_scan.scan(cursor, part, topics, after, self._limits)
            rows = list(islice(found, limit + 1))
        records = [part.rows.record(row) for row in rows[:limit]]
        return Page(position, records, more=len(rows) > limit)

    def scan_all(self, scans: Sequence[Scan], limit: int, size: int) -> list[Page]:
        """Return the first pages of several scans, within a bound of records and of bytes."""
        room = PageRoom(limit, size)
        with self._database.reading() as cursor:
            position = sql_log.head(cursor)

            def page(scan: Scan) -> Page:
                part = self._parts.of(scan.table)
                rows = sql_scan.scan(cursor, part, scan.topics, scan.after, self._limits)
                return room.page(position, map(part.rows.record, rows))

            return room.pages(map(page, scans))

    def search(self, table: Table, query: Query) -> Page:
        """Return one page of the query's result: at most ``query.limit`` complete records."""
        part = self._parts.of(table)
        with self._database.reading() as cursor:
            position = sql_log.head(cursor)
            rows, after = sql_search.search(cursor, part, query, self._pace)
        return Page(position, [part.rows.record(row) for row in rows], bool(after), after)

    def matching(self, table: Table, query: Query) -> int:
        """Return the number of records that match the query's conditions."""
        with self._database.reading() as cursor:
            return sql_search.matching(cursor, self._parts.of(table), query, self._pace)

    def grouped(self, table: Table, query: Query, grouping: Grouping, most: int) -> list[GroupRow]:
        """Return the groups of the records that match the query's conditions."""
        with self._database.reading() as cursor:
            part = self._parts.of(table)
            return sql_search.grouped(cursor, part, query, grouping, most, self._pace)

    def history(
        self, source: LogSource, topic: str, limit: int, before: int | None = None
    ) -> list[Event]:
        """Return the last ``limit`` events at one topic that the log still has, oldest first."""
        if limit <= 0:
            return []
        source, local = self._local(source, topic)
        read, until = self._reader.history, END if before is None else before - 1
        return self._read(0, [source], lambda cursor, plan: read(cursor, plan, local, limit, until))

    def follow(self, source: LogSource, topic: str, after: int, limit: int) -> list[Event]:
        """Return up to ``limit`` events at one topic after a position, in order."""
        source, local = self._local(source, topic)
        read = self._reader.follow
        return self._read(
            after, [source], lambda cursor, plan: read(cursor, plan, local, after, limit)
        )

    def change(self, source: LogSource, topic: str, until: int) -> Event | None:
        """Return the last put, patch or delete at a topic up to a position."""
        source, local = self._local(source, topic)
        read = self._reader.change
        return self._read(0, [source], lambda cursor, plan: read(cursor, plan, local, until))

    def _local(self, source: LogSource, topic: str) -> tuple[LogSource, str]:
        """Return the source of a topic's events, and the topic's name there."""
        if not isinstance(source, Table):
            return branch_of(topic) if source is None else source, topic
        prefix = self._parts.of(source).rows.layout.prefix
        return source, topic[len(prefix) :] if topic.startswith(prefix) else _NOWHERE

    def since(self, source: LogSource, version: int) -> int:
        """Return the position just before the source's first event of at least this version."""

        def ask(cursor: Cursor, plan: Plan) -> int:
            seq = self._reader.since(cursor, plan, version)
            return sql_log.head(cursor) if seq is None else seq - 1

        return self._read(0, [source], ask)

    def states(self, prefix: str) -> list[tuple[str, str, bytes]]:
        """Return the facts of owners that begin with ``prefix``, by owner and name."""
        with self._database.reading() as cursor:
            return read_states(cursor, prefix)

    def expired(
        self, now_seconds: float, limit: int, behind: tuple[float, int] = (0.0, 0)
    ) -> list[Record]:
        """Return up to ``limit`` expired records, earliest expiry first."""
        with self._database.reading() as cursor:
            return sql_expiry.expired(cursor, self._parts, now_seconds, limit, behind)

    def next_expiry(self) -> float | None:
        """Return the time of the next expiry; None if no record expires."""
        with self._database.reading() as cursor:
            return sql_expiry.next_expiry(cursor, self._parts)
