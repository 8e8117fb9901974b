"""Seeds that notice a planted mistake: those that fail with it, and hold without."""

from functools import cache

from _pytest.monkeypatch import MonkeyPatch
from sim_world import Failed, run


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
