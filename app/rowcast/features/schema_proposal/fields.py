"""Inferred fields of observed values: names, types, counts and ranges.

``proposal.py`` builds a proposal of them; this module knows no schema.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from rowcast.core.scalars import Mismatch, to_date

_NAME: Final = re.compile("[A-Za-z][A-Za-z0-9_]*")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


@dataclass(slots=True)
class Field:
    """The observations of one field."""

    seen: int = 0
    """The number of non-null values."""
    types: set[str] = field(default_factory=set)
    least: float | None = None
    most: float | None = None

    def see(self, value: object) -> None:
        """Learn from a value."""
        if value is None:
            return
        self.seen += 1
        self.types.add(_type(value))
        if isinstance(value, int | float) and not isinstance(value, bool):
            self.least = value if self.least is None else min(self.least, value)
            self.most = value if self.most is None else max(self.most, value)

    @property
    def type(self) -> str:
        """The schema type that accepts all observed values."""
        types = self.types
        if len(types) == 1:
            return next(iter(types))
        if types == {"Int", "Long"}:
            return "Long"
        if types and types <= {"Int", "Long", "Float"}:
            return "Float"
        return "String" if types == {"String", "Date"} else "Any"


def _type(value: object) -> str:
    if isinstance(value, bool):
        return "Boolean"
    if isinstance(value, int):
        return "Int" if abs(value) <= INT_MAX else "Long" if abs(value) <= LONG_MAX else "Any"
    if isinstance(value, float):
        return "Float"
    if isinstance(value, str):
        return "Date" if _is_date(value) else "String"
    return "Any"


def _is_date(text: str) -> bool:
    if not _DATE.match(text):
        return False
    try:
        to_date(text)
    except Mismatch:
        return False
    return True


class Fields:
    """The fields of the values at some topics."""

    def __init__(self) -> None:
        self.values = self.others = 0
        """The numbers of values with fields, and of others."""
        self.by_name: dict[str, Field] = {}

    def see(self, value: object) -> None:
        """Learn from a value."""
        if not isinstance(value, dict):
            self.others += 1
            return
        self.values += 1
        for name, item in value.items():
            self.by_name.setdefault(name, Field()).see(item)

    @property
    def nameable(self) -> dict[str, Field]:
        """Fields with valid schema names; others are accepted undeclared.

        Of names that differ in capitals alone, which no table can have, the one seen most.
        """
        valid = {
            name: found
            for name, found in self.by_name.items()
            if _NAME.fullmatch(name) and not name.startswith("__") and found.types
        }
        most: dict[str, str] = {}
        for name in sorted(valid, key=lambda name: valid[name].seen):
            most[name.lower()] = name
        return {name: found for name, found in valid.items() if most[name.lower()] == name}
