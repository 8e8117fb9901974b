"""Decoding of values inside another payload, with the digits of decimals as they were written.

A command of WebSocket, a transaction, the rows of a result and what a resource class is given are
decoded before it is known which table their values are for. ``rows/written_digits.py`` says what is
taken, and why.
"""

from rowcast.codecs import JSON, codec_for, json_text
from rowcast.core.topics import DELAYED_PREFIX, RESULTS, TRANSACTIONS
from rowcast.routes.registry import Registry
from rowcast.rows.written_digits import Taking


def decoded_exactly(
    registry: Registry,
    topic: object,
    value: object,
    payload: bytes,
    content_type: str | None,
    member: str = "",
) -> object:
    """Return the value for a topic that was decoded from a payload, or from a member of it."""
    take = _taking(registry, topic)
    if take is None or codec_for(content_type).media_type != JSON:
        return value
    said = json_text.with_texts(payload)
    if member:
        said = said.get(member) if isinstance(said, dict) else None
    return value if said is None else take(value, said)


def _taking(registry: Registry, topic: object) -> Taking | None:
    """Return what takes the digits of a value for a topic; None where there are none."""
    if not isinstance(topic, str):
        return None
    if topic == TRANSACTIONS:
        return lambda value, said: _transaction(registry, value, said)
    if topic.startswith(f"{RESULTS}/"):
        return lambda value, said: _part(registry, value, said)
    meant = registry.named(topic)
    if meant.startswith(DELAYED_PREFIX):
        meant = meant.removeprefix(DELAYED_PREFIX).partition("/")[2]
    shape = registry.shape_at(meant) if meant else None
    return None if shape is None else shape.decimals


def _transaction(registry: Registry, value: object, said: object) -> object:
    if not isinstance(value, list) or not isinstance(said, list):
        return value
    return [_write(registry, *pair) for pair in zip(value, said, strict=True)]


def _write(registry: Registry, item: object, said: object) -> object:
    """Return one write of a transaction."""
    if not (isinstance(item, dict) and isinstance(said, dict)) or "value" not in item:
        return item
    topic = item.get("topic")
    take = None if topic == TRANSACTIONS else _taking(registry, topic)  # in itself it is refused
    return item if take is None else {**item, "value": take(item["value"], said["value"])}


def _part(registry: Registry, value: object, said: object) -> object:
    """Return a part of a result: rows of the table that it names."""
    if not (isinstance(value, dict) and isinstance(said, dict)):
        return value
    name, rows, texts = value.get("table"), value.get("rows"), said.get("rows")
    shape = registry.shapes.get(name) if isinstance(name, str) else None
    if shape is None or shape.decimals is None:
        return value
    if not (isinstance(rows, list) and isinstance(texts, list)):
        return value
    take = shape.decimals
    return {**value, "rows": [take(*pair) for pair in zip(rows, texts, strict=True)]}
