"""The store on SQLite: records in SQL tables, the log, and the facts, in one file.

This module is the interface, put together: the file (``sql_database``), the tables
(``sql_tables``, ``sql_migrate``), writing (``sql_commit``) and reading (``sql_log``, ``sql_scan``,
``sql_search``). What is known in memory (counts, the head) is changed only after the transaction
that changed it on the disk, by the one thread that writes; readers see one number or the next.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

import secrets
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from sqlite3 import Cursor

from app.core.errors import Code, Error
from app.core.events import Event, Record
from app.core.queries import Query
from app.core.tables import Table
from app.core.topics import TopicFilter
from app.store import sql_log, sql_scan, sql_search
from app.store.records import Key
from app.store.sql_commit import Part, note, split, write_batch, write_fact
from app.store.sql_database import Database
from app.store.sql_migrate import make_own_tables, open_tables
from app.store.sql_rows import Row, TopicRows
from app.store.sql_statements import LogStatement
from app.store.sql_states import StateStatements, read_states
from app.store.sql_tables import META, TABLES, quoted, sql_name
from app.store.store import Change, Keep, Page


class SqlStore:
    """Records and the log in an SQLite file.

    ``url`` is a path, a directory (the file in it is ``rowcast.db``) or ``sqlite:///...``. A file
    that is in use by another server is refused with BUSY.
    """

    def __init__(self, url: str | Path) -> None:
        self._database = Database(url)
        try:
            with self._database.defining() as cursor:
                make_own_tables(self._database.connection, cursor, secrets.token_hex(4))
                facts = dict(cursor.execute(f"SELECT name,value FROM {META}"))
                self._head = sql_log.head(cursor)
        except BaseException:
            self._database.close()
            raise
        self._epoch = str(facts["epoch"])
        self._reserved = int(facts["reserved"])
        self._last_version = int(facts["last_version"])
        self._parts: dict[str, Part] = {}
        self._undeclared = Part(TopicRows(), 0)
        self._log = LogStatement()
        self._states = StateStatements()
        self._reader = sql_log.LogReader({}, {})

    @property
    def epoch(self) -> str:
        """Eight hexadecimal digits that name this log."""
        return self._epoch

    @property
    def path(self) -> Path:
        """The database file."""
        return self._database.path

    def open(self, tables: Sequence[Table]) -> None:
        """Make what is missing for these tables, without losing anything that is there."""
        database = self._database
        with database.defining() as cursor:
            parts = open_tables(database.connection, cursor, tables)
            known = cursor.execute(f"SELECT id,path FROM {TABLES}").fetchall()
        self._undeclared = parts[0]
        self._parts = {part.rows.name: part for part in parts[1:]}
        former = {number: f"{path}/" if path else "" for number, path in known}
        self._reader = sql_log.LogReader({part.table_id: part for part in parts}, former)

    def close(self) -> None:
        """Finish and release the file; what was committed stays."""
        self._database.close()

    # -- the writer thread -------------------------------------------------------------------------

    def reserve(self, seq: int) -> None:
        """Promise durably that numbers up to ``seq`` will not be handed out again."""
        if seq > self._reserved:
            with self._database.writing() as cursor:
                write_fact(cursor, "reserved", seq)
            self._reserved = seq

    def commit(self, events: Sequence[Event], changes: Sequence[Change] = ()) -> list[bool]:
        """Write logged events, in order, the records they make, and changes: all or none."""
        if not events:
            self._change(changes)
            return []
        shares = split(events, self._part)
        version = max(event.version for event in events)
        with self._database.writing() as cursor:
            existed = write_batch(cursor, shares, events, self._log)
            if version > self._last_version:
                write_fact(cursor, "last_version", version)
            if changes:
                self._states.write(cursor, changes)
        for share in shares:
            note(share)
        self._head = events[-1].seq
        self._last_version = max(self._last_version, version)
        return existed

    def _change(self, changes: Sequence[Change]) -> None:
        if changes:
            with self._database.writing() as cursor:
                self._states.write(cursor, changes)

    def lookup(self, wanted: Sequence[tuple[Table | None, str]]) -> dict[str, Record]:
        """Return the current records of these topics, by topic; absent ones are left out."""
        keys: dict[int, tuple[Part, list[Key]]] = {}
        for table, topic in wanted:
            part = self._part(table)
            key = part.rows.layout.key_or_none(topic)
            if key is not None:
                keys.setdefault(part.table_id, (part, []))[1].append(key)
        found: dict[str, Record] = {}
        with self._database.guard():
            cursor = self._database.writer.cursor()
            for part, some in keys.values():
                for row in part.statements.find.read(cursor, some):
                    record = part.rows.record(row)
                    found[record.topic] = record
            cursor.close()
        return found

    def trim(self, table: Table | None, keep: Keep, now_seconds: float, limit: int) -> int:
        """Forget the table's oldest events beyond ``keep``, at most ``limit`` of them."""
        part = self._part(table)
        if not (keep.seconds or keep.events or keep.bytes):
            return 0
        trimmed = part.trimmed
        try:
            with self._database.writing() as cursor:
                count, size, last = sql_log.trim(cursor, part, keep, now_seconds, limit)
                # Known before it is true: who reads, and then asks, must not miss what is gone.
                part.trimmed = last
        except BaseException:
            part.trimmed = trimmed
            raise
        part.events -= count
        part.bytes -= size
        return count

    # -- any thread --------------------------------------------------------------------------------

    def head(self) -> int:
        """Return the greatest number committed or trimmed; 0 for a new log."""
        return self._head

    def reserved(self) -> int:
        """Return the number up to which ``reserve`` has promised."""
        return self._reserved

    def last_version(self) -> int:
        """Return the greatest version ever committed; 0 for a new log."""
        return self._last_version

    def trimmed(self, table: Table | None) -> int:
        """Return the greatest number of this table that was trimmed."""
        return self._part(table).trimmed

    def count(self, table: Table | None) -> int:
        """Return how many records the table has, at once."""
        return self._part(table).count

    def get(self, table: Table | None, topic: str) -> Record | None:
        """Return the current record at a topic."""
        part = self._part(table)
        key = part.rows.layout.key_or_none(topic)
        if key is None:
            return None
        with self._database.reading() as cursor:
            row = next(part.statements.find.read(cursor, [key]), None)
        return None if row is None else part.rows.record(row)

    def read(
        self, after: int, limit: int, table: Table | None = None, *, one_table: bool = False
    ) -> list[Event]:
        """Return up to ``limit`` events of the log with ``seq > after``, in order."""
        table_id = self._part(table).table_id if one_table else None
        with self._database.reading() as cursor:
            return self._reader.read(cursor, after, limit, table_id)

    def scan(self, table: Table | None, topics: TopicFilter, after: str, limit: int) -> Page:
        """Return up to ``limit`` records that the filter selects, in the order of their keys."""
        part = self._part(table)
        with self._database.reading() as cursor:
            position = sql_log.head(cursor)
            rows = list(islice(sql_scan.scan(cursor, part, topics, after), limit + 1))
        records = [part.rows.record(row) for row in rows[:limit]]
        return Page(position, records, more=len(rows) > limit)

    def search(self, table: Table, query: Query) -> Page:
        """Return one page of the query's answer: at most ``query.limit`` whole records."""
        part = self._part(table)
        with self._database.reading() as cursor:
            position = sql_log.head(cursor)
            rows, after = sql_search.search(cursor, part, query)
        return Page(position, [part.rows.record(row) for row in rows], bool(after), after)

    def matching(self, table: Table, query: Query) -> int:
        """Return how many records the query's conditions select."""
        with self._database.reading() as cursor:
            return sql_search.matching(cursor, self._part(table), query)

    def history(self, table: Table | None, topic: str, limit: int) -> list[Event]:
        """Return the last ``limit`` events at one topic that the log still has, oldest first."""
        part = self._part(table)
        layout = part.rows.layout
        if limit <= 0 or not topic.startswith(layout.prefix):
            return []
        local = topic[len(layout.prefix) :]
        with self._database.reading() as cursor:
            return self._reader.history(cursor, part.table_id, local, limit)

    def since(self, table: Table | None, version: int) -> int:
        """Return the position just before the table's first event of at least this version."""
        with self._database.reading() as cursor:
            seq = sql_log.since(cursor, self._part(table).table_id, version)
            return sql_log.head(cursor) if seq is None else seq - 1

    def states(self, prefix: str) -> list[tuple[str, str, bytes]]:
        """Return the facts of owners that begin with ``prefix``, by owner and name."""
        with self._database.reading() as cursor:
            return read_states(cursor, prefix)

    def facts(self, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
        """Return the values of these facts, by owner and name; absent ones are left out."""
        with self._database.guard():
            cursor = self._database.writer.cursor()
            found = {
                (owner, name): value for owner, name, value in self._states.read(cursor, places)
            }
            cursor.close()
        return found

    def expired(self, now_seconds: float, limit: int) -> list[Record]:
        """Return up to ``limit`` records whose time is over, the longest over first."""
        found: list[Record] = []
        with self._database.reading() as cursor:
            for part in (self._undeclared, *self._parts.values()):
                found += [part.rows.record(row) for row in _over(cursor, part, now_seconds, limit)]
        return sorted(found, key=lambda record: record.expires_at)[:limit]

    # -- inside ------------------------------------------------------------------------------------

    def _part(self, table: Table | None) -> Part:
        if table is None:
            return self._undeclared
        with suppress(KeyError):
            return self._parts[sql_name(table)]
        raise Error(
            Code.NOT_FOUND,
            f"the store was not opened with the table {table.name}; open it with the whole schema",
        )


def _over(cursor: Cursor, part: Part, now_seconds: float, limit: int) -> list[Row]:
    """Return the rows whose time is over, the longest over first."""
    expires = quoted(part.rows.names.expires)
    return cursor.execute(
        f"{part.statements.select} WHERE {expires}<=? ORDER BY {expires} LIMIT ?",
        (now_seconds, limit),
    ).fetchall()
