"""Translation of a PUBLISH or a will to an event: flags and properties.

Retained is put, retained and empty is delete, anything else is a message (D48-D50).
"""

from collections.abc import Mapping
from typing import Final, cast

from rowcast.core.clock import milliseconds_of
from rowcast.core.cursors import parse_cursor
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PUT, Event
from rowcast.core.limits import CURSORS_IN_CONDITION_MAX
from rowcast.core.write_marks import put_mark, put_path
from rowcast.mqtt.packets import Will
from rowcast.mqtt.properties import Properties
from rowcast.writes.known_versions import put_seen
from rowcast.writes.last_write_wins import put_stamp
from rowcast.writes.write import Condition

DOOR: Final = "mqtt"
"""This door's name in callers and in ``Table.hidden_from``."""

KEPT: Final = frozenset(
    {
        "payload_format_indicator",
        "message_expiry_interval",
        "response_topic",
        "correlation_data",
        "user_property",
    }
)
"""Publish properties forwarded with the payload (MQTT-3.3.2-4, -15, -16, -17, -18)."""


Pairs = tuple[tuple[str, str], ...]
"""User properties in their order; names may repeat (MQTT-3.3.2-18)."""


def user_properties(properties: Properties) -> dict[str, str]:
    """Return user properties by name; the last one of a name wins."""
    given = (properties or {}).get("user_property", ())
    return dict(cast("Pairs", given))


def is_wanted(users: Mapping[str, str], name: str) -> bool:
    """Return whether user properties ask for what has this name (A17); raises INVALID."""
    said = users.get(name, "false")
    if said not in {"true", "false"}:
        raise Error(Code.INVALID, f"the user property {name} is true or false, not {said[:40]!r}")
    return said == "true"


def describe(event: Event, properties: dict[str, object]) -> None:
    """Set an event's content type, expiry and properties from a packet's."""
    content_type = properties.get("content_type")
    if content_type:
        event.content_type = str(content_type)
    kept = {name: properties[name] for name in properties if name in KEPT}
    if "user_property" in kept:  # lists, as the store returns them: tuples are no values
        kept["user_property"] = [list(pair) for pair in cast("Pairs", kept["user_property"])]
    event.properties = kept or None


def deletion_seconds(event: Event, now_seconds: float) -> int:
    """Return what is left of the interval of a retained message that deletes; -1 for none.

    It is told to subscribers (MQTT-3.3.2-6), and is no expiry of the event: a deletion that is not
    delivered would leave its record with the reader. After its time it is delivered without.
    """
    given = None if event.properties is None else event.properties.get("message_expiry_interval")
    if event.kind != DELETE or type(given) is not int:
        return -1
    if not event.version:
        return given
    waited = max(0, int(now_seconds * 1_000) - milliseconds_of(event.version)) // 1_000
    return given - waited if waited < given else -1


def condition_of(properties: Properties, epoch: str) -> Condition | None:
    """Parse the user property ``if-match``: a cursor, ``*`` or, for no record, ``none`` (A16).

    ``if-none-match`` = ``*``, as HTTP spells it, is the same as ``none``. Raises INVALID for
    anything else.
    """
    given = user_properties(properties)
    text = given.get("if-match")
    if "if-none-match" in given:
        if text is not None or given["if-none-match"] != "*":
            raise Error(Code.INVALID, "if-none-match is *, and does not go with if-match")
        return Condition(exists=False)
    if text is None:
        return None
    if text == "*":
        return Condition(exists=True)
    if text == "none":
        return Condition(exists=False)
    tokens = text.split(",")
    if len(tokens) > CURSORS_IN_CONDITION_MAX:
        raise Error(Code.INVALID, f"if-match names more than {CURSORS_IN_CONDITION_MAX} cursors")
    cursors = [parse_cursor(token) for token in tokens]
    # A cursor of another log matches no record of this one, whatever its number.
    return Condition(seqs=frozenset(cursor.seq for cursor in cursors if cursor.epoch == epoch))


def stamp_from(event: Event, properties: Properties) -> None:
    """Parse the user properties ``rowcast-version``, ``-origin`` and ``-seen`` (E26, K3)."""
    given = user_properties(properties)
    version = given.get("rowcast-version")
    if version is not None:
        put_stamp(event, version, given.get("rowcast-origin", ""))
        if "rowcast-seen" in given:
            put_seen(event, given["rowcast-seen"])


def mark_from(event: Event, properties: Properties) -> None:
    """Parse the user properties ``rowcast-producer``, ``-low`` and ``-path`` (M8, H34)."""
    given = user_properties(properties)
    if "rowcast-path" in given:
        put_path(event, given["rowcast-path"])
    mark = given.get("rowcast-producer")
    if mark is not None:
        put_mark(event, mark, given.get("rowcast-low"))


def event_of_will(will: Will, client_id: str) -> Event:
    """Return the event of a will (MQTT-3.1.2-8)."""
    kind = MESSAGE if not will.retain else PUT if will.payload else DELETE
    event = Event(will.topic, kind, will.payload, None, will.qos, will.retain, None, client_id)
    if will.properties:
        describe(event, will.properties)
    return event
