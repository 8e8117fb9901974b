"""A roll-up, as data: which table it is of, by which attributes, how long, and what it has.

``schema`` reads it from ``@rollup``; ``features/rollups`` keeps its rows.
"""

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

FUNCTIONS: Final = ("avg", "min", "max", "sum", "count")
_PER_SECOND: Final = 1_000_000
_WEEK: Final = 7 * 86_400 * _PER_SECOND
_FIRST_MONDAY: Final = 4 * 86_400 * _PER_SECOND


@dataclass(frozen=True, slots=True)
class RollupRule:
    """One ``@rollup``; times in seconds."""

    of: str
    """The name of the table whose records it rolls up."""
    by: tuple[str, ...]
    time: str
    """The attribute with the time of a reading, a Date."""
    every_seconds: float
    values: tuple[tuple[str, tuple[str, ...]], ...]
    """Attributes, each with its functions."""
    late_seconds: float
    decimals: frozenset[str] = field(default=frozenset(), repr=False)
    """The attributes of ``values`` that are decimals."""

    @property
    def digest(self) -> str:
        """A text that differs for a rule with other rows."""
        text = repr(self) + (repr(sorted(self.decimals)) if self.decimals else "")
        return blake2b(text.encode(), digest_size=8).hexdigest()

    @property
    def every(self) -> int:
        """The period, in microseconds."""
        return round(self.every_seconds * _PER_SECOND)

    @property
    def late(self) -> int:
        """The time for corrections after a period, in microseconds."""
        return round(self.late_seconds * _PER_SECOND)

    def period(self, at: int) -> int:
        """Return the start of the period of a time; microseconds since 1970 (UTC).

        Periods of whole weeks begin on Mondays.
        """
        offset = 0 if self.every % _WEEK else _FIRST_MONDAY
        return (at - offset) // self.every * self.every + offset


def column(attribute: str, function: str) -> str:
    """Return the attribute of a roll-up that has a function of an attribute."""
    return f"{attribute}_{function}"
