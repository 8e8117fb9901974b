"""Masks: what is shown in the place of a value that a reader may not see whole.

A mask tells nothing but what it says: not even how long the value is.
"""

import re
from typing import Final

STARS: Final = "***"
_MASK: Final = re.compile(r"(first|last)([1-9][0-9]?)")


def is_mask(text: str) -> bool:
    """Tell whether a text names a mask: ``last4``, ``first2``, ``stars`` or ``null``."""
    return text in {"stars", "null"} or _MASK.fullmatch(text) is not None


def masked(value: object, mask: str) -> object:
    """Return what is shown of a value; of what is no text, nothing."""
    if not isinstance(value, str) or mask == "null":
        return None
    match = _MASK.fullmatch(mask)
    if match is None or len(value) <= int(match[2]):
        return STARS
    count = int(match[2])
    return STARS + value[-count:] if match[1] == "last" else value[:count] + STARS
