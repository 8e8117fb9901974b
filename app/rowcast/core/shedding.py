"""Shedding: what is refused while the server is short of memory, in the order in which it is (K9).

First, messages that are not logged, to readers that are behind: their queues get short, and what
does not fit is a gap. Then new connections, and what is large and not all there of bodies and
packets. Then new subscriptions. What is logged is never shed: a reader whose queue is short reads
it from the log. Whoever measures the memory sets the level; the doors ask. It knows neither memory
nor protocols.
"""

from enum import IntEnum

from rowcast.core.errors import Code, Error
from rowcast.core.overload_limits import OVERLOAD_RETRY_SECONDS, OVERLOAD_UNFINISHED_BYTES


class Shed(IntEnum):
    """How much is shed; each level with all below it."""

    NOTHING = 0
    MESSAGES = 1
    CONNECTS = 2
    SUBSCRIBES = 3


class Shedding:
    """The level of one server, and how often it was felt."""

    def __init__(self) -> None:
        self.level = Shed.NOTHING
        self.never: frozenset[Shed] = frozenset()
        """What the operator never wants to be shed."""
        self.refused_connects = self.refused_subscribes = self.refused_unfinished = 0

    def sheds(self, what: Shed) -> bool:
        """Tell whether something is shed now."""
        return self.level >= what and what not in self.never

    def check_connect(self) -> None:
        """Raise BUSY if no new connections are taken."""
        if self.sheds(Shed.CONNECTS):
            self.refused_connects += 1
            raise _short("takes no new connections")

    def check_unfinished(self, held_bytes: int) -> None:
        """Raise BUSY if what has come of a body or a packet is too much to hold any longer."""
        if held_bytes > OVERLOAD_UNFINISHED_BYTES and self.sheds(Shed.CONNECTS):
            self.refused_unfinished += 1
            raise _short("takes nothing as large as that", close=True)

    def check_subscribe(self) -> None:
        """Raise BUSY if no new subscriptions are taken."""
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
