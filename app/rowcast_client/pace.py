"""The delays between connections: they double up to a bound, and have a random part.

The random part keeps the clients of a server that restarts from coming back at the same time.
"""

from collections.abc import Callable

from rowcast.core.limits import RECONNECT_SECONDS_MAX, RECONNECT_SECONDS_MIN
from rowcast_client.problem import Problem


class Pace:
    """When to connect again, and whether at all."""

    def __init__(self, *, patient: bool, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._met = patient
        self._pause: float = RECONNECT_SECONDS_MIN

    def met(self) -> None:
        """Note that a server answered: from now on only a final problem ends the attempts."""
        self._met, self._pause = True, RECONNECT_SECONDS_MIN

    def ended(self, problem: Problem | None, asked: float = 0) -> float:
        """Return the seconds to wait before the next connection; raises a final problem.

        ``asked`` are the seconds that the server asked for, which have a random part already.
        """
        if problem is not None and (problem.is_final or not self._met):
            raise problem
        pause = min(asked, RECONNECT_SECONDS_MAX) or self._pause * (1 + self._chance())
        self._pause = min(self._pause * 2, RECONNECT_SECONDS_MAX)
        return max(pause, problem.retry_after if problem else 0)
