"""An event: a put, patch, delete or message at one topic. A record is the last put or patch.

The payload is stored unchanged, with its content type, and is decoded on first use; encodings by
doors (a frame, another media type) are cached in ``encodings``, the first frame beside it, and
shared by all readers, so each event is encoded once per format. Because of these caches the class
is not frozen: all other fields are set before the event is announced and never changed afterwards.
"""

from typing import Final

from rowcast.core.tables import Table

PUT: Final = "put"
"""The record is now this value."""
PATCH: Final = "patch"
"""As PUT, written by a patch; the payload is the complete record after it."""
DELETE: Final = "delete"
"""The record was deleted; the payload is empty."""
MESSAGE: Final = "message"
"""A message at the topic; the record is unchanged."""
SNAPSHOT: Final = "snapshot"
"""Not an event of the log: a current record, at the start of a subscription."""
CURRENT: Final = "current"
"""Not an event of the log: the mark after the snapshots, with their position."""
RESET: Final = "reset"
"""Not an event of the log: the cursor cannot be resumed; the stream starts over."""
GAP: Final = "gap"
"""Not an event of the log: events were skipped here."""
COMMIT: Final = "commit"
"""Not an event of the log: the mark after a transaction, with its position."""

END: Final = "end"
"""Not an event of the log: a replay has come to its end."""
REPLAYED: Final = "replayed"
"""Not an event of the log: the cover of an event of the past, which is replayed."""

RETAINED: Final = frozenset({PUT, PATCH, DELETE})
"""Kinds that change the record."""

EXPIRY: Final = "message_expiry_interval"
"""The property that gives an event a time to live, in seconds (MQTT 5, 3.3.2.3.3)."""
EXPIRY_SECONDS_MAX: Final = 0xFFFF_FFFF
"""The most that it can say, 136 years; an event may live longer, such as to the year 9999."""


class Missing:
    """The type of MISSING: a value that has not been decoded yet."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


FIELDS: Final = (
    "client",
    "content_type",
    "decoded",
    "encodings",
    "expires_at",
    "kind",
    "payload",
    "properties",
    "qos",
    "retain",
    "seq",
    "table",
    "topic",
    "version",
)
"""What an event keeps."""


class Event:
    """An event at ``topic``.

    ``content_type`` is a media type, or None if the writer gave none. ``seq`` is the number in the
    log, 0 when the table does not log it. ``version`` is a hybrid logical timestamp. ``table`` is
    the declared table or None for an undeclared topic. ``client`` is the writer's client id or
    user. ``properties`` are MQTT 5 publish properties, forwarded with the payload. ``expires_at``
    is in seconds since 1970 (UTC), 0 for never.
    """

    __slots__ = (*FIELDS, "first_frame", "first_key")

    encodings: dict[object, object] | None
    """What doors have made of it, by keys of theirs; see ``event_cache``."""
    first_key: object
    """The key of ``first_frame``, which most events have alone: it needs no dictionary."""
    first_frame: bytes | tuple[bytes, bytes]
    """The first frame that was made of it; it is there once ``first_key`` is not None."""

    def __init__(
        self,
        topic: str,
        kind: str,
        payload: bytes,
        content_type: str | None = None,
        qos: int = 0,
        retain: bool = False,
        table: Table | None = None,
        client: str = "",
        properties: dict[str, object] | None = None,
        expires_at: float = 0.0,
        seq: int = 0,
        version: int = 0,
        decoded: object = MISSING,
    ) -> None:
        self.topic = topic
        self.kind = kind
        self.payload = payload
        self.content_type = content_type
        self.qos = qos
        self.retain = retain
        self.table = table
        self.client = client
        self.properties = properties
        self.expires_at = expires_at
        self.seq = seq
        self.version = version
        self.decoded = decoded
        self.encodings = self.first_key = None

    def __repr__(self) -> str:
        return f"Event({self.kind} {self.topic!r} seq={self.seq} {self.payload[:60]!r})"

    def changed(self, **facts: object) -> "Event":
        """Return a copy with other fields, such as ``payload``; caches are not shared."""
        copy = Event(self.topic, self.kind, self.payload)
        for name in FIELDS:
            setattr(copy, name, facts.pop(name) if name in facts else getattr(self, name))
        if facts:
            raise TypeError(f"an event has no {', '.join(facts)}")
        copy.encodings = copy.first_key = None
        if copy.payload is not self.payload or copy.content_type != self.content_type:
            copy.decoded = MISSING
        return copy

    @property
    def fields(self) -> tuple[object, ...]:
        """All fields except caches, for comparison in tests and stores."""
        return (
            self.topic,
            self.kind,
            self.payload,
            self.content_type,
            self.qos,
            self.retain,
            self.table.name if self.table else None,
            self.client,
            self.properties,
            self.expires_at,
            self.seq,
            self.version,
        )


Record = Event
"""The current value at one topic: its last PUT or PATCH event."""


def local_id(table: Table | None, topic: str) -> str:
    """Return the record's id within its table; the topic itself for an undeclared one."""
    if table is None:
        return topic
    return topic[len(table.path) + 1 :] if table.path else topic
