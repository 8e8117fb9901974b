"""Dead letters: events that a bridge gave up on, as records below ``$SYS/gateway/<bridge>``.

A record is durable, readable and watched on every door, and ends by itself when its time is over,
so a dead letter needs nothing of its own (FEATURES H13, H14; M11).
"""

from base64 import b64encode
from typing import Final

from app.codecs import JSON, encode
from app.core.clock import milliseconds_of
from app.core.events import PUT, Event
from app.engine.retaining import EXPIRY
from app.gateway.outbox import Item

ROOT: Final = "$SYS/gateway"
_DAY: Final = 86_400


def topic_of_letter(bridge: str, seq: int) -> str:
    """Return where the dead letter of an event is."""
    return f"{ROOT}/{bridge}/dead_letters/{seq}"


def letter_of(bridge: str, item: Item, event: Event, now_ms: int, retain_days: int) -> Event:
    """Return the write that makes an item a dead letter, with all that helps to find out why.

    Its payload is text where it is text, else base64.
    """
    try:
        said, coding = event.payload.decode(), "text"
    except UnicodeDecodeError:
        said, coding = b64encode(event.payload).decode(), "base64"
    facts = {
        "id": item.seq,
        "broker": bridge,
        "topic": item.topic,
        "payload": said,
        "payload_encoding": coding,
        "content_type": event.content_type,
        "kind": event.kind,
        "retain": event.retain,
        "qos": event.qos,
        "client_id": event.client,
        "written_at": milliseconds_of(event.version),
        "attempts": item.attempts,
        "last_error": item.error,
        "dead_lettered_at": now_ms,
    }
    letter = Event(topic_of_letter(bridge, item.seq), PUT, encode(facts, JSON), JSON, 1, True)
    letter.properties = {EXPIRY: retain_days * _DAY}
    return letter
