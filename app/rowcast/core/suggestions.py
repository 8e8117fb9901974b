"""The nearest known word to a mistaken one, so that a refusal can say how to mend it.

One place, because a schema, a record, a query and a configuration all misspell alike. It knows
words only.
"""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word that was probably meant; empty when none is near.

    Another case of the same letters is nearest of all.
    """
    candidates = list(known)
    for candidate in candidates:
        if candidate.lower() == word.lower():
            return candidate
    return next(iter(get_close_matches(word, candidates, n=1, cutoff=0.6)), "")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that names the nearest word; empty when none is near."""
    found = nearest(word, known)
    return f'; did you mean "{found}"?' if found else ""
