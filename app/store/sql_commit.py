"""A commit: the events of a batch, the records they leave, and the facts about them, as statements.

Events of one topic in a batch collapse to the last for the record; the log has them all. What was
there before is asked once for all topics of a table, then followed in memory. Nothing in memory
changes before the transaction has ended: ``Outcome`` carries what is to change then.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from sqlite3 import Cursor
from typing import cast

from app.core.events import DELETE, PATCH, PUT, Event
from app.core.tables import Table
from app.store.records import Key
from app.store.sql_rows import Row, Rows, loads, properties_cell
from app.store.sql_statements import LogStatement, RecordStatements
from app.store.sql_tables import META, TABLES


class Part:
    """One record table, open: its rows, its statements, and what is known of it without asking."""

    __slots__ = ("bytes", "count", "events", "mixed", "rows", "statements", "table_id", "trimmed")

    def __init__(self, rows: Rows, table_id: int) -> None:
        self.rows = rows
        self.table_id = table_id
        self.statements = RecordStatements(rows)
        self.count = 0
        """Records."""
        self.mixed = False
        """Whether any row of a typed table may hold content that is not a value."""
        self.trimmed = 0
        self.events = 0
        """Events in the log."""
        self.bytes = 0
        """Bytes of payload in the log."""


@dataclass(slots=True)
class Share:
    """What one batch does to one table."""

    part: Part
    keys: list[Key] = field(default_factory=list)
    indexes: list[int] = field(default_factory=list)
    """Where in the batch its events are."""
    added: int = 0
    bytes: int = 0
    mixed: bool = False


def split(events: Sequence[Event], part_of: Callable[[Table | None], Part]) -> list[Share]:
    """Divide a batch among its tables."""
    shares: dict[int, Share] = {}
    of_table: dict[int, tuple[Share, int, bool]] = {}  # by identity: hashing a table is slow
    for index, event in enumerate(events):
        identity = id(event.table)
        known = of_table.get(identity)
        if known is None:
            part = part_of(event.table)
            share = shares.setdefault(part.table_id, Share(part))
            layout = part.rows.layout
            known = of_table[identity] = (share, len(layout.prefix), layout.integer)
        share, prefix, integer = known
        topic = event.topic
        share.keys.append(share.part.rows.layout.key(topic) if integer else topic[prefix:])
        share.indexes.append(index)
        share.bytes += len(event.payload)
    return list(shares.values())


def write_records(
    cursor: Cursor, share: Share, events: Sequence[Event], existed: list[bool]
) -> None:
    """Write the records that a share leaves; note in ``existed`` what was there before."""
    statements = share.part.statements
    # In the order of the key, neighbours are on one page of the tree: a third less work.
    distinct = sorted(set(share.keys))
    before: set[Key] = set()
    for found in statements.existing.read(cursor, distinct):
        before.update(cast("list[Key]", loads(found[0])))
    present = set(before)
    last: dict[Key, Event] = {}
    for key, index in zip(share.keys, share.indexes, strict=True):
        event = events[index]
        existed[index] = key in present
        kind = event.kind
        if kind in {PUT, PATCH}:
            present.add(key)
            last[key] = event
        elif kind == DELETE:
            present.discard(key)
            last[key] = event
    share.added = len(present) - len(before)
    row = share.part.rows.row
    written = [(key, last[key]) for key in distinct if key in last]
    upserts = [row(key, event) for key, event in written if event.kind != DELETE]
    deletes: list[Row] = [
        (key,) for key, event in written if event.kind == DELETE and key in before
    ]
    if upserts:
        statements.upsert(cursor, upserts)
        share.mixed = share.part.rows.mixes(upserts)
    if deletes:
        statements.delete.write(cursor, deletes)


def log_rows(shares: Sequence[Share], events: Sequence[Event]) -> list[Row]:
    """Return the rows of the log for a batch, in the order of their numbers."""
    rows: list[Row] = [()] * len(events)
    for share in shares:
        table_id = share.part.table_id
        for key, index in zip(share.keys, share.indexes, strict=True):
            event = events[index]
            rows[index] = (
                event.seq,
                table_id,
                key,  # TEXT affinity: an integer becomes its digits
                event.kind,
                event.version,
                event.qos,
                event.retain,
                event.client,
                event.content_type,
                event.payload,
            )
    if any(event.properties is not None or event.expires_at for event in events):
        tails = [(event.expires_at or None, properties_cell(event)) for event in events]
        return [(*row, *tail) for row, tail in zip(rows, tails, strict=True)]
    return rows


def write_batch(
    cursor: Cursor, shares: Sequence[Share], events: Sequence[Event], log: LogStatement
) -> list[bool]:
    """Write a batch within a transaction; return whether each event found a record."""
    existed = [False] * len(events)
    for share in shares:
        write_records(cursor, share, events, existed)
    log.write(cursor, log_rows(shares, events))
    for share in shares:
        cursor.execute(
            f"UPDATE {TABLES} SET events=events+?, bytes=bytes+? WHERE id=?",
            (len(share.keys), share.bytes, share.part.table_id),
        )
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
    part = share.part
    part.count += share.added
    part.events += len(share.keys)
    part.bytes += share.bytes
    part.mixed = part.mixed or share.mixed
