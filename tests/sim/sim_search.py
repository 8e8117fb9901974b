"""Seeds that notice a planted mistake: those that fail with it, and hold without."""

import sys
from functools import cache

import pytest
from _pytest.monkeypatch import MonkeyPatch
from sim_world import Failed, run

FEW = 10
"""Seeds that are tried without a word when none that is named notices a mistake any more."""
NAMED_FOR = 3, 11
"""The Python with which seeds are named: loops of others may take other turns."""


def expect_notice(named, seeds, noticed, where):
    """Fail unless a named seed notices a mistake, or another one of so many, soon found.

    A change of the server may change what happens with each seed. A search for another one that
    goes on for long is told as a failure, with what it found, for it would be made in each run.
    """
    if any(map(noticed, named)):
        return
    others = (seed for seed in range(seeds) if seed not in named)
    for tried, seed in enumerate(others, 1):
        if noticed(seed):
            if tried > FEW and sys.version_info[:2] == NAMED_FOR:
                pytest.fail(f"{seed} notices it, and none of {named} any more: name it {where}")
            return
    pytest.fail(
        f"no seed of {named}, nor of 0-{seeds - 1}, notices it any more: name another one {where}; "
        "if there is none, the simulation is blind to it"
    )


def notices(seed, plant, *, rough):
    """Tell whether a seed fails with a mistake and holds without it."""
    with MonkeyPatch.context() as patch:
        plant(patch)
        planted = _holds(seed, rough=rough)
    return not planted and _holds_without(seed, rough)


@cache
def _holds_without(seed, rough):
    return _holds(seed, rough=rough)


def _holds(seed, *, rough):
    try:
        run(seed, rough=rough)
    except Failed:
        return False
    return True
