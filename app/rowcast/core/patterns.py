"""Patterns: topic filters of rules, with places in them for a caller's own names.

A place stands for a name within one level of a topic. A name that is empty, or holds a sign that
means something in filters, selects nothing there, so that no name widens a rule.
"""

from collections.abc import Mapping, Sequence
from typing import Final

Levels = tuple[str | None, ...]
"""A pattern; None is a level that nothing fits."""

_SIGNS: Final = frozenset("+#/")


def filled(pattern: str, names: Mapping[str, str]) -> Levels:
    """Return a pattern as levels, with names in the places that stand for them."""
    levels: list[str | None] = []
    for level in pattern.split("/"):
        used = [name for place, name in names.items() if place in level]
        if any(not name or not _SIGNS.isdisjoint(name) for name in used):
            levels.append(None)
            continue
        full = level
        for place, name in names.items():
            full = full.replace(place, name)
        levels.append(full)
    return tuple(levels)


def covers(pattern: Levels, wanted: Sequence[str]) -> bool:
    """Tell whether a pattern selects all that a topic or filter does (MQTT 5, 4.7)."""
    if wanted[0].startswith("$") and pattern[0] in {"+", "#"}:  # MQTT-4.7.2-1
        return False
    for position, level in enumerate(pattern):
        if level == "#":
            return True
        if position == len(wanted) or level is None or wanted[position] == "#":
            return False
        if level != "+" and level != wanted[position]:
            return False
    return len(pattern) == len(wanted)


def overlaps(pattern: Levels, wanted: Sequence[str]) -> bool:
    """Tell whether a pattern selects anything that a topic or filter does."""
    first, other = pattern[0], wanted[0]
    if {str(first)[:1], other[:1]} & {"$"} and {first, other} & {"+", "#"}:
        return False
    for position, level in enumerate(pattern):
        if level == "#":
            return True
        if position == len(wanted):
            return False
        if wanted[position] == "#":
            return None not in pattern[position:]
        if level is None or (level != wanted[position] and not {level, wanted[position]} & {"+"}):
            return False
    return len(pattern) == len(wanted) or wanted[len(pattern) :] == ["#"]
