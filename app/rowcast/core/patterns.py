"""Patterns: topic filters of rules, with placeholders for the caller's names.

A placeholder is replaced by a name within one level of a topic. A name that is empty, or contains a
wildcard or separator, matches nothing, so that no name widens a rule.
"""

from collections.abc import Mapping

from rowcast.core.topics import Levels, fits_level


def filled(pattern: str, names: Mapping[str, str]) -> Levels:
    """Return a pattern as levels, with placeholders replaced by names."""
    levels: list[str | None] = []
    for level in pattern.split("/"):
        if not all(fits_level(name) for place, name in names.items() if place in level):
            levels.append(None)
            continue
        full = level
        for place, name in names.items():
            full = full.replace(place, name)
        levels.append(full)
    return tuple(levels)
