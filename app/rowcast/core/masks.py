"""Masks: replacements for values that a reader may only see in part.

A mask does not reveal the length of the value.
"""

import re
from typing import Final

STARS: Final = "***"
_MASK: Final = re.compile(r"(first|last)([1-9][0-9]?)")


def is_mask(text: str) -> bool:
    """Whether a text names a mask: ``last4``, ``first2``, ``stars`` or ``null``."""
    return text in {"stars", "null"} or _MASK.fullmatch(text) is not None


def masked(value: object, mask: str) -> object:
    """Return the masked value; None for a value that is no text."""
    if not isinstance(value, str) or mask == "null":
        return None
    match = _MASK.fullmatch(mask)
    if match is None or len(value) <= int(match[2]):
        return STARS
    count = int(match[2])
    return STARS + value[-count:] if match[1] == "last" else value[:count] + STARS
