"""Compaction, declared by ``@table(compact:)``.

@table(history: "7d", compact: ["id"])                      the last event of each record stays
@table(history: "7d", compact: ["id"], tombstones: "30d")   deletions of records: a month longer
@table(history: "7d", compact: ["site", "clientId"])        and the last of each client at each site
"""

from collections.abc import Sequence
from typing import Final, TypedDict

from graphql import EnumValueNode, ListValueNode, Node, StringValueNode

from rowcast.core.compaction_limits import (
    KEPT_KEY_PARTS_MAX,
    TOMBSTONE_SECONDS,
    TOMBSTONE_SECONDS_MAX,
    TOMBSTONE_SECONDS_MIN,
)
from rowcast.core.suggestions import nearest
from rowcast.core.tables import Attribute, Type
from rowcast.schema.arguments import Arguments
from rowcast.schema.problems import Problems

_ID: Final = "id"
"""The key of a table that declares none."""
_WORDS: Final = ("topic", "clientId")
"""What a key may have besides attributes."""
_TYPES: Final = {Type.ID, Type.STRING, Type.INT, Type.LONG, Type.BOOLEAN, Type.DATE}
"""Types of which equal values are equal in every format."""


class Compaction(TypedDict):
    """What ``@table`` says of compaction, as arguments of a table."""

    compacts: bool
    kept_by: tuple[str, ...]
    tombstone_seconds: float


def compaction_of(settings: Arguments, attributes: Sequence[Attribute]) -> Compaction:
    """Return by what key a table compacts its history, and how long it keeps deletions."""
    node, problems = settings.value_node("compact"), settings.problems
    seconds = settings.seconds("tombstones")
    if node is settings.node:
        if seconds is not None:
            problems.at(settings.value_node("tombstones"), 'tombstones needs compact: ["id"]')
        return {"compacts": False, "kept_by": (), "tombstone_seconds": 0}
    if seconds is not None and not TOMBSTONE_SECONDS_MIN <= seconds <= TOMBSTONE_SECONDS_MAX:
        least, most = f"{TOMBSTONE_SECONDS_MIN:g} s", f"{TOMBSTONE_SECONDS_MAX / 86_400:g} days"
        problems.at(settings.value_node("tombstones"), f"tombstones is from {least} to {most}")
    key = next((item.name for item in attributes if item.primary_key), _ID)
    parts = _parts(node, key, attributes, problems)
    kept_by = () if parts == (key,) else parts
    return {
        "compacts": True,
        "kept_by": kept_by,
        "tombstone_seconds": seconds or TOMBSTONE_SECONDS,
    }


def _parts(
    node: Node, key: str, attributes: Sequence[Attribute], problems: Problems
) -> tuple[str, ...]:
    """Return the parts of the key that is declared, and note what is wrong with them."""
    items = node.values if isinstance(node, ListValueNode) else ()
    if not 1 <= len(items) <= KEPT_KEY_PARTS_MAX:
        problems.at(
            node,
            f'compact is a list of 1 to {KEPT_KEY_PARTS_MAX} words: ["{key}"] for each record, or '
            'attributes, "topic" and "clientId", for each combination of their values',
        )
    parts: list[str] = []
    for item in items:
        if not isinstance(item, StringValueNode | EnumValueNode):
            problems.at(item, f'a word of compact is text in quotes, such as "{key}"')
            continue
        _check(item, item.value, key, attributes, problems)
        if item.value in parts:
            problems.at(item, f'compact has "{item.value}" twice')
        parts.append(item.value)
    if {key, "topic"} <= set(parts) and all(one.name != "topic" for one in attributes):
        problems.at(node, f'a topic names one record, so "topic" and "{key}" are the same')
    return tuple(parts)


def _check(
    node: Node, word: str, key: str, attributes: Sequence[Attribute], problems: Problems
) -> None:
    """Note a problem if a word is neither the key, nor an attribute that can be one."""
    found = next((item for item in attributes if item.name == word), None)
    if word == key or (found is None and word in _WORDS):
        return
    if found is None:
        fit = [item.name for item in attributes if item.stored and item.type in _TYPES]
        hint = nearest(word, [*fit, key, *_WORDS])
        said = f'compact names attributes, "topic" or "clientId", and "{word}" is none of them'
        problems.at(node, said, hint)
    elif not found.stored or found.type not in _TYPES:
        what = found.type.value if found.stored else "not stored"
        problems.at(
            node,
            f'events cannot be kept by "{word}", which is {what}: name an ID, String, Int, Long, '
            "Boolean or Date that is stored",
        )
