"""Point-in-time recovery: restores a database file to a position of its log, or fails (O12).

Each record changed after the position gets its last change before it from the log; if the log no
longer has it, the file is not changed and the error names the topics. Later events are removed from
the log. Facts with positions, such as sessions, are removed: their clients start over. The file
must not be in use.

The log's epoch changes with every restore: numbers after the position are reused, so earlier
cursors must be recognised as invalid.
"""

# ruff: noqa: S608 - names are ours, values are bound

import json
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from sqlite3 import Cursor
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, Event
from rowcast.core.limits import STORE_WORKING_ROWS_MAX
from rowcast.core.tables import Table
from rowcast.store import sql_log, sql_topic_tables
from rowcast.store.sql_commit import LogPartition, write_fact
from rowcast.store.sql_database import Database
from rowcast.store.sql_migrate import make_own_tables, open_tables
from rowcast.store.sql_parts import Parts
from rowcast.store.sql_staged import Staging
from rowcast.store.sql_statements import LOG_COLUMNS
from rowcast.store.sql_tables import FORMER, LOG, META, SEEN, STATES, TABLES, TIMES, TOPICS

_POSITIONS: Final = ("session/", "group/", "gateway/", "will/", "rollups/", "alarms/place")
"""Prefixes of owners whose facts contain positions. Roll-ups and the states of alarms are computed
anew from what is there."""
_TRIGGERS: Final = "trigger"
"""The owner of positions up to which triggers were called: they go on at the end at the latest."""
_OF_RESULTS: Final = "owner>='result/' AND owner<'result0' AND name GLOB 'r/*'"
"""Selects the receipts of results, which are JSON and have a cursor."""
_STREAMS: Final = "owner>='stream/' AND owner<'stream0'"
"""Selects the facts of durable streams: a state, which is JSON, and of each producer a number."""
_SERVERS: Final = "$SYS/"
_CHANGED: Final = "temp.rowcast_changed"
_EXAMPLES: Final = 3

Decode = Callable[[Event], object]
"""Decodes the value of a table's event."""


def renew(path: Path) -> str:
    """Set a new epoch for a file's log; return it."""
    with closing(Database(path)) as database, database.writing() as cursor:
        make_own_tables(cursor, "")
        return _renew(cursor)


def _renew(cursor: Cursor) -> str:
    """Set a new epoch, also in the receipts of results, which are read by who repeats one."""
    (before,) = cursor.execute(f"SELECT value FROM {META} WHERE name='epoch'").fetchone()
    epoch = secrets.token_hex(4)
    write_fact(cursor, "epoch", epoch)
    names = [f'"position": "{name}:' for name in (before, epoch)]
    cursor.execute(
        f"UPDATE {STATES} SET value=CAST(replace(CAST(value AS TEXT),?,?) AS BLOB)"
        f" WHERE {_OF_RESULTS}",
        names,
    )
    return epoch


def rewind(path: Path, tables: Sequence[Table], position: int, decode: Decode) -> str:
    """Restore a file to a position; return the new epoch of its log.

    Raises GONE, and changes nothing, if the log no longer has the state at that position.
    """
    with closing(Database(path)) as database, database.writing() as cursor:
        make_own_tables(cursor, "")
        staging = Staging(database, lambda _: None)
        staging.load(cursor)
        staging.finish(cursor)
        loaded = open_tables(cursor, tables, STORE_WORKING_ROWS_MAX)
        parts = sql_topic_tables.load(cursor, loaded[0], loaded[1:])
        if position < sql_log.head(cursor):
            _check_reach(cursor, parts, position)
            _rewind_records(cursor, parts, loaded, position, decode)
            _cut_log(cursor, position)
            _forget(cursor, position)
            _rewind_streams(cursor, position)
        return _renew(cursor)


def position_of_time(path: Path, version: int) -> int:
    """Return the position just before the first event of at least this version."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        cursor = connection.cursor()
        row = cursor.execute(
            f"SELECT seq FROM {LOG} WHERE version>=? AND seq<={SEEN} ORDER BY seq LIMIT 1",
            (version,),
        ).fetchone()
        return sql_log.head(cursor) if row is None else int(row[0]) - 1


# -- checks of the log -----------------------------------------------------------------------------


def _check_reach(cursor: Cursor, parts: Parts, position: int) -> None:
    """Raise unless the log still has all events after the position."""
    rows = cursor.execute(f"SELECT name,trimmed FROM {TABLES} WHERE trimmed>?", (position,))
    short = {name: trimmed for name, trimmed in rows if not name.startswith(f"/{_SERVERS[:-1]}")}
    if short:
        epoch = cursor.execute(f"SELECT value FROM {META} WHERE name='epoch'").fetchone()[0]
        names = ", ".join(sorted(name.strip("/") or "undeclared topics" for name in short))
        raise Error(
            Code.GONE,
            f"the log of {names} in this backup begins after that; the earliest point that all of "
            f"it reaches is {epoch}:{max(short.values())}; an older backup reaches further",
        )
    known = {part.table_id for part in (parts.general, *parts.tables.values())}
    known |= {part.table_id for part in parts.by_level.values()} | set(parts.hidden)
    found = cursor.execute(f"SELECT DISTINCT table_id FROM {LOG} WHERE seq>?", (position,))
    unknown = {number for (number,) in found} - known
    if unknown:
        raise Error(
            Code.INVALID,
            "tables that the schema does not declare were written after that point; restore with "
            "the schema of that time: --schema FILE",
        )


# -- records ---------------------------------------------------------------------------------------


def _rewind_records(
    cursor: Cursor, parts: Parts, loaded: Sequence[LogPartition], position: int, decode: Decode
) -> None:
    """Restore each record that was changed after the position."""
    own = {part.table_id: part for part in loaded}
    _note_changed(cursor, parts, position)
    unsure = _unsure(cursor, loaded)
    if unsure:
        more = f" and {len(unsure) - _EXAMPLES} more" if len(unsure) > _EXAMPLES else ""
        raise Error(
            Code.GONE,
            f"what {', '.join(unsure[:_EXAMPLES])}{more} had been before is no longer in the log of"
            " this backup; choose a later point, or restore an older backup",
        )
    reader = sql_log.LogReader(own, {})
    for number, part in own.items():
        for events in _befores(cursor, reader, number):
            key = part.rows.layout.key
            for event in events:
                decode(event)
            rows = [part.rows.row(key(e.topic), e) for e in events if e.kind != DELETE]
            if rows:
                part.statements.upsert(cursor, rows)
            part.statements.delete.run(cursor, [key(e.topic) for e in events if e.kind == DELETE])
        absent = cursor.execute(
            f"SELECT topic FROM {_CHANGED} WHERE part=? AND seq IS NULL", (number,)
        ).fetchall()
        prefix, key = part.rows.layout.prefix, part.rows.layout.key
        part.statements.delete.run(cursor, [key(prefix + topic) for (topic,) in absent])


def _note_changed(cursor: Cursor, parts: Parts, position: int) -> None:
    """Collect topics changed after the position, each with the number of its last change before."""
    branches = [part.table_id for part in parts.by_level.values()] + list(parts.hidden)
    part = "table_id"
    if branches:  # their records are in the general part
        part = f"CASE WHEN table_id IN ({','.join(map(str, branches))}) THEN 0 ELSE table_id END"
    cursor.execute(
        f"CREATE TABLE {_CHANGED} (part INTEGER, topic TEXT, seq INTEGER,"
        " PRIMARY KEY (part,topic)) WITHOUT ROWID"
    )
    cursor.execute(
        f"INSERT INTO {_CHANGED} SELECT DISTINCT {part},topic,NULL FROM {LOG}"
        " WHERE seq>? AND kind<>?",
        (position, MESSAGE),
    )
    cursor.execute(
        f"INSERT OR REPLACE INTO {_CHANGED} SELECT c.part,c.topic,max(l.seq) FROM {LOG} l"
        f" CROSS JOIN {_CHANGED} c ON c.topic=l.topic AND c.part={part}"
        " WHERE l.seq<=? AND l.kind<>? GROUP BY c.part,c.topic",
        (position, MESSAGE),
    )


def _unsure(cursor: Cursor, loaded: Sequence[LogPartition]) -> list[str]:
    """Return topics with an unknown former state: the beginning of their log was trimmed."""
    trimmed = {part.table_id for part in loaded if part.trimmed}
    found: list[str] = []
    for part in loaded:
        number, prefix = part.table_id, part.rows.layout.prefix
        if number not in trimmed and number:
            continue
        rows = cursor.execute(
            f"SELECT topic FROM {_CHANGED} WHERE part=? AND seq IS NULL ORDER BY topic", (number,)
        )
        found += [prefix + topic for (topic,) in rows if number or _was_trimmed(cursor, topic)]
    return found


def _was_trimmed(cursor: Cursor, topic: str) -> bool:
    """Whether the beginning of an undeclared topic's log was trimmed.

    The server's own topics do not count: they are rewritten at start.
    """
    if topic.startswith(_SERVERS):
        return False
    level = topic.partition("/")[0] if "/" in topic else None
    names = ("", sql_topic_tables.entry_name(level))
    rows = cursor.execute(f"SELECT max(trimmed) FROM {TABLES} WHERE name IN (?,?)", names)
    (most,) = rows.fetchone()
    former = cursor.execute(f"SELECT 1 FROM {FORMER} WHERE branch=?", names[1:]).fetchone()
    return bool(most) or former is not None


def _befores(cursor: Cursor, reader: sql_log.LogReader, number: int) -> Iterator[list[Event]]:
    """Yield batches of the last changes before the position of a part's records."""
    rows = cursor.connection.execute(
        f"SELECT {LOG_COLUMNS} FROM {LOG} WHERE seq IN"
        f" (SELECT seq FROM {_CHANGED} WHERE part=? AND seq IS NOT NULL) ORDER BY seq",
        (number,),
    )
    while some := rows.fetchmany(STORE_WORKING_ROWS_MAX):
        yield [reader.event((row[0], number, *row[2:])) for row in some]


# -- the log and the facts -------------------------------------------------------------------------


def _cut_log(cursor: Cursor, position: int) -> None:
    """Remove events after the position from the log, and recount the rest."""
    cursor.execute(f"DELETE FROM {LOG} WHERE seq>?", (position,))
    cursor.execute(f"DELETE FROM {TIMES} WHERE seq>?", (position,))
    cursor.execute(f"UPDATE {TABLES} SET trimmed=min(trimmed,?)", (position,))
    cursor.execute(f"UPDATE {FORMER} SET trimmed=min(trimmed,?)", (position,))
    cursor.execute(
        f"UPDATE {META} SET value=CAST(min(CAST(value AS INTEGER),?) AS TEXT)"
        " WHERE name IN ('trimmed','forgotten')",
        (position,),
    )
    write_fact(cursor, "reserved", position)
    cursor.execute(
        f"UPDATE {TABLES} SET (events,bytes)=(SELECT count(*),"
        f"coalesce(sum(length(CAST(payload AS BLOB))),0) FROM {LOG} WHERE table_id=id),records=NULL"
    )
    left = cursor.execute(f"SELECT count(*) FROM {TOPICS}").fetchone()[0]
    entries = cursor.execute(f"SELECT id,name FROM {TABLES} WHERE name>='/' AND name<'0'")
    for number, name in entries.fetchall():
        count = sql_topic_tables.records_of(cursor, sql_topic_tables.level_of(name))
        cursor.execute(f"UPDATE {TABLES} SET records=? WHERE id=?", (count, number))
        left -= count
    cursor.execute(f"UPDATE {TABLES} SET records=? WHERE id=0", (left,))


def _forget(cursor: Cursor, position: int) -> None:
    """Remove facts with positions, and receipts of undone writes: a repeat has to write again.

    Numbers are used again: what had seen the undone ones would leave out as many of the next.
    """
    at = position.to_bytes(8, "big")  # with which a receipt begins, after what else is kept
    cursor.execute(
        f"DELETE FROM {STATES} WHERE owner>='producer/' AND owner<'producer0'"
        " AND substr(name,instr(name,':')+1) GLOB '[0-9]*' AND substr(value,1,8)>?",
        (at,),
    )
    cursor.execute(
        f"DELETE FROM {STATES} WHERE owner>='once/' AND owner<'once0' AND substr(value,25,8)>?",
        (at,),
    )
    said = "json_extract(CAST(value AS TEXT),'$.position')"
    cursor.execute(
        f"DELETE FROM {STATES} WHERE {_OF_RESULTS}"
        f" AND CAST(substr({said},instr({said},':')+1) AS INTEGER)>?",
        (position,),
    )
    for prefix in _POSITIONS:
        cursor.execute(f"DELETE FROM {STATES} WHERE substr(owner,1,?)=?", (len(prefix), prefix))
    cursor.execute(
        f"UPDATE {STATES} SET value=? WHERE owner=? AND value>?",
        (at, _TRIGGERS, at),
    )


def _rewind_streams(cursor: Cursor, position: int) -> None:
    """Undo what was appended to durable streams after a position, and streams that began then.

    What their producers had sent is not known any more, so a repeat is no repeat.
    """
    rows = cursor.execute(f"SELECT owner,value FROM {STATES} WHERE {_STREAMS} AND name='state'")
    for owner, value in rows.fetchall():
        state = json.loads(value)
        if state["tail"] <= position:
            continue
        kept = state["start"] <= position
        left = " AND name<>'state'" if kept else ""
        cursor.execute(f"DELETE FROM {STATES} WHERE owner=?{left}", (owner,))
        if kept:  # it took an append after the position, so it was not closed then
            state |= {"tail": position, "closed": False, "closed_by": None, "seq": ""}
            if state.get("first", 0) > position:
                state["first"] = 0
            cursor.execute(
                f"UPDATE {STATES} SET value=? WHERE owner=?", (json.dumps(state).encode(), owner)
            )
