"""A commit: the events of a batch, the records they leave, and the facts about them, as statements.

Events of one topic in a batch collapse to the last for the record; the log has them all. What was
there before is asked once for all topics of a table, then followed in memory; a message changes no
record, so for it nothing is asked. Nothing in memory changes before the transaction has ended:
``Share`` carries what is to change then.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from sqlite3 import Cursor
from typing import Final, cast

from rowcast.core.events import DELETE, MESSAGE, Event
from rowcast.core.tables import Table
from rowcast.core.topic_tables import DIVIDED, TopicTable, branch_of
from rowcast.store.records import Key
from rowcast.store.sql_rows import Cell, Row, Rows, loads, properties_cell
from rowcast.store.sql_statements import LogStatement, RecordStatements
from rowcast.store.sql_tables import META, TABLES


class LogPartition:
    """One part of the log and the records it makes: its rows, and what is known without asking.

    That of a topic table has its rows in common with the general part, whose records they are in.
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
        """Whether any row of a typed table may hold content that is not a value."""
        self.trimmed = 0
        self.events = 0
        """Events in the log."""
        self.bytes = 0
        """Bytes of payload in the log."""
        self.topic_table: TopicTable | None = None
        self.since = 0
        """Of a topic table: up to where its branch's events may be in the general part."""


class Tally:
    """What one batch adds to one part."""

    __slots__ = ("added", "bytes", "events", "part", "plain", "table_id")

    def __init__(self, part: LogPartition) -> None:
        self.part = part
        self.table_id = part.table_id
        self.plain = part.topic_table is not None
        """Whether SQL tools are to see text as text."""
        self.added = self.events = self.bytes = 0


@dataclass(slots=True)
class Share:
    """What one batch does to one table of records, which one or more parts have in common."""

    part: LogPartition
    keys: list[Key] = field(default_factory=list)
    indexes: list[int] = field(default_factory=list)
    """Where in the batch its events are."""
    tallies: list[Tally] = field(default_factory=list)
    """Of which part each of its events is."""
    parts: dict[int, Tally] = field(default_factory=dict)
    """What is added to each part, by its number."""
    mixed: bool = False


_Place = tuple[Share, Tally, int, bool]
"""Where an event goes: its share, its part, the length of its prefix, and is its key a number?"""


def split(
    events: Sequence[Event],
    part_of: Callable[[Table | None], LogPartition],
    by_level: Mapping[str | None, LogPartition],
) -> list[Share]:
    """Divide a batch among its tables; the branches with a table of their own have ``by_level``."""
    shares: dict[int, Share] = {}
    # By identity, because hashing a table is slow; undeclared topics by their first level.
    known: dict[int | str | None, _Place] = {}

    def place(table: Table | None, topic: str) -> _Place:
        of: int | str | None = id(table)
        if table is None and by_level:
            cut = topic.find("/")
            of = topic[:cut] if cut >= 0 else None
            if of in DIVIDED:
                of = branch_of(topic).level
        found = known.get(of)
        if found is None:
            part = part_of(table)
            share = shares.setdefault(part.table_id, Share(part))
            owner = part if isinstance(of, int) else by_level.get(of, part)
            layout = part.rows.layout
            tally = share.parts.setdefault(owner.table_id, Tally(owner))
            found = known[of] = (share, tally, len(layout.prefix), layout.integer)
        return found

    last: Table | None = None
    found: _Place | None = None
    for index, event in enumerate(events):
        table, topic = event.table, event.topic
        if found is None or table is not last or (table is None and by_level):
            last, found = table, place(table, topic)
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
    """Write the records that a share leaves; note in ``existed`` what was there before."""
    parts = zip(share.keys, share.indexes, share.tallies, strict=True)
    changing = [item for item in parts if events[item[1]].kind != MESSAGE]
    if not changing:
        return
    statements = share.part.statements
    # In the order of the key, neighbours are on one page of the tree: a third less work.
    distinct = sorted({key for key, _, _ in changing})
    before: set[Key] = set()
    for found in statements.existing.run(cursor, distinct):
        before.update(cast("list[Key]", loads(found[0])))
    present = set(before)
    last: dict[Key, Event] = {}
    for key, index, tally in changing:
        event = last[key] = events[index]
        existed[index] = there = key in present
        if event.kind == DELETE:
            if there:
                present.discard(key)
                tally.added -= 1
        elif not there:
            present.add(key)
            tally.added += 1
    row = share.part.rows.row
    written = [(key, last[key]) for key in distinct]
    upserts = [row(key, event) for key, event in written if event.kind != DELETE]
    deletes = [key for key, event in written if event.kind == DELETE and key in before]
    if upserts:
        statements.upsert(cursor, upserts)
        share.mixed = share.part.rows.mixes(upserts)
    if deletes:
        statements.delete.run(cursor, deletes)


def _plain(payload: bytes) -> Cell:
    """Return what is text as text: the log gives back the same bytes, and SQL tools can read it."""
    if b"\0" not in payload:  # many tools take it for the end
        with suppress(UnicodeDecodeError):
            return payload.decode()
    return payload


def log_rows(shares: Sequence[Share], events: Sequence[Event]) -> list[Row]:
    """Return the rows of the log for a batch, in the order of their numbers."""
    rows: list[Row] = [()] * len(events)
    short = True
    for share in shares:
        for key, index, tally in zip(share.keys, share.indexes, share.tallies, strict=True):
            event = events[index]
            rows[index] = (
                event.seq,
                tally.table_id,
                key,  # TEXT affinity: an integer becomes its digits
                event.kind,
                event.version,
                event.qos,
                event.retain,
                event.client,
                event.content_type,
                _plain(event.payload) if tally.plain else event.payload,
            )
            if event.properties is not None or event.expires_at:
                short = False
    if short:
        return rows
    tails = [(event.expires_at or None, properties_cell(event)) for event in events]
    return [(*row, *tail) for row, tail in zip(rows, tails, strict=True)]


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


def write_fact(cursor: Cursor, name: str, value: object) -> None:
    """Write a fact about the whole store."""
    cursor.execute(
        f"INSERT INTO {META} (name,value) VALUES (?,?)"
        " ON CONFLICT (name) DO UPDATE SET value=excluded.value",
        (name, str(value)),
    )


def note(share: Share) -> None:
    """Take what a committed share changed into memory."""
    for tally in share.parts.values():
        part = tally.part
        part.count += tally.added
        part.events += tally.events
        part.bytes += tally.bytes
    share.part.mixed = share.part.mixed or share.mixed
