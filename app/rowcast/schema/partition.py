"""Partitions of a table's snapshots, declared by ``@table(partition:)``.

@table(partition: "day")       by the day of the last write (UTC); also "hour", "month"
@table(partition: "day(at)")   by the day of the attribute ``at``, a Date
@table(partition: "breed")     by the value of the attribute ``breed``

They are checked here, with the schema, because an export is too late to learn of a wrong word.
"""

from collections.abc import Sequence
from typing import Final

from rowcast.core.partitions import TIMES, WRITTEN, Partition, parsed_partition
from rowcast.core.suggestions import nearest
from rowcast.core.tables import Attribute, Type
from rowcast.schema.arguments import Arguments

_VALUES: Final = frozenset({Type.ID, Type.STRING, Type.INT, Type.LONG, Type.BOOLEAN})
"""Types whose values are names of directories."""


def partition_of(settings: Arguments, attributes: Sequence[Attribute]) -> Partition | None:
    """Return by what a table's snapshots are partitioned; None for nothing."""
    text = settings.text("partition")
    if text is None:
        return None
    blamed = settings.value_node("partition")
    found = parsed_partition(text.strip())
    if found is None:
        settings.problems.at(
            blamed,
            'partition must be "hour", "day" or "month", one of these with a Date, such as '
            '"day(name)", or the name of an attribute',
        )
        return None
    names = {item.name.lower(): item.name for item in attributes}
    for name in found.columns:
        taken = names.get(name.lower())
        if taken is not None:
            settings.problems.at(
                blamed, f'a partition is a column "{name}"; rename the attribute "{taken}"'
            )
    _check_column(found, settings, attributes)
    return found


def _check_column(found: Partition, settings: Arguments, attributes: Sequence[Attribute]) -> None:
    """Note a problem if there is no such attribute, or its values are no partitions."""
    by_time = found.unit in TIMES
    if by_time and found.column == WRITTEN:
        return
    shown = [item for item in attributes if item.stored and not item.hidden]
    if by_time:
        fit = [item.name for item in shown if item.type is Type.DATE]
        said = "is no Date that is stored and shown"
    else:
        fit = [item.name for item in shown if item.type in _VALUES and not item.primary_key]
        said = (
            "is no ID, String, Int, Long or Boolean that is stored and shown and no key, nor "
            '"hour", "day" or "month"'
        )
    if found.column not in fit:
        hint = nearest(found.column, fit if by_time else [*fit, *sorted(TIMES)])
        settings.problems.at(settings.value_node("partition"), f'"{found.column}" {said}', hint)
