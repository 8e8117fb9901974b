"""Spelling suggestions: the known word nearest to a mistaken one, for error messages.

Used for schemas, records, queries and configuration.
"""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word that was probably meant; empty when none is near.

    A word that differs only in case wins.
    """
    candidates = list(known)
    for candidate in candidates:
        if candidate.lower() == word.lower():
            return candidate
    return next(iter(get_close_matches(word, candidates, n=1, cutoff=0.6)), "")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "did you mean" with the nearest word; empty when none is near."""
    found = nearest(word, known)
    return f'; did you mean "{found}"?' if found else ""
