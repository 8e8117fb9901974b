"""Metadata of a record or an event, on request (A17).

The names are the same on every door; none clashes with an attribute, which may not begin with an
underscore. Each door defines how to request and return it.
"""

from rowcast.core.clock import milliseconds_of
from rowcast.core.events import PUT, SNAPSHOT, Event, Record
from rowcast.core.freshness import STALE, is_stale
from rowcast.core.lineage import FROM_CUT, cut_of
from rowcast.core.writers import writer_of

NAMES = ("_seq", "_ts", "_version", "_origin", "_client", "_op")
"""The names, in this order; USER and DOOR are added if a user wrote it."""
USER, DOOR = "_user", "_door"


def meta_of(event: Event, epoch: str) -> dict[str, object]:
    """Return an event's metadata.

    ``_seq`` and ``_origin`` (the log's name) are its cursor; ``_ts`` is the time of its version in
    milliseconds since 1970 (UTC). An event that was not logged has no number, and perhaps no time.
    """
    version = event.version or None
    time = milliseconds_of(version) if version else None
    kind = PUT if event.kind == SNAPSHOT else event.kind
    values = (event.seq or None, time, version, epoch, event.client, kind)
    meta: dict[str, object] = dict(zip(NAMES, values, strict=True))
    writer = writer_of(event)
    if writer is not None:
        meta[USER], meta[DOOR] = writer
    if cut := cut_of(event.client):
        meta[FROM_CUT] = cut
    return meta


def with_meta(
    value: object, record: Record, epoch: str, now_seconds: float | None = None
) -> dict[str, object]:
    """Return a record's value with its metadata; a value that is no object is under ``value``.

    ``_op`` is ``put``: a record is a complete value, whether a put or a patch wrote it. With a
    time, includes whether a record with a deadline is stale then.
    """
    known = value if isinstance(value, dict) else {"value": value}
    row = known | meta_of(record, epoch) | {"_op": PUT}
    table = record.table
    if now_seconds is not None and table is not None and table.deadline_seconds:
        row[STALE] = is_stale(table, record.version, now_seconds)
    return row
