"""Partitions: by what the rows of a table are divided into directories in its snapshots.

The schema declares it, and whoever writes or reads the files follows; so its words and the names of
its columns are here, where both find them. A partition's column is beside the table's columns and
never one of them: a reader guesses its type from text, and the file has the value as declared.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Unit(StrEnum):
    """The part of a time, or the whole of a value; the value is the word of the schema."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"
    VALUE = "by"


@dataclass(frozen=True, slots=True)
class Partition:
    """The partition of one table."""

    unit: Unit
    column: str
    """A Date, or ``_ts``; of ``VALUE`` any attribute with few values."""

    @property
    def text(self) -> str:
        """Itself as in the schema: ``day(at)``, ``day(_ts)``, ``breed``."""
        return self.column if self.unit is Unit.VALUE else f"{self.unit}({self.column})"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the directories' names add: ``day=2026-11-21/hour=7``."""
        match self.unit:
            case Unit.HOUR:
                return (Unit.DAY, Unit.HOUR)
            case Unit.VALUE:
                return (f"{PREFIX}{self.column}",)
            case _:
                return (self.unit,)


PREFIX: Final = f"{Unit.VALUE}_"
"""``by_breed`` is the column of a partition by ``breed``."""
NONE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The value in the name of a directory whose rows have none."""
WRITTEN: Final = "_ts"
"""The column of a snapshot that has the time of the write."""
_WORD: Final = re.compile(r"(\w+)(\(\s*(\w+)\s*\))?")
TIMES: Final = frozenset({Unit.HOUR, Unit.DAY, Unit.MONTH})
"""Units of a time, and not of a value."""


def parsed_partition(text: str) -> Partition | None:
    """Read a partition as the schema has it; None for what is none."""
    word = _WORD.fullmatch(text)
    if word is None:
        return None
    if word[1] in TIMES:
        return Partition(Unit(word[1]), word[3] or WRITTEN)
    return None if word[2] else Partition(Unit.VALUE, word[1])
