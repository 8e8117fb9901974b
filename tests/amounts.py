"""How much of each repeated test is run: all with `scripts/test long`, else a part.

A seed is one random life of what is tested, a round one kill, a step one moment of it. Each more
finds less, and they took half of the time of all tests.
"""

import os
from collections.abc import Hashable, Sequence
from typing import TypeVar

T = TypeVar("T")

LONG = os.environ.get("ROWCAST_TESTS") == "long"
"""Whether all of it is run: a variable, for modules are imported before pytest reads options."""

SEEDS = 4
"""Of a test that is given a seed, for each value of its other parameters together."""


def amount(*, long: int, short: int) -> int:
    """Return how often to repeat: examples of hypothesis, rounds, writes."""
    return long if LONG else short


def spread(cases: Sequence[T], most: int) -> list[T]:
    """Return at most so many of the cases, evenly spread: the same ones each time."""
    if len(cases) <= most:
        return list(cases)
    return [cases[index * len(cases) // most] for index in range(most)]


def few_seeds(cases: Sequence[T], others: Sequence[Hashable]) -> list[T]:
    """Return the cases that a short run takes of a test with a seed.

    :param others: for each case, the values of its other parameters. Cases that are equal in these
        differ by their seed: at most `SEEDS` of them are taken, fewer where there are many groups,
        yet one of each, the first of one group, the second of the next and so on.
    """
    groups: dict[Hashable, list[T]] = {}
    for case, other in zip(cases, others, strict=True):
        groups.setdefault(other, []).append(case)
    if len(groups) <= 1:
        return spread(cases, SEEDS)
    most = max(1, SEEDS // len(groups))
    taken = []
    for number, group in enumerate(groups.values()):
        turn = number % len(group)
        taken += spread([*group[turn:], *group[:turn]], most)
    return taken
