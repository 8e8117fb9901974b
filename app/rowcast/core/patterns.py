"""Patterns: topic filters of rules, with places in them for a caller's own names.

A place stands for a name within one level of a topic. A name that is empty, or holds a sign that
means something in filters, selects nothing there, so that no name widens a rule.
"""

from collections.abc import Mapping

from rowcast.core.topics import Levels, fits_level


def filled(pattern: str, names: Mapping[str, str]) -> Levels:
    """Return a pattern as levels, with names in the places that stand for them."""
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
