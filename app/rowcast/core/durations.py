"""Durations as people write them in a schema: ``7d``, ``1h30m``, ``45s`` or a number of seconds."""

import re
from typing import Final

_PART: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|[smhdw])")
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+")
_NUMBER: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?")


def parse_duration(text: str) -> float | None:
    """Return the seconds that a duration stands for; None when it is not one."""
    if _NUMBER.fullmatch(text):
        return float(text)
    if _WHOLE.fullmatch(text) is None:
        return None
    return sum(float(count) * _seconds(unit) for count, unit in _PART.findall(text))


def _seconds(unit: str) -> float:
    return {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}[unit]
