"""Where a record is from, when it is asked for: ``meta=true`` (FEATURES A17)."""

from app.core.clock import milliseconds_of
from app.core.events import PUT, Record


def with_meta(value: object, record: Record, epoch: str) -> dict[str, object]:
    """Return a record's value with its metadata; what is no object is under ``value``.

    ``_seq`` and ``_origin`` (the log's name) are the record's cursor; ``_ts`` is the time of its
    version in milliseconds since 1970 (UTC). ``_op`` is ``put``: a record is a whole value, whether
    a put or a patch made it.
    """
    known = value if isinstance(value, dict) else {"value": value}
    return known | {
        "_seq": record.seq,
        "_ts": milliseconds_of(record.version),
        "_version": record.version,
        "_origin": epoch,
        "_client": record.client,
        "_op": PUT,
    }
