"""Sizes as people write them in a schema: ``10MB``, ``512KiB`` or a number of bytes."""

import re
from typing import Final

_SIZE: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([kKMGT]i?)?B?")
_POWERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_size(text: str) -> int | None:
    """Return the bytes that a size stands for; None when it is not one."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    unit = (match[2] or "").upper()
    base = 1024 if unit.endswith("I") else 1000
    return int(float(match[1]) * base ** _POWERS[unit.removesuffix("I")])
