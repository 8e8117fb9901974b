"""The clocks of the nodes, and the time by which the sequencer removes what is over.

What is removed by age is gone at all nodes, so no single clock may decide it. The sequencer asks
the others for their time. It removes by its own clock, but not by more than ``lead_seconds`` beyond
the agreed time: the middle one of the clocks that are known, of two the earlier. So one wrong clock
of three removes nothing too early, and a clock that is behind only removes late. Until a majority
is known nothing is over; a node that hears nobody for ``alone_seconds`` goes by its own clock.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Protocol

from rowcast.core.clock import WallClock
from rowcast.core.errors import Error
from rowcast.core.limits import CLOCK_LEAD_SECONDS_MAX

log = logging.getLogger("rowcast.cluster")

PATH: Final = "$SYS/cluster/clock"
"""Where a follower is asked, with the agreed time as id; earlier releases answer nothing."""
ASK_SECONDS: Final = 10.0
"""Between two questions: a wrong clock has done nothing within that, and a message is small."""
SOON_SECONDS: Final = 0.5
"""The same while a connected node has not answered yet."""
ALONE_SECONDS: Final = 600.0
"""Copies of large tables take minutes, during which a node that starts tells nothing."""
UNKNOWN: Final = "unknown"
"""Asked in place of the agreed time until a majority has told its own."""
NOTHING_OVER: Final = 0.0
"""A time at which nothing is over yet: 1970."""


class Elsewhere(Protocol):
    """The part of ``RemoteRows`` that is used here."""

    async def of(self, node: str, path: str, name: str) -> Mapping[str, dict[str, object]]:
        """Return a row of a node."""


class Clocks:
    """What the sequencer knows of the nodes' clocks; called, it returns the time of removals.

    ``now`` is its own clock; ``steady`` a monotonic one; ``listed`` returns the names of all nodes
    with this one; ``changed`` is called when the time of removals has come to run otherwise.
    """

    def __init__(
        self,
        now: WallClock,
        steady: Callable[[], float],
        listed: Callable[[], Collection[str]],
        changed: Callable[[], None],
        *,
        lead_seconds: float = CLOCK_LEAD_SECONDS_MAX,
        alone_seconds: float = ALONE_SECONDS,
    ) -> None:
        self._now, self._steady, self._changed = now, steady, changed
        self.listed = listed
        self._lead_seconds = lead_seconds
        self._alone_after = steady() + alone_seconds
        self._reported: dict[str, float] = {}
        """The time of each other node when ``steady`` was 0."""
        self._wrong: frozenset[str] = frozenset()
        self._state = self._is_known, self._excess

    def __call__(self) -> float:
        """Return the time by which what is over may be removed."""
        return self._now() - self._excess if self._is_known else NOTHING_OVER

    def _others(self) -> dict[str, float]:
        """Return by how many seconds the clock of each other node is ahead of this one's."""
        own, listed = self._now() - self._steady(), self.listed()
        return {node: reported - own for node, reported in self._reported.items() if node in listed}

    @property
    def _is_heard(self) -> bool:
        return 2 * (len(self._others()) + 1) > len(self.listed())

    @property
    def _is_known(self) -> bool:
        return self._is_heard or self._steady() >= self._alone_after

    @property
    def agreed(self) -> float:
        """By how many seconds the agreed time is ahead of this node's clock."""
        known = sorted((0.0, *self._others().values()))
        return known[(len(known) - 1) // 2]

    @property
    def _excess(self) -> float:
        return -self.agreed if -self.agreed > self._lead_seconds else 0.0

    def ahead(self) -> dict[str, float]:
        """Return by how many seconds the clock of each node is ahead of the agreed time.

        This node is the empty text; nodes that have not told their time are missing.
        """
        agreed = self.agreed
        return {node: ahead - agreed for node, ahead in ({"": 0.0} | self._others()).items()}

    @property
    def problem(self) -> str:
        """What is wrong with this node's clock; empty if nothing is."""
        ahead = -self.agreed
        return wrong(ahead) if abs(ahead) > self._lead_seconds else ""

    def heard(self, node: str, time: float, at: float) -> None:
        """Note the time of a node when the monotonic clock was ``at``."""
        self._reported[node] = time - at
        self.look()

    def look(self) -> None:
        """Tell of clocks that have become wrong or right, and of another time of removals."""
        if self._is_known:
            self._send()
        state = self._is_known, self._excess
        if state[0] != self._state[0] or abs(state[1] - self._state[1]) > self._lead_seconds:
            self._state = state
            self._changed()

    def _send(self) -> None:
        differing = self.ahead()
        now = frozenset(
            node for node, ahead in differing.items() if abs(ahead) > self._lead_seconds
        )
        for node in sorted(now - self._wrong):
            log.error("%s%s", f"node {node}: " if node else "", wrong(differing[node]))
        for node in sorted(self._wrong - now):
            log.warning("the clock of %s is right again", f"node {node}" if node else "this node")
        self._wrong = now

    async def ask(self, elsewhere: Elsewhere, nodes: Callable[[], Iterable[str]]) -> None:
        """Ask connected nodes again and again, until cancelled."""
        while True:
            connected = list(nodes())
            await asyncio.gather(*(self._ask(elsewhere, node) for node in connected))
            self.look()
            known = self._reported.keys() >= set(connected)
            await asyncio.sleep(ASK_SECONDS if known else SOON_SECONDS)

    async def _ask(self, elsewhere: Elsewhere, node: str) -> None:
        asked = self._steady()
        agreed = f"{self._now() + self.agreed:.3f}" if self._is_heard else UNKNOWN
        try:
            rows = await elsewhere.of(node, PATH, agreed)
        except Error:
            return  # it is asked again
        for row in rows.values():
            time = row.get("time")
            if isinstance(time, float):
                self.heard(node, time, (asked + self._steady()) / 2)


def wrong(ahead: float) -> str:
    """Return the sentence about a clock."""
    side = "ahead of" if ahead > 0 else "behind"
    return (
        f"its clock is {abs(ahead):.0f} seconds {side} that of the other nodes; set it "
        "right (NTP): what is over is removed by the time of the others, and the times of writes "
        "here are wrong"
    )


class ClockAnswer:
    """A follower's side: its time, for a question with the agreed time."""

    def __init__(self, now: WallClock, lead_seconds: float = CLOCK_LEAD_SECONDS_MAX) -> None:
        self._now, self._lead_seconds = now, lead_seconds
        self.problem = ""
        """What is wrong with this node's clock; empty if nothing is."""

    def answer(self, asked: str) -> dict[str, object]:
        """Return this node's time, and compare it."""
        now = self._now()
        if asked == UNKNOWN:
            return {"time": now}
        ahead = now - float(asked)
        problem = wrong(ahead) if abs(ahead) > self._lead_seconds else ""
        if problem and not self.problem:
            log.error("%s", problem)
        self.problem = problem
        return {"time": now}
