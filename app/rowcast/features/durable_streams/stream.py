"""One durable stream: what is known of it, and its stored form.

A stream is an undeclared topic with a beginning. Its content are the messages at that topic that
carry its life, a name that is given once; so a stream that is created anew at the topic has nothing
of the former one, and messages of other protocols at the topic are no part of it. Offsets are
positions of the log.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

import orjson

from rowcast.codecs import json_text

MARK: Final = "stream"
"""The property of an event of a stream: its life, and the event's place in its append."""
JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a stream: the events of one life at a topic, above one position, up to another."""

    topic: str
    life: str
    after: int
    until: int


@dataclass(frozen=True, slots=True)
class ProducerNumber:
    """The number of an append: of its producer, in an epoch."""

    producer: str
    epoch: int
    number: int

    def fields(self) -> dict[str, object]:
        """Return its stored form."""
        return _fields(self)


@dataclass(frozen=True, slots=True)
class Options:
    """The options a stream is created with; a repeated PUT of the same stream has equal ones."""

    content_type: str
    ttl: int | None = None
    """Seconds without a read or an append after which it ends."""
    expires_at: str = ""
    """The time at which it ends, as it was given."""
    closed: bool = False
    source: str = ""
    """The topic that it is forked from."""
    fork_offset: str = ""
    fork_sub: int = 0


@dataclass(slots=True)
class Stream:
    """A stream at ``topic``; ``start`` is the position before its first own event."""

    topic: str
    life: str
    options: Options
    user: str
    start: int
    tail: int
    """The position of its last event; that of its beginning while it is empty."""
    ends: float | None = None
    """The time given by ``Options.expires_at``, in seconds since 1970 (UTC)."""
    parent: str = ""
    """The life that it is forked from."""
    inherited: tuple[Segment, ...] = ()
    closed: bool = False
    closed_by: ProducerNumber | None = None
    seq: str = ""
    """The greatest Stream-Seq of an append."""
    deleted: bool = False
    """Whether it is kept for its forks only."""
    first: int = 0
    """The position of its first own event; 0 while there is none, or it is not known."""
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Epoch and last number of each producer, least recently active first."""
    touched: float = 0.0
    """The last read or append, in seconds since 1970 (UTC)."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by who appends: checks and append are one step."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, and replaced, when there is more of it, or it ends."""

    @property
    def is_json(self) -> bool:
        """Whether it is a stream of messages, and not of bytes."""
        return media_type(self.options.content_type) == JSON

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All parts, in order."""
        return (*self.inherited, Segment(self.topic, self.life, self._before, self.tail))

    @property
    def _before(self) -> int:
        """The position before its first own event, or else of its beginning.

        What is between the two may be trimmed: it is of other topics.
        """
        return self.first - 1 if self.first else self.start

    @property
    def beginning(self) -> int:
        """The position before its first event."""
        return self.inherited[0].after if self.inherited else self._before

    def deadline(self) -> float | None:
        """Return when it ends, in seconds since 1970 (UTC); None: never."""
        return self.ends if self.options.ttl is None else self.touched + self.options.ttl

    def notify(self) -> None:
        """Wake all that wait for more."""
        self.changed.set()
        self.changed = asyncio.Event()

    def packed(self, **changed: object) -> bytes:
        """Return its stored form, with some fields changed."""
        by = self.closed_by
        fields: dict[str, object] = {
            "life": self.life,
            "wish": _fields(self.options),  # the name in stored facts
            "user": self.user,
            "start": self.start,
            "tail": self.tail,
            "ends": self.ends,
            "parent": self.parent,
            "inherited": [_fields(item) for item in self.inherited],
            "closed": self.closed,
            "closed_by": by and by.fields(),
            "seq": self.seq,
            "deleted": self.deleted,
            "first": self.first,
        }
        return json_text.text(fields | changed)


def _fields(item: Options | Segment | ProducerNumber) -> dict[str, object]:
    return {name: getattr(item, name) for name in item.__dataclass_fields__}


def unpacked(topic: str, value: bytes, now: float) -> Stream:
    """Restore a stream. A time to live begins anew, because reads are not stored."""
    fields = orjson.loads(value)
    fields["options"] = Options(**fields.pop("wish"))
    fields["inherited"] = tuple(Segment(**item) for item in fields["inherited"])
    by = fields["closed_by"]
    fields["closed_by"] = ProducerNumber(**by) if by else None
    return Stream(topic, touched=now, **fields)


def media_type(content_type: str) -> str:
    """Return a content type without parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def default_type(known: Options | None) -> str:
    """Return the content type where none is asked for: that of a fork, or of bytes."""
    return known.content_type if known is not None and known.source else BYTES
