"""Dead letters: events that a bridge could not deliver, as records below ``$SYS/gateway/<bridge>``.

A record is durable, can be read and subscribed to on every door, and expires, so dead letters need
no mechanism of their own (H13, H14; M11). A large payload is a separate record, because a record's
size is bounded.
"""

from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Final, cast

from rowcast.codecs import JSON, decode, encode
from rowcast.core.clock import milliseconds_of
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, EXPIRY, PUT, Event, Record
from rowcast.core.gateway_limits import GATEWAY_LETTER_PAYLOAD_BYTES_MAX
from rowcast.core.topics import TopicFilter
from rowcast.features.bridges.outbox import Item

ROOT: Final = "$SYS/gateway"
_DAY: Final = 86_400

Facts = dict[str, object]


def letters_of(bridge: str) -> TopicFilter:
    """Return the filter that selects a bridge's dead letters; ``+`` for all bridges."""
    return TopicFilter(f"{ROOT}/{bridge}/dead_letters/+")


def topic_of_letter(bridge: str, seq: int) -> str:
    """Return the topic of an event's dead letter."""
    return f"{ROOT}/{bridge}/dead_letters/{seq}"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The reason and time of a failed delivery."""

    bridge: str
    now_ms: int
    retain_days: int


def letter_of(burial: DeadLetter, item: Item, event: Event) -> list[Event]:
    """Return the writes of an item's dead letter, with information for diagnosis.

    The letter is the last of them. Its payload is text if possible, else base64.
    """
    topic = topic_of_letter(burial.bridge, item.seq)
    apart = len(event.payload) > GATEWAY_LETTER_PAYLOAD_BYTES_MAX
    said, coding = ("", "apart") if apart else _spelled(event.payload)
    given = event.properties or {}
    facts: Facts = {
        "id": item.seq,
        "broker": burial.bridge,
        "topic": item.topic,
        "payload": said,
        "payload_encoding": coding,
        "content_type": event.content_type,
        "kind": event.kind,
        "retain": event.retain,
        "qos": event.qos,
        "client_id": event.client,
        "user_property": given.get("user_property"),
        "written_at": milliseconds_of(event.version),
        "version": event.version,
        "attempts": item.attempts,
        "last_error": item.error,
        "dead_lettered_at": burial.now_ms,
    }
    writes = [Event(topic, PUT, encode(facts, JSON), JSON, 1, True)]
    if apart:
        kept = Event(f"{topic}/payload", PUT, event.payload, event.content_type, 1, True)
        writes.insert(0, kept)
    for write in writes:
        write.properties = {EXPIRY: burial.retain_days * _DAY}
    return writes


def _spelled(payload: bytes) -> tuple[str, str]:
    try:
        return payload.decode(), "text"
    except UnicodeDecodeError:
        return b64encode(payload).decode(), "base64"


def facts_of(record: Record) -> Facts:
    """Return the content of a dead letter."""
    return cast("Facts", decode(record.payload, JSON))


def event_in(facts: Facts, payload: bytes | None) -> Event:
    """Return the event of a dead letter, to send again; ``payload``: if stored separately.

    Raises INVALID for an edited letter that is no valid event.
    """
    try:
        event = Event(
            str(facts["topic"]),
            str(facts["kind"]),
            payload if payload is not None else _payload(facts),
            cast("str | None", facts["content_type"]),
            cast("int", facts["qos"]),
            bool(facts["retain"]),
            client=str(facts["client_id"]),
            seq=cast("int", facts["id"]),
            version=cast("int", facts["version"]),
        )
    except (KeyError, ValueError) as mistake:
        raise Error(Code.INVALID, f"this is no dead letter any more: {mistake}") from None
    pairs = facts.get("user_property")
    event.properties = {"user_property": pairs} if pairs else None
    return event


def _payload(facts: Facts) -> bytes:
    said = facts["payload"]
    if not isinstance(said, str):  # a value set by an operator
        return encode(said, JSON)
    return b64decode(said) if facts.get("payload_encoding") == "base64" else said.encode()


def ends_of_letter(bridge: str, seq: int) -> list[Event]:
    """Return the writes that remove a dead letter."""
    topic = topic_of_letter(bridge, seq)
    return [Event(name, DELETE, b"", None, 1, True) for name in (f"{topic}/payload", topic)]
