"""Masks: replacements for values that a reader may only see in part.

A mask does not reveal the length of the value.
"""

import re
from typing import Final

STARS: Final = "***"
MASKS: Final = "last4 (any number), first2, stars or null"
_LEAST: Final = ("", "null", "stars")
"""Masks that show no character; all others show one at least."""
_MASK: Final = re.compile(r"(first|last)([1-9][0-9]?)")


def is_mask(text: str) -> bool:
    """Whether a text names a mask: ``last4``, ``first2``, ``stars`` or ``null``."""
    return text in {"stars", "null"} or _MASK.fullmatch(text) is not None


def stricter(mask: str, other: str) -> str:
    """Return the mask that shows less; an empty one leaves the attribute out."""
    return min(mask, other, key=_shows)


def _shows(mask: str) -> int:
    """Return how much a mask shows: characters, or less than a text does."""
    match = _MASK.fullmatch(mask)
    return len(_LEAST) + int(match[2]) if match else _LEAST.index(mask)


def masked(value: object, mask: str) -> object:
    """Return the masked value; None for a value that is no text."""
    if not isinstance(value, str) or mask == "null":
        return None
    match = _MASK.fullmatch(mask)
    if match is None or len(value) <= int(match[2]):
        return STARS
    count = int(match[2])
    return STARS + value[-count:] if match[1] == "last" else value[:count] + STARS
