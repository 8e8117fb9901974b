"""Garbage collection in small steps: none looks at everything while clients wait.

A full collection looks at each container of the process, half a second for a million, and finds
little: nearly all objects end with their last reference. So what survives two collections is frozen
(``gc.freeze``, which costs nothing), and later ones leave it out. Garbage with cycles among the
frozen is found by a complete collection: in a quiet moment, when memory is short, or at the latest
when a bound is reached.
"""

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Final, Protocol

YOUNG_OBJECTS: Final = 2_000
"""New containers that are not freed, after which the young ones are collected: a millisecond."""
MIDDLE_ROUNDS: Final = 1
"""Collections of young ones, above which their survivors are collected with them, at most 6,000
objects, and then frozen."""
OLD_ROUNDS: Final = 10
"""Collections of survivors, above which the oldest generation is collected: it is empty."""
LOOK_SECONDS: Final = 1.0
"""Between two looks at whether a complete collection is due."""
QUIET_SHARE: Final = 0.02
"""Of a core in use between two looks, below which a stall is likely to be nobody's."""
QUIET_ROUNDS: Final = 100
"""Times that something was frozen, so some 600,000 objects, after which a quiet moment is used."""
SHORT_ROUNDS: Final = 10
"""The same while memory is short."""
ROUNDS_MAX: Final = 1_000
"""The same for any moment: some six million objects, most of which stay, such as filters."""
FORMER_MAX: Final = 20_000
"""Clients that have left, after which any moment is used: each leaves some 5 KB, in cycles."""


def set_thresholds() -> None:
    """Set how often the interpreter collects by itself."""
    gc.set_threshold(YOUNG_OBJECTS, MIDDLE_ROUNDS, OLD_ROUNDS)


class Watched(Protocol):
    """What runs in the process."""

    def short_of_memory(self) -> bool:
        """Whether requests are refused for want of memory."""

    def former_clients(self) -> int:
        """Return how many clients have left so far."""


class Collector:
    """The garbage collector of a process with an event loop, from ``start`` to the process's end.

    ``cpu`` is the CPU time of the process in seconds.
    """

    def __init__(
        self,
        watched: Watched,
        cpu: Callable[[], float] = time.process_time,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self.watched = watched
        """What runs in the process; a node has one after the other."""
        self._former = 0
        self._cpu = cpu
        self._look_seconds = look_seconds
        self._used = 0.0
        self.rounds = 0
        """How often survivors were frozen since the last complete collection."""
        self.completed = 0
        """Complete collections."""

    def start(self) -> None:
        """Freeze what there is, collect from here on, and look now and then in this loop."""
        gc.freeze()
        gc.enable()
        set_thresholds()
        gc.callbacks.append(self._collected)
        self._later()

    def stop(self) -> None:
        """Freeze nothing any more."""
        self._timer.cancel()
        gc.callbacks.remove(self._collected)

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"]:
            self.rounds += 1
            gc.freeze()

    def _later(self) -> None:
        self._used = self._cpu()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._look_seconds, self._look)

    def _look(self) -> None:
        quiet = self._cpu() - self._used < QUIET_SHARE * self._look_seconds
        crowd = self.watched.former_clients() - self._former >= FORMER_MAX
        if crowd or self.rounds >= self._rounds_max(quiet=quiet):
            self._complete()
        self._later()

    def _complete(self) -> None:
        gc.unfreeze()
        gc.collect()
        self.completed += 1
        self.rounds, self._former = 0, self.watched.former_clients()

    def _rounds_max(self, *, quiet: bool) -> int:
        if self.watched.short_of_memory():
            return SHORT_ROUNDS
        return QUIET_ROUNDS if quiet else ROUNDS_MAX
