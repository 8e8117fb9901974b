"""A transaction as values: a list of writes, each a map as of a command of WebSocket (B22).

[{"op": "put", "topic": "Account/a", "value": {"sum": 90}, "ifMatch": "0badcafe:17"},
 {"op": "patch", "topic": "Account/b", "value": {"sum": 110}},
 {"op": "delete", "topic": "Order/7"},
 {"op": "message", "topic": "news/payments", "value": "paid"}]
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rowcast.codecs import JSON, encode
from rowcast.core.cursors import parse_cursor
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event
from rowcast.core.suggestions import did_you_mean
from rowcast.core.write_marks import put_mark
from rowcast.writes.write import Condition

KINDS: Final = (PUT, PATCH, DELETE, MESSAGE)
_MEMBERS: Final = ("op", "topic", "value", "ifMatch", "ifNoneMatch", "producer")


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """One write of a transaction: its event, and its condition."""

    event: Event
    condition: Condition | None


def planned(value: object, epoch: str, client: str, most: int) -> list[PlannedWrite]:
    """Return the writes of a transaction; raises INVALID with the place of the mistake.

    ``epoch`` names the log of cursors, ``client`` is the writer's name in events.
    """
    if not isinstance(value, list) or not value:
        raise Error(
            Code.INVALID,
            'a transaction is a list of writes, such as [{"op": "put", "topic": "Dog/1", "value": '
            '{"name": "Rex"}}, {"op": "delete", "topic": "Cat/2"}]',
        )
    if len(value) > most:
        raise Error(Code.UNPROCESSABLE, f"a transaction has at most {most} writes; divide it")
    found: list[PlannedWrite] = []
    for index, item in enumerate(value):
        try:
            found.append(_planned(item, epoch, client))
        except Error as error:
            raise at_index(error, index) from None
    return found


def at_index(error: Error, index: int) -> Error:
    """Return the Error of a transaction that one of its writes causes."""
    words = f"nothing was written, because: write {index}: {error.message}"
    return Error(error.code, words, **(error.detail | {"index": index}))


def _planned(item: object, epoch: str, client: str) -> PlannedWrite:
    if not isinstance(item, dict):
        raise Error(Code.INVALID, "it is no map with op and topic")
    kind, topic = _checked(item)
    payload = b"" if kind == DELETE else encode(item["value"], JSON)
    media_type = None if kind == DELETE else JSON
    event = Event(topic, kind, payload, media_type, 1, kind != MESSAGE, client=client)
    if "producer" in item:
        put_mark(event, str(item["producer"]))
    return PlannedWrite(event, _condition(item, kind, epoch))


def _checked(item: Mapping[str, object]) -> tuple[str, str]:
    """Return the kind and the topic of a write with all its members; raises INVALID."""
    for name in item:
        if name not in _MEMBERS:
            near = did_you_mean(str(name), _MEMBERS)
            raise Error(Code.INVALID, f"it has no member {str(name)[:80]!r}{near}")
    kind, topic = item.get("op"), item.get("topic")
    if not isinstance(kind, str) or kind not in KINDS:
        near, known = did_you_mean(str(kind), KINDS), ", ".join(KINDS)
        raise Error(Code.INVALID, f"there is no op {str(kind)[:80]!r}{near}; known are {known}")
    if not isinstance(topic, str) or not topic:
        raise Error(Code.INVALID, "topic is a text, such as Dog/1")
    if ("value" in item) is (kind == DELETE):
        words = "has no" if kind == DELETE else "lacks the member"
        raise Error(Code.INVALID, f"{kind} {words} value")
    return kind, topic


def _condition(item: Mapping[str, object], kind: str, epoch: str) -> Condition | None:
    match, none_match = item.get("ifMatch"), item.get("ifNoneMatch")
    if none_match is not None and (none_match != "*" or match is not None):
        raise Error(Code.INVALID, 'ifNoneMatch is "*", and does not go with ifMatch')
    if kind == MESSAGE and (match is not None or none_match is not None):
        raise Error(Code.INVALID, "a message takes no conditions; only a record has a version")
    if none_match is not None:
        return Condition(exists=False)
    if match is None:
        return Condition(exists=True, strict=True) if kind == DELETE else None
    if match == "*":
        return Condition(exists=True)
    if not isinstance(match, str):
        raise Error(Code.INVALID, 'ifMatch is the cursor of a version, or "*"')
    cursor = parse_cursor(match)
    return Condition(exists=True, seqs=frozenset({cursor.seq} if cursor.epoch == epoch else ()))
