"""What is wrong with an event, such as one that a hook has made.

The log takes exact types, and refuses to read anything else: an event with a text as its payload,
or with a QoS that there is not, would be appended and then keep the tables from following, at each
later start, too. So it is found before it is written: by ``log/batch_content.py`` for all who
write, and before that where a better error can be told.
"""

from typing import Final

from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event

_KINDS: Final = frozenset({PUT, PATCH, DELETE, MESSAGE})
_QOS: Final = frozenset({0, 1, 2})
_LEAVES: Final = (str, int, float, bytes, bytearray, memoryview, type(None))
_PLAIN: Final = "a map of text, numbers, bytes, and lists and maps of them"
_DEPTH_MAX: Final = 32
"""Levels of lists and maps in properties: those of MQTT have two."""


def mistake_in(event: Event) -> str:
    """Return what is wrong with an event, and what it should be; empty if it can be written."""
    for name, fits, wanted in (
        ("topic", isinstance(event.topic, str), "text"),
        ("kind", event.kind in _KINDS, "put, patch, delete or message"),
        ("payload", isinstance(event.payload, bytes | bytearray | memoryview), "bytes"),
        ("content_type", _is_text_or_none(event.content_type), "text or None"),
        ("qos", event.qos in _QOS and _is_whole(event.qos), "0, 1 or 2"),
        ("client", isinstance(event.client, str), "text"),
        ("properties", _are_properties(event.properties), "a map whose names are text, or None"),
        ("properties", _is_plain(event.properties, _DEPTH_MAX), _PLAIN),
        ("expires_at", _is_number(event.expires_at), "seconds since 1970, or 0 for never"),
    ):
        if not fits:
            return f"{name} is {wanted}, and not {_named(getattr(event, name))}"
    return ""


def _is_text_or_none(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_properties(value: object) -> bool:
    return value is None or (
        isinstance(value, dict) and all(isinstance(name, str) for name in value)
    )


def _is_plain(value: object, depth: int) -> bool:
    """Whether MessagePack gives back a value as it takes it, in so many levels."""
    if isinstance(value, dict):
        names = all(isinstance(name, str) for name in value)
        return depth > 0 and names and all(_is_plain(item, depth - 1) for item in value.values())
    if isinstance(value, list | tuple):
        return depth > 0 and all(_is_plain(item, depth - 1) for item in value)
    return isinstance(value, _LEAVES)


def _named(value: object) -> str:
    """Return a number as it is, and anything else by its type: it may be long, or a secret."""
    return repr(value) if isinstance(value, int | None) else f"of type {type(value).__name__}"
