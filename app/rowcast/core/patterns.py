"""Patterns: topic filters of rules, with placeholders for the caller's names.

A placeholder, such as ``${username}``, is replaced by a name within one level of a topic. A name
that is empty, or contains a wildcard or separator, matches nothing, so that no name widens a rule.
Names are not searched for placeholders: a client may choose ``${username}`` as its id.
"""

import re
from collections.abc import Mapping
from typing import Final

from rowcast.core.topics import Levels, fits_level

PLACEHOLDER: Final = re.compile(r"\$\{([^}]*)\}")


def filled(pattern: str, names: Mapping[str, str]) -> Levels:
    """Return a pattern as levels, with placeholders replaced by names."""
    levels: list[str | None] = []
    for level in pattern.split("/"):
        if all(fits_level(name) for place, name in names.items() if place in level):
            levels.append(PLACEHOLDER.sub(lambda found: names.get(found[0], found[0]), level))
        else:
            levels.append(None)
    return tuple(levels)
