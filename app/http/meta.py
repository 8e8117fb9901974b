"""Where a record or an event is from, when it is asked for (FEATURES A17)."""

from app.core.clock import milliseconds_of
from app.core.events import PUT, Event, Record

NAMES = ("_seq", "_ts", "_version", "_origin", "_client", "_op")
"""What is told, in this order."""


def meta_of(event: Event, epoch: str) -> dict[str, object]:
    """Return an event's metadata.

    ``_seq`` and ``_origin`` (the log's name) are its cursor; ``_ts`` is the time of its version in
    milliseconds since 1970 (UTC).
    """
    told = (event.seq, milliseconds_of(event.version), event.version, epoch, event.client)
    return dict(zip(NAMES, (*told, event.kind), strict=True))


def with_meta(value: object, record: Record, epoch: str) -> dict[str, object]:
    """Return a record's value with its metadata; what is no object is under ``value``.

    ``_op`` is ``put``: a record is a whole value, whether a put or a patch made it.
    """
    known = value if isinstance(value, dict) else {"value": value}
    return known | meta_of(record, epoch) | {"_op": PUT}
