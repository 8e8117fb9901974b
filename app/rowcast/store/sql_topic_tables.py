"""Topic tables as SQL: creation and removal of their entries among the parts of the log.

An entry is a row of ``rowcast_tables`` like a declared table's; its name there has a slash, which
no declared one has. For a dropped one ``rowcast_former`` has the position up to which its branch's
events were removed, for returning readers. Its events are deleted in slices; until then the entry
stays, hidden, under its number. Records of all undeclared topics are in one table; an entry only
counts its own.
"""

# ruff: noqa: S608 - names are ours, values are bound

import json
from collections.abc import Iterable
from sqlite3 import Cursor

from rowcast.core.topic_tables import TopicRoot, TopicTable
from rowcast.store import sql_times
from rowcast.store.sql_commit import LogPartition, write_fact
from rowcast.store.sql_log import note_trimmed
from rowcast.store.sql_parts import Level, Parts
from rowcast.store.sql_tables import FORMER, LOG, META, TABLES, TOPICS
from rowcast.store.store_limits import USUAL, StoreLimits


def entry_name(level: Level) -> str:
    """Return the name of a branch's entry; unique, because no level contains a slash."""
    return "//" if level is None else f"/{level}"


def level_of(name: str) -> Level:
    """Return the first level of an entry."""
    return None if name == "//" else name[1:]


def load(
    cursor: Cursor,
    general: LogPartition,
    tables: Iterable[LogPartition],
    limits: StoreLimits = USUAL,
) -> Parts:
    """Return all parts: those given, and those of topic tables from disk."""
    branches: list[LogPartition] = []
    rows = cursor.execute(
        f"SELECT id,name,shape,trimmed,events,bytes,records FROM {TABLES}"
        " WHERE name>='/' AND name<'0' ORDER BY id"
    )
    for number, name, shape, trimmed, events, size, records in rows:
        part = LogPartition(general.rows, number, general.statements)
        known = json.loads(shape)
        part.topic_table = TopicTable(known["name"], TopicRoot(level_of(name)))
        part.since = known["since"]
        part.trimmed, part.events, part.bytes, part.count = trimmed, events, size, records
        branches.append(part)
    hidden = cursor.execute(f"SELECT id FROM {TABLES} WHERE name>='0' AND name<':'").fetchall()
    former = cursor.execute(f"SELECT branch,trimmed FROM {FORMER} ORDER BY trimmed").fetchall()
    fact = cursor.execute(f"SELECT value FROM {META} WHERE name='forgotten'").fetchone()
    forgotten = 0 if fact is None else int(fact[0])
    known_gone = ((level_of(n), t) for n, t in former)
    parts = Parts(general, tables, branches, known_gone, forgotten, limits.former_branches)
    parts.hidden = tuple(int(number) for (number,) in hidden)
    return parts


def define(cursor: Cursor, parts: Parts, table: TopicTable, head: int) -> tuple[LogPartition, int]:
    """Create an entry within a transaction; return its part and the number of its records.

    If the general part has events, some may belong to the branch: they are read there, up to the
    current head. Otherwise only the general part's trim position applies to earlier times.
    """
    level, general = table.branch.level, parts.general
    part = LogPartition(general.rows, _free_number(cursor), general.statements)
    part.topic_table = table
    part.since = head if general.events else 0
    part.trimmed = parts.gone(level) if general.events else parts.trimmed(table.branch)
    moved = records_of(cursor, level) if general.count else 0
    shape = json.dumps({"name": table.name, "since": part.since})
    cursor.execute(
        f"INSERT INTO {TABLES} (id,name,path,shape,trimmed,events,bytes,records)"
        " VALUES (?,?,NULL,?,?,0,0,?)",
        (part.table_id, entry_name(level), shape, part.trimmed, moved),
    )
    _move_records(cursor, general, -moved)
    cursor.execute(f"DELETE FROM {FORMER} WHERE branch=?", (entry_name(level),))
    return part, moved


def _free_number(cursor: Cursor) -> int:
    (number,) = cursor.execute(f"SELECT max(id)+1 FROM {TABLES}").fetchone()
    return int(number)


def records_of(cursor: Cursor, level: Level) -> int:
    """Count the retained messages below a first level; None: those of a single level."""
    count = f"SELECT count(*) FROM {TOPICS} WHERE"
    if level is None:
        found = cursor.execute(f"{count} instr(topic,'/')=0")
    else:
        found = cursor.execute(f"{count} topic>=? AND topic<?", (f"{level}/", f"{level}0"))
    return int(found.fetchone()[0])


def _move_records(cursor: Cursor, part: LogPartition, count: int) -> None:
    if count:
        cursor.execute(f"UPDATE {TABLES} SET records=records+? WHERE id=?", (count, part.table_id))


def last_number(cursor: Cursor, part: LogPartition) -> int:
    """Return the number of a part's last event, including trimmed ones."""
    (last,) = cursor.execute(
        f"SELECT max(seq) FROM {LOG} WHERE table_id=?", (part.table_id,)
    ).fetchone()
    return max(part.trimmed, last or 0)


def drop(cursor: Cursor, parts: Parts, part: LogPartition, level: Level) -> None:
    """Hide an entry within a transaction; its events up to ``part.trimmed`` count as removed.

    Entries of excess branches are merged, as by ``Parts.remove`` in memory.
    """
    if part.events:
        cursor.execute(
            f"UPDATE {TABLES} SET name=?,events=0,bytes=0,records=0 WHERE id=?",
            (f"{part.table_id}/", part.table_id),
        )
    else:
        cursor.execute(f"DELETE FROM {TABLES} WHERE id=?", (part.table_id,))
    _move_records(cursor, parts.general, part.count)
    if not part.trimmed:
        return
    note_trimmed(cursor, part.trimmed)
    for oldest in parts.too_old():
        write_fact(cursor, "forgotten", max(parts.forgotten, parts.former[oldest]))
        cursor.execute(f"DELETE FROM {FORMER} WHERE branch=?", (entry_name(oldest),))
    cursor.execute(
        f"INSERT OR REPLACE INTO {FORMER} (branch,trimmed) VALUES (?,?)",
        (entry_name(level), part.trimmed),
    )


def purge(cursor: Cursor, number: int, limit: int) -> int:
    """Delete events of a hidden entry within a transaction, finally the entry; return how many."""
    cursor.execute(
        f"DELETE FROM {LOG} WHERE seq IN"
        f" (SELECT seq FROM {LOG} WHERE table_id=? ORDER BY seq LIMIT ?)",
        (number, limit),
    )
    done = cursor.rowcount
    if done < limit:
        cursor.execute(f"DELETE FROM {TABLES} WHERE id=?", (number,))
        sql_times.trim(cursor)
    return done
