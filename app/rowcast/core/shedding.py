"""Load shedding while the server is short of memory, in levels (K9).

First, unlogged messages to slow readers: their queues are shortened, and overflow becomes a gap.
Then new connections, and large partial bodies and packets. Then new subscriptions. Logged events
are never shed: a reader with a shortened queue reads them from the log. The overload feature sets
the level; doors check it. The module knows neither memory nor protocols.
"""

from enum import IntEnum

from rowcast.core.errors import Code, Error
from rowcast.core.overload_limits import OVERLOAD_RETRY_SECONDS, OVERLOAD_UNFINISHED_BYTES


class Shed(IntEnum):
    """The level of shedding; each includes the ones below."""

    NOTHING = 0
    MESSAGES = 1
    CONNECTS = 2
    SUBSCRIBES = 3


class Shedding:
    """The current level of a server, and counters of refusals."""

    def __init__(self) -> None:
        self.level = Shed.NOTHING
        self.never: frozenset[Shed] = frozenset()
        """Levels that the operator has disabled."""
        self.refused_connects = self.refused_subscribes = self.refused_unfinished = 0

    def sheds(self, what: Shed) -> bool:
        """Whether a level is active."""
        return self.level >= what and what not in self.never

    def check_connect(self) -> None:
        """Raise BUSY if new connections are refused."""
        if self.sheds(Shed.CONNECTS):
            self.refused_connects += 1
            raise _short("takes no new connections")

    def check_unfinished(self, held_bytes: int) -> None:
        """Raise BUSY if a partial body or packet is too large to buffer."""
        if held_bytes > OVERLOAD_UNFINISHED_BYTES and self.sheds(Shed.CONNECTS):
            self.refused_unfinished += 1
            raise _short("takes nothing as large as that", close=True)

    def check_subscribe(self) -> None:
        """Raise BUSY if new subscriptions are refused."""
        if self.sheds(Shed.SUBSCRIBES):
            self.refused_subscribes += 1
            raise _short("takes no new subscriptions")


def _short(does: str, *, close: bool = False) -> Error:
    return Error(
        Code.BUSY,
        f"the server is short of memory and {does}; try again later",
        retry_after_seconds=OVERLOAD_RETRY_SECONDS,
        close=close,
    )
