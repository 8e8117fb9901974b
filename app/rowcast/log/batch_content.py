"""The content of a batch as MessagePack: events, changes of facts, operations on the log.

It is one array of three arrays, and a fourth with origins where events came from other nodes; a
newer version can append a fifth. Each event is an array of eleven in the order of
``encode_content``; its number is relative to the batch's first. A decoder takes any bytes: what is
not exactly this is refused with an Error, and nothing is ever made of it but numbers, text, bytes,
lists and maps.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, cast

import msgpack  # type: ignore[import-untyped]
import ormsgpack

from rowcast.core.errors import Code, Error
from rowcast.core.event_mistakes import mistake_in
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event
from rowcast.core.facts import Change
from rowcast.core.tables import Table

KINDS: Final = (PUT, PATCH, DELETE, MESSAGE)
"""The kinds of events; a batch has their index here, so none may move."""
QOS_MASK: Final = 0b011
RETAIN_FLAG: Final = 0b100
"""The flags of an event: its QoS in two bits (MQTT 5, 3.3.1.2), and whether it is retained."""

STAGE: Final = "stage"
"""The one operation whose arguments may be bytes: it has the events of an invisible page."""
GIVE_WAY: Final = "give_way"
"""In the content of each page of a table: whoever writes one of its records before the switch, with
a newer version, wins over its row."""
SWITCH: Final = "switch"
"""The operation that makes the staged events visible, of all tables, up to a number."""
ABANDON: Final = "abandon"
"""The operation that forgets the staged events."""

_pack: Final[Callable[[object], bytes]] = ormsgpack.packb
TableOf = Callable[[str], Table | None]
"""Finds the declared table of a name; None where it is not declared any more."""

_EVENT_TYPES: Final = (
    str,
    int,
    bytes,
    (str, type(None)),
    int,
    (str, type(None)),
    str,
    (dict, type(None)),
    (float, int),
    int,
    int,
)
_EventPart = tuple[
    str, int, bytes, str | None, int, str | None, str, dict[str, object] | None, float, int, int
]
"""The same for type checkers."""
_CHANGE_TYPES: Final = (str, str, (bytes, type(None)))
_KNOWN_CHANGES: Final = frozenset({(str, str, bytes), (str, str, type(None))})
"""The same of changes of facts."""
_PLAIN: Final = frozenset({str, int, float, bool, bytes, type(None)})
"""Types of values of properties that need no second look: they contain nothing."""
_NAMES: Final = frozenset({str})
_CODE_OF: Final = {kind: code for code, kind in enumerate(KINDS)}


class Operation(NamedTuple):
    """A change of the log itself or of its tables: such as that a topic table begins."""

    name: str
    arguments: tuple[str | int | float | bytes | None, ...]


class Origin(NamedTuple):
    """The outcome of one follower's proposal, stored in the batch and as durable as it."""

    node: str
    """The name of one run of a node's process."""
    number: int
    """The number of the proposal, which grows in that run."""
    units: int
    """How many of its units were carried out: the first ones."""
    first: int
    """The number of their first event; the others follow without a gap."""
    existed: bytes
    """For each of their events 1 if its topic had a record just before, else 0."""


class Content(NamedTuple):
    """What one batch has: all or nothing of it takes effect."""

    events: Sequence[Event] = ()
    changes: Sequence[Change] = ()
    operations: Sequence[Operation] = ()
    origins: Sequence[Origin] = ()


def encode_content(content: Content, first: int) -> bytes:
    """Return the bytes of a batch's content; ``first`` is the number of its first event.

    Raises INVALID for what ``decode_content`` would refuse: once it is in the log, no table could
    follow it any more. What is looked at first is cheap, and true of nearly every event.
    """
    events, changes, operations, origins = content
    encoded: list[tuple[object, ...]] = []
    for event in events:
        table, kept, text, more = event.table, event.payload, event.content_type, event.properties
        odd = type(event.topic) is not str or type(event.client) is not str
        odd |= type(kept) is not bytes or type(event.qos) is not int or not 0 <= event.qos <= 2
        odd |= type(event.expires_at) is not float or (text is not None and type(text) is not str)
        if odd or (more is not None and _may_be_wrong(more)):
            _check_event(event)
        encoded.append(
            (
                event.topic,
                _CODE_OF[event.kind],
                kept,
                text,
                event.qos | RETAIN_FLAG if event.retain else event.qos,
                None if table is None else table.name,
                event.client,
                more,
                event.expires_at,
                event.seq - first,
                event.version,
            )
        )
    if changes or operations or origins:
        return _packed(encoded, changes, operations, origins)
    return _pack((encoded, (), ()))


def _packed(
    events: list[tuple[object, ...]],
    changes: Sequence[Change],
    operations: Sequence[Operation],
    origins: Sequence[Origin],
) -> bytes:
    """Return MessagePack, of ormsgpack, which takes a sixth of the time that msgpack takes.

    A named tuple is no tuple for it. It does not decode: it would accept bytes after the end.
    """
    if changes and not _KNOWN_CHANGES.issuperset([tuple(map(type, item)) for item in changes]):
        raise Error(Code.INVALID, "a fact has text as its owner and name, and bytes as its value")
    facts = [tuple(item) for item in changes] if changes else ()
    done = [(item.name, item.arguments) for item in operations] if operations else ()
    if not origins:
        return _pack((events, facts, done))
    return _pack((events, facts, done, [tuple(item) for item in origins]))


def _may_be_wrong(properties: object) -> bool:
    """Whether properties need a look at what is in their values, as those with lists do."""
    return (
        type(properties) is not dict
        or not _NAMES.issuperset(map(type, properties))
        or not _PLAIN.issuperset(map(type, properties.values()))
    )


def _check_event(event: Event) -> None:
    """Raise INVALID for an event that cannot be read again."""
    if mistake := mistake_in(event):
        raise Error(Code.INVALID, f"an event cannot be logged: its {mistake}")


def decode_content(body: bytes, first: int, table_of: TableOf) -> Content:
    """Return the content of a batch. Raises INVALID for bytes that no encoder has made."""
    try:
        events, changes, operations, *more = msgpack.unpackb(body, strict_map_key=True)
        return Content(
            [_event_of(item, first, table_of) for item in events],
            [_change_of(item) for item in changes],
            [_operation_of(item) for item in operations],
            [_origin_of(item) for item in more[0]] if more else (),
        )
    except (ValueError, TypeError, IndexError, msgpack.UnpackException) as fault:
        raise Error(Code.INVALID, f"the content of a batch cannot be decoded: {fault}") from None


def _event_of(item: Sequence[object], first: int, table_of: TableOf) -> Event:
    if not _is_event(item):
        _check(item, _EVENT_TYPES)  # says what is wrong
    topic, code, payload, content_type, bits, table, client, properties, ends, place, version = (
        cast("_EventPart", tuple(item))
    )
    if code < 0 or not 0 <= bits <= (QOS_MASK | RETAIN_FLAG) or bits & QOS_MASK == QOS_MASK:
        raise ValueError(f"an event of kind {code} with the flags {bits}")
    return Event(
        topic,
        KINDS[code],
        payload,
        content_type,
        bits & QOS_MASK,
        bits & RETAIN_FLAG != 0,
        None if table is None else table_of(table),
        client,
        properties,
        float(ends),
        first + place,
        version,
    )


def _is_event(item: object) -> bool:
    """Whether ``_check`` finds nothing wrong: compiled, each type is one comparison."""
    if not isinstance(item, list) or len(item) != len(_EVENT_TYPES):
        return False
    topic, code, payload, content_type, bits, table, client, properties, ends, place, version = item
    return (
        isinstance(topic, str)
        and isinstance(code, int)
        and isinstance(payload, bytes)
        and (content_type is None or isinstance(content_type, str))
        and isinstance(bits, int)
        and (table is None or isinstance(table, str))
        and isinstance(client, str)
        and (properties is None or isinstance(properties, dict))
        and isinstance(ends, float | int)
        and isinstance(place, int)
        and isinstance(version, int)
        and not (isinstance(code, bool) or isinstance(bits, bool) or isinstance(ends, bool))
        and not (isinstance(place, bool) or isinstance(version, bool))
    )


def _change_of(item: Sequence[object]) -> Change:
    if type(item) is not list or tuple(map(type, item)) not in _KNOWN_CHANGES:
        _check(item, _CHANGE_TYPES)  # says what is wrong
    owner, name, value = cast("tuple[str, str, bytes | None]", tuple(item))
    return Change(owner, name, value)


def _operation_of(item: Sequence[object]) -> Operation:
    _check(item, (str, list))
    name, arguments = item
    found = tuple(cast("list[str | int | float | bytes | None]", arguments))
    kinds = (str, int, float, bytes, type(None)) if name == STAGE else (str, int, float, type(None))
    _check(found, (kinds,) * len(found))
    return Operation(cast("str", name), found)


def _origin_of(item: Sequence[object]) -> Origin:
    _check(item, (str, int, int, int, bytes))
    node, number, units, first, existed = item
    return Origin(
        cast("str", node),
        cast("int", number),
        cast("int", units),
        cast("int", first),
        cast("bytes", existed),
    )


def _check(item: Sequence[object], types: tuple[type | tuple[type, ...], ...]) -> None:
    """Refuse an array of another length or with a part of another type; a boolean is no number."""
    if type(item) is not list and type(item) is not tuple:
        raise TypeError(f"a {type(item).__name__} where an array is expected")
    if len(item) != len(types):
        raise ValueError(f"an array of {len(item)} where one of {len(types)} is expected")
    for part, wanted in zip(item, types, strict=True):
        if not isinstance(part, wanted) or type(part) is bool:
            raise TypeError(f"a {type(part).__name__} where another type is expected")
