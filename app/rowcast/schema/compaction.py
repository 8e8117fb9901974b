"""Compaction, declared by ``@table(compact:)``.

@table(history: "7d", compact: ["id"])                      the last event of each record stays
@table(history: "7d", compact: ["id"], tombstones: "30d")   deletions of records: a month longer
"""

from collections.abc import Sequence
from typing import Final, TypedDict

from graphql import EnumValueNode, ListValueNode, StringValueNode

from rowcast.core.compaction_limits import (
    TOMBSTONE_SECONDS,
    TOMBSTONE_SECONDS_MAX,
    TOMBSTONE_SECONDS_MIN,
)
from rowcast.core.tables import Attribute
from rowcast.schema.arguments import Arguments

_ID: Final = "id"
"""The key of a table that declares none."""


class Compaction(TypedDict):
    """What ``@table`` says of compaction, as arguments of a table."""

    compacts: bool
    tombstone_seconds: float


def compaction_of(settings: Arguments, attributes: Sequence[Attribute]) -> Compaction:
    """Return whether a table compacts its history, and how long it keeps deletions."""
    node, problems = settings.value_node("compact"), settings.problems
    seconds = settings.seconds("tombstones")
    if node is settings.node:
        if seconds is not None:
            problems.at(settings.value_node("tombstones"), 'tombstones needs compact: ["id"]')
        return {"compacts": False, "tombstone_seconds": 0}
    key = next((item.name for item in attributes if item.primary_key), _ID)
    items = node.values if isinstance(node, ListValueNode) else ()
    words = [item.value for item in items if isinstance(item, StringValueNode | EnumValueNode)]
    if words != [key]:
        problems.at(node, f'compact is the key of the records, ["{key}"]: one event of each stays')
    if seconds is not None and not TOMBSTONE_SECONDS_MIN <= seconds <= TOMBSTONE_SECONDS_MAX:
        least, most = f"{TOMBSTONE_SECONDS_MIN:g} s", f"{TOMBSTONE_SECONDS_MAX / 86_400:g} days"
        problems.at(settings.value_node("tombstones"), f"tombstones is from {least} to {most}")
    return {"compacts": True, "tombstone_seconds": seconds or TOMBSTONE_SECONDS}
