"""Decides a write against the current record: conditions, deciders, patches, server-set times.

Functions without I/O, run inside the order of commits, one batch at a time, so that
read-modify-write needs no lock. They change the event, never the store; a refused write has no
effect. After a failed batch they run again on the same events, so each must give the same result
twice. Features add ``checks`` or ``deciders`` to the write.
"""

from collections.abc import Callable
from typing import cast

from rowcast.codecs import decode, encode, is_structured
from rowcast.core.clock import seconds_of
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, MISSING, PATCH, PUT, RETAINED, Event, Record
from rowcast.core.merge_patch import merge_patch
from rowcast.core.tables import Role
from rowcast.core.transaction_parts import set_parts
from rowcast.reads.before_image import set_before_image
from rowcast.rows.compiled_table import CompiledTable
from rowcast.rows.transcoder import Plain, structured_type
from rowcast.store.store import Change
from rowcast.writes.last_write_wins import Stamp, stamp_of, tombstone
from rowcast.writes.write import Current, Group, Outcome, Receipt, Write


def decide_all(
    writes: list[Write],
    current: Current,
    events: list[Event],
    changes: list[Change],
    next_seq: Callable[[], int],
) -> list[Outcome]:
    """Decide writes in order, groups atomically; most are single and independent."""
    outcomes: list[Outcome] = []
    index, end = 0, len(writes)
    while index < end:
        write = writes[index]
        group = write.group
        if group is not None or write.depends:
            size = 1 if group is None else len(group.writes)
            outcomes += decide(writes[index : index + size], current, events, changes, next_seq)
            index += size
            continue
        event = write.event
        receipt = Receipt(event, write.wants_existed and current.get(event.topic) is not None)
        if current:
            _note(write, current)
        if event.kind == DELETE or write.changes or write.conclude is not None:
            _accept(write, current, events, changes, next_seq, receipt)
        elif write.logged:
            event.seq = next_seq()
            events.append(event)
        outcomes.append(receipt)
        index += 1
    return outcomes


def decide(
    unit: list[Write],
    current: Current,
    events: list[Event],
    changes: list[Change],
    next_seq: Callable[[], int],
) -> list[Outcome]:
    """Decide atomic writes; append the events and changes of accepted ones.

    ``current`` is updated as if they were written.
    """
    undo: list[tuple[str, Record | None, Stamp | None]] = []
    receipts: list[Outcome] = []
    try:
        for write in unit:
            late = _decide(write, current)
            existed = write.wants_existed and not late and _is_there(write.event, current)
            receipts.append(Receipt(write.event, existed, late=late))
            if not late:
                topic = write.event.topic
                undo.append((topic, current.get(topic), current.tombstones.get(topic)))
                _note(write, current)
    except Error as error:
        for topic, record, stamp in reversed(undo):
            _undo(current, topic, record, stamp)
        if len(unit) == 1:
            return [error]
        together = Error(error.code, f"nothing was written, because: {error.message}")
        return [error if item is write else together for item in unit]
    for item, receipt in zip(unit, receipts, strict=True):
        _accept(item, current, events, changes, next_seq, cast("Receipt", receipt))
    if unit[0].group is not None:
        _conclude(unit[0].group, receipts, changes)
    return receipts


def _conclude(group: Group, receipts: list[Outcome], changes: list[Change]) -> None:
    """Tell the events of a group that they are one transaction, and add its changes of facts."""
    set_parts([write.event for write in group.writes])
    if group.conclude is not None:
        changes += group.conclude(receipts)


def _undo(current: Current, topic: str, record: Record | None, stamp: Stamp | None) -> None:
    """Restore the state of one topic after a failed write."""
    if topic in current:
        current[topic] = record
    if stamp is not None:
        current.tombstones[topic] = stamp
    else:
        current.tombstones.pop(topic, None)


def _is_there(event: Event, current: Current) -> bool:
    """Whether a record exists before the event; undefined for messages."""
    return event.kind != MESSAGE and current.get(event.topic) is not None


def _accept(
    write: Write,
    current: Current,
    events: list[Event],
    changes: list[Change],
    next_seq: Callable[[], int],
    receipt: Receipt,
) -> None:
    """Append the event and changes of a decided write."""
    event = write.event
    if write.logged and not receipt.late:
        event.seq = next_seq()
        events.append(event)
        if event.kind == DELETE:
            changes.append(tombstone(event, current.epoch, current.now))
    if write.changes:
        changes += write.changes
    if write.conclude is not None:
        changes += write.conclude(receipt)


def _note(write: Write, current: Current) -> None:
    event = write.event
    if event.kind in RETAINED and event.topic in current:
        current[event.topic] = None if event.kind == DELETE else event
        if event.kind == DELETE:
            stamp = current.tombstones[event.topic] = stamp_of(event, current.epoch)
            if event.properties is not None:
                current.tombstone_properties[event.topic, stamp] = event.properties


def _decide(write: Write, current: Current) -> int:
    """Decide one write; return the version that wins over it if it is late, else 0."""
    if not write.depends:
        return 0
    event, shape = write.event, write.shape
    record = current.get(event.topic)
    for check in write.checks:
        if late := check(write, record, current):
            return late
    if event.kind == PATCH:
        _apply_patch(write, record)
    for decider in write.deciders:
        if late := decider(write, record, current):
            return late
    if shape is not None:
        if shape.managed and event.kind in {PUT, PATCH}:
            _set_times(write, shape, record)
        if shape.ruled:
            set_before_image(event, record)
    return 0


def _apply_patch(write: Write, record: Record | None) -> None:
    """Set the event's payload to the complete record after the patch, in the patch's media type."""
    event, shape = write.event, write.shape
    base: object = {} if record is None else value_of_record(record)
    merged = merge_patch(base, write.patch)
    if shape is not None:
        merged = shape.checker.check(shape.with_id(merged, event.topic))
    replace_value(event, shape, merged)
    if shape is not None and shape.ends:  # a record's lifetime starts at its last write (A5, A6)
        event.expires_at = shape.expiry(event, seconds_of(event.version))


def value_of_record(record: Record) -> object:
    """Return the record's decoded value; raises CONFLICT when it cannot be patched.

    The value is not cached on the record, which is shared with the event loop.
    """
    known = record.decoded
    if known is not MISSING and not isinstance(known, Plain):
        return known
    try:
        if is_structured(record.content_type):
            return decode(record.payload, record.content_type)
    except Error:
        pass
    raise Error(
        Code.CONFLICT,
        f"the record at {record.topic!r} is not structured and cannot be patched; put it",
    )


def _set_times(write: Write, shape: CompiledTable, record: Record | None) -> None:
    """Set the server's attributes; the time of creation survives a replacement.

    A write with a version of its own keeps the time of creation that it brings, so that each server
    has the same.
    """
    event = write.event
    value = dict(cast("dict[str, object]", event.decoded))
    brought = value if write.versioned else {}
    known = record.decoded if record is not None else None
    for attribute in shape.managed:
        kept = brought.get(attribute.name)
        if kept is None and isinstance(known, dict):
            kept = known.get(attribute.name)
        if attribute.role is Role.CREATED_TIME and kept is not None:
            value[attribute.name] = kept
        else:
            value[attribute.name] = shape.time_value(attribute, seconds_of(event.version))
    replace_value(event, shape, value)


def replace_value(event: Event, shape: CompiledTable | None, value: object) -> None:
    """Replace an event's value, in a media type that can encode it."""
    media_type = structured_type(event.content_type)
    event.decoded = value
    event.content_type = media_type
    event.payload = encode(shape.spell(value, media_type) if shape else value, media_type)
    event.encodings = event.first_key = None
