"""Partitions of a table's snapshots, declared by ``@table(partition:)``.

@table(partition: "day")       by the day of the last write (UTC)
@table(partition: "day(at)")   by the day of the attribute ``at``, a Date
"""

import re
from collections.abc import Sequence
from typing import Final

from rowcast.core.suggestions import nearest
from rowcast.core.tables import Attribute, Type
from rowcast.schema.arguments import Arguments

WRITTEN: Final = "_ts"
"""The column of a snapshot that has the time of the write."""
DAY: Final = "day"
_WORD: Final = re.compile(r"day(?:\(\s*(\w+)\s*\))?")


def partition_of(settings: Arguments, attributes: Sequence[Attribute]) -> str:
    """Return the column whose day a table's snapshots are partitioned by; empty for none."""
    text = settings.text("partition")
    if text is None:
        return ""
    blamed = settings.value_node("partition")
    word = _WORD.fullmatch(text.strip())
    if word is None:
        settings.problems.at(blamed, 'partition must be "day", or "day(name)" of a Date')
        return ""
    if any(item.name.lower() == DAY for item in attributes):
        settings.problems.at(blamed, 'a partition is a column "day"; rename the attribute "day"')
    if word[1] is None:
        return WRITTEN
    dates = [
        item.name
        for item in attributes
        if item.type is Type.DATE and item.stored and not item.hidden
    ]
    if word[1] not in dates:
        hint = nearest(word[1], dates)
        settings.problems.at(blamed, f'"{word[1]}" is no Date that is stored and shown', hint)
    return word[1]
