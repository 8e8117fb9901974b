"""A commit as SQL statements: the events of a batch, the resulting records, and facts.

Of several events of one topic in a batch only the last writes the record; the log has them all. The
previous records are queried once for all topics of a table, then tracked in memory; messages change
no record and need no query. State in memory changes only after the transaction: ``Share`` carries
the changes.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from sqlite3 import Cursor
from typing import Final

from rowcast.core.events import DELETE, MESSAGE, Event
from rowcast.core.tables import Table
from rowcast.core.topic_tables import DIVIDED, TopicTable, branch_of
from rowcast.store.records import Key
from rowcast.store.sql_rows import Cell, Row, Rows, properties_cell
from rowcast.store.sql_statements import LogStatement, RecordStatements
from rowcast.store.sql_tables import META, TABLES


class LogPartition:
    """One part of the log and its records: rows, and state cached in memory.

    A topic table's part shares the rows of the general part, which has its records.
    """

    __slots__ = (
        "bytes",
        "count",
        "events",
        "mixed",
        "rows",
        "since",
        "statements",
        "table_id",
        "topic_table",
        "trimmed",
    )

    def __init__(
        self, rows: Rows, table_id: int, statements: RecordStatements | None = None
    ) -> None:
        self.rows = rows
        self.table_id = table_id
        self.statements = statements or RecordStatements(rows)
        self.count = 0
        """Records."""
        self.mixed = False
        """Whether any row of a typed table may have content that is no value."""
        self.trimmed = 0
        self.events = 0
        """Events in the log."""
        self.bytes = 0
        """Bytes of payload in the log."""
        self.topic_table: TopicTable | None = None
        self.since = 0
        """Of a topic table: the position up to which its branch's events may be in the general
        part."""


class Tally:
    """The changes of one batch to one part."""

    __slots__ = ("added", "bytes", "events", "part", "plain", "table_id")

    def __init__(self, part: LogPartition) -> None:
        self.part = part
        self.table_id = part.table_id
        self.plain = part.topic_table is not None
        """Whether text is stored as TEXT, for SQL tools."""
        self.added = self.events = self.bytes = 0


@dataclass(slots=True)
class Share:
    """The changes of one batch to one table of records, which may be shared by parts."""

    part: LogPartition
    keys: list[Key] = field(default_factory=list)
    indexes: list[int] = field(default_factory=list)
    """The indexes of its events in the batch."""
    tallies: list[Tally] = field(default_factory=list)
    """The part of each of its events."""
    parts: dict[int, Tally] = field(default_factory=dict)
    """The changes of each part, by its number."""
    present: set[Key] = field(default_factory=set)
    """The keys of its events that have a record afterwards."""
    deleted: list[Key] = field(default_factory=list)
    mixed: bool = False


_Place = tuple[Share, Tally, int, bool]
"""An event's destination: share, part, length of its prefix, whether its key is a number."""


def _place(
    of: int | str | None,
    part: LogPartition,
    by_level: Mapping[str | None, LogPartition],
    shares: dict[int, Share],
) -> _Place:
    """Return where events of a table or first level go; a new share is added to ``shares``.

    Not a function within ``split``: compiled, that is a cycle, which would keep the keys of each
    batch until a collection of garbage, which in the applier comes late.
    """
    share = shares.setdefault(part.table_id, Share(part))
    owner = part if isinstance(of, int) else by_level.get(of, part)
    layout = part.rows.layout
    tally = share.parts.setdefault(owner.table_id, Tally(owner))
    return share, tally, len(layout.prefix), layout.integer


def split(
    events: Sequence[Event],
    part_of: Callable[[Table | None], LogPartition],
    by_level: Mapping[str | None, LogPartition],
) -> list[Share]:
    """Split a batch by tables; ``by_level`` has the parts of branches with a topic table."""
    shares: dict[int, Share] = {}
    # Keyed by identity, because hashing a table is slow; undeclared topics by first level.
    known: dict[int | str | None, _Place] = {}

    for index, event in enumerate(events):
        table, topic = event.table, event.topic
        if table is None and by_level:
            cut = topic.find("/")
            of: int | str | None = topic[:cut] if cut >= 0 else None
            if of in DIVIDED:
                of = branch_of(topic).level
        else:
            of = id(table)
        found = known.get(of)
        if found is None:
            found = known[of] = _place(of, part_of(table), by_level, shares)
        share, tally, prefix, integer = found
        share.keys.append(share.part.rows.layout.key(topic) if integer else topic[prefix:])
        share.indexes.append(index)
        share.tallies.append(tally)
        tally.events += 1
        tally.bytes += len(event.payload)
    return list(shares.values())


def write_records(
    cursor: Cursor, share: Share, events: Sequence[Event], existed: list[bool]
) -> None:
    """Write a share's records; set ``existed`` for events that found a record."""
    last: dict[Key, Event] = {}
    for key, index in zip(share.keys, share.indexes, strict=True):
        if events[index].kind != MESSAGE:
            last[key] = events[index]
    if not last:
        return
    statements = share.part.statements
    # Sorted by key, neighbours share a page of the B-tree: a third less work.
    distinct = sorted(last)
    before = statements.present(cursor, distinct)
    present = share.present = set(before)
    for key, index, tally in zip(share.keys, share.indexes, share.tallies, strict=True):
        event = events[index]
        if event.kind == MESSAGE:
            continue
        existed[index] = there = key in present
        if event.kind == DELETE:
            if there:
                present.discard(key)
                tally.added -= 1
        elif not there:
            present.add(key)
            tally.added += 1
    row, upserts, deletes = share.part.rows.row, list[Row](), share.deleted
    for key in distinct:
        event = last[key]
        if event.kind != DELETE:
            upserts.append(row(key, event))
        elif key in before:
            deletes.append(key)
    if upserts:
        statements.upsert(cursor, upserts)
        share.mixed = share.part.rows.mixes(upserts)
    if deletes:
        statements.delete.run(cursor, deletes)


def _plain(payload: bytes) -> Cell:
    """Return text as str, so that SQL tools can read it; the log returns the same bytes."""
    if b"\0" in payload:  # many tools treat it as the end
        return payload
    try:  # not suppress(): it costs as much as the rest of a row
        return payload.decode()
    except UnicodeDecodeError:
        return payload


def log_rows(shares: Sequence[Share], events: Sequence[Event]) -> list[Row]:
    """Return the rows of the log for a batch, in the order of their numbers."""
    rows: list[Row] = [()] * len(events)
    short = all(event.properties is None and not event.expires_at for event in events)
    for share in shares:
        for key, index, tally in zip(share.keys, share.indexes, share.tallies, strict=True):
            event = events[index]
            payload = _plain(event.payload) if tally.plain else event.payload
            if short:
                rows[index] = (
                    event.seq, tally.table_id, key, event.kind, event.version, event.qos,
                    event.retain, event.client, event.content_type, payload,
                )  # fmt: skip
                continue
            rows[index] = (
                event.seq, tally.table_id, key,  # TEXT affinity: an integer becomes its digits
                event.kind, event.version, event.qos, event.retain, event.client,
                event.content_type, payload, event.expires_at or None, properties_cell(event),
            )  # fmt: skip
    return rows


_ADD: Final = f"UPDATE {TABLES} SET events=events+?,bytes=bytes+?,records=records+? WHERE id=?"


def write_batch(
    cursor: Cursor, shares: Sequence[Share], events: Sequence[Event], log: LogStatement
) -> list[bool]:
    """Write a batch within a transaction; return whether each event found a record."""
    existed = [False] * len(events)
    for share in shares:
        write_records(cursor, share, events, existed)
    log.write(cursor, log_rows(shares, events))
    for share in shares:
        for tally in share.parts.values():
            cursor.execute(_ADD, (tally.events, tally.bytes, tally.added, tally.table_id))
        if share.mixed and not share.part.mixed:
            cursor.execute(f"UPDATE {TABLES} SET mixed=1 WHERE id=?", (share.part.table_id,))
    return existed


WRITE_FACT: Final = (
    f"INSERT INTO {META} (name,value) VALUES (?,?)"
    " ON CONFLICT (name) DO UPDATE SET value=excluded.value"
)


def write_fact(cursor: Cursor, name: str, value: object) -> None:
    """Write a fact about the whole store."""
    cursor.execute(WRITE_FACT, (name, str(value)))


def note(share: Share) -> None:
    """Apply a committed share to the state in memory."""
    for tally in share.parts.values():
        part = tally.part
        part.count += tally.added
        part.events += tally.events
        part.bytes += tally.bytes
    share.part.statements.learn(share.present, share.deleted)
    share.part.mixed = share.part.mixed or share.mixed
