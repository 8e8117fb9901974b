"""Translation between events and PUBLISH of another broker: payload, flags, properties, marks.

Marks are user properties of MQTT 5: with them receivers can order messages, drop duplicates, and,
if they are Rowcast servers, resolve concurrent writes by last-writer-wins (E26, H36, H41).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from rowcast.codecs import JSON
from rowcast.core.cursors import is_cursor, parse_cursor
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, EXPIRY, EXPIRY_SECONDS_MAX, MESSAGE, PUT, SNAPSHOT, Event
from rowcast.core.write_marks import put_mark
from rowcast.rows.transcoder import Transcoder
from rowcast.writes.known_versions import NOTHING_SEEN, SEEN, put_seen
from rowcast.writes.last_write_wins import put_stamp, stamp_of

ID: Final = "rowcast-id"
"""The cursor of the event: the same for each copy of it."""
AGAIN: Final = "rowcast-again"
"""Possibly a duplicate."""
HISTORICAL: Final = "rowcast-historical"
"""Delivered late; the value is its time of writing."""
PATH: Final = "rowcast-path"
"""The logs that it has been in, to prevent loops (H34)."""
POSITION: Final = "seq"
"""The position of a message in the log of a Rowcast server, as its subscribers get it."""
VERSION: Final = "rowcast-version"
ORIGIN: Final = "rowcast-origin"
PRODUCER: Final = "rowcast-producer"
"""The idempotency key for another Rowcast (M8)."""
LOW: Final = "rowcast-low"
"""All numbers below this one are done and need not be remembered."""
SEEN_MARK: Final = "rowcast-seen"
"""What a write of a synced topic had seen of other origins (K3)."""
_OURS: Final = frozenset({ID, AGAIN, HISTORICAL, PATH, VERSION, ORIGIN, PRODUCER, LOW, SEEN_MARK})

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Message:
    """A message for another broker."""

    payload: bytes
    retain: bool
    properties: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sender:
    """The sender: the log, the bridge, and the number below which all is done.

    0: none, for a dead letter.
    """

    epoch: str
    bridge: str
    low: int = 0
    syncs: bool = False
    """Whether the receiver is another site: it gets records whole, as they are here."""


def message_of(
    event: Event, transcoder: Transcoder, sender: Sender, now: float, *, again: bool, waited: bool
) -> Message | None:
    """Return the message of an event; None when it has expired.

    A record is a retained message, its deletion an empty one; a value of a declared table is JSON.
    """
    if 0 < event.expires_at <= now:
        return None
    whole = sender.syncs and event.kind != MESSAGE
    payload, media_type = _whole(event) if whole else _payload(event, transcoder)
    given = event.properties or {}
    properties: dict[str, Any] = {
        name: given[name] for name in ("response_topic", "correlation_data") if name in given
    }
    if media_type is not None:
        properties["content_type"] = media_type
    if event.expires_at:
        properties[EXPIRY] = min(max(1, round(event.expires_at - now)), EXPIRY_SECONDS_MAX)
    properties["user_property"] = [
        *(pair for pair in _pairs(given.get("user_property")) if pair[0] not in _OURS),
        *_marks(event, sender, again=again, waited=waited),
    ]
    return Message(payload, event.kind != MESSAGE, properties)


def as_feed(message: Message, payload: bytes) -> Message:
    """Return a change message: not retained, with the marks of its event."""
    return Message(payload, False, message.properties | {"content_type": JSON})


def _whole(event: Event) -> tuple[bytes, str | None]:
    """Return the payload with hidden attributes, which the other site hides itself."""
    return (b"", None) if event.kind == DELETE else (event.payload, event.content_type)


def _payload(event: Event, transcoder: Transcoder) -> tuple[bytes, str | None]:
    if event.kind == DELETE:
        return b"", None
    if event.table is None:
        return event.payload, event.content_type
    try:
        return transcoder.payload(event, JSON), JSON
    except Error:  # plain bytes have no other format
        return event.payload, event.content_type


def _marks(event: Event, sender: Sender, *, again: bool, waited: bool) -> list[tuple[str, str]]:
    epoch, given = sender.epoch, event.properties or {}
    if not event.seq:
        return [(PATH, epoch)]
    version, origin = stamp_of(event, epoch)
    marks = [(ID, f"{epoch}:{event.seq}"), (VERSION, str(version)), (ORIGIN, origin)]
    marks.append((PRODUCER, f"{epoch}/{sender.bridge}:1:{event.seq}"))
    seen = given.get(SEEN)
    if event.kind != MESSAGE and (sender.syncs or seen is not None):
        marks.append((SEEN_MARK, str(seen or NOTHING_SEEN)))
    if sender.low:
        marks.append((LOW, str(sender.low)))
    if again:
        marks.append((AGAIN, "1"))
    if waited:
        marks.append((HISTORICAL, str(version)))
    marks.append((PATH, ",".join(_been(_pairs(given.get("user_property")), epoch))))
    return marks


def _been(pairs: Pairs, *here: str) -> list[str]:
    """Return the logs that a message has been in, once each.

    Those of its path, and that of the position with which a Rowcast server delivers to subscribers.
    """
    logs = [log for name, value in pairs if name == PATH for log in value.split(",") if log]
    positions = [value for name, value in pairs if _is_position(name, value)]
    return list(dict.fromkeys([*logs, *(parse_cursor(each).epoch for each in positions), *here]))


def _is_position(name: str, value: str) -> bool:
    return name == POSITION and is_cursor(value)


def _pairs(given: object) -> list[tuple[str, str]]:
    return [(str(name), str(value)) for name, value in cast("Pairs", given or ())]


def event_of(
    topic: str, payload: bytes, qos: int, properties: Mapping[str, Any], writer: str, epoch: str
) -> Event | None:
    """Return the event of a message from another broker; None for a loop.

    It keeps the path that it came by, with this log: another server that subscribes here may be one
    that this one subscribes at. ``properties`` are gmqtt's. Raises INVALID for a malformed stamp.
    """
    pairs = _pairs(properties.get("user_property"))
    given = dict(pairs)
    been = _been(pairs)
    if epoch in been:
        return None
    retain = bool(properties.get("retain"))
    kind = MESSAGE if not retain else PUT if payload else DELETE
    media_type = _first(properties, "content_type")
    event = Event(topic, kind, payload, media_type, qos, retain, client=writer)
    kept: dict[str, object] = {}
    for name in ("response_topic", "correlation_data", EXPIRY):
        value = _first(properties, name)
        if value is not None:
            kept[name] = value
    others = [list(pair) for pair in pairs if pair[0] != PATH and not _is_position(*pair)]
    kept["user_property"] = [*others, [PATH, ",".join([*been, epoch])]]
    event.properties = kept
    if VERSION in given:
        put_stamp(event, given[VERSION], given.get(ORIGIN, ""))
        if SEEN_MARK in given:
            put_seen(event, given[SEEN_MARK])
    if PRODUCER in given:
        put_mark(event, given[PRODUCER], given.get(LOW))
    return event


def _first(properties: Mapping[str, Any], name: str) -> Any:
    """Return a property; gmqtt returns lists."""
    value = properties.get(name)
    return value[0] if isinstance(value, list) else value


def is_news(event: Event, first: int = 0) -> bool:
    """Whether a bridge forwards this: an event, or a record that replaces lost events.

    ``first``: the number up to which only records are forwarded, not messages.
    """
    if event.kind == MESSAGE and 0 < event.seq <= first:
        return False
    return event.kind in {PUT, "patch", DELETE, MESSAGE, SNAPSHOT}
