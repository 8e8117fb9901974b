"""Rates: the three buckets that one client's packets are counted in (D57).

What was read cannot be unread, so it is taken whole and then paid for by waiting: nothing is lost.
It must not know clocks or sockets: the time is given with each call, and what a wait means is the
owner's.
"""

from dataclasses import dataclass

from rowcast.core.rate_limit import TokenBucket


@dataclass(frozen=True, slots=True)
class RateSettings:
    """What one client may do in a second; 0 is no limit."""

    messages: float = 0
    """PUBLISH packets."""
    bytes: float = 0
    """Bytes of all its packets."""
    subscribes: float = 0
    """Filters in SUBSCRIBE."""
    disconnects: bool = False
    """Whether it is disconnected when it sends more; else it is read from more slowly."""

    def meter(self, now: float) -> "Meter | None":
        """Return what counts for one client; None when nothing is limited."""
        return Meter(self, now) if self.messages or self.bytes or self.subscribes else None


class Meter:
    """The buckets of one client."""

    __slots__ = ("_bytes", "_messages", "_subscribes", "disconnects")

    def __init__(self, settings: RateSettings, now: float) -> None:
        self.disconnects = settings.disconnects
        self._messages = TokenBucket(settings.messages, now) if settings.messages else None
        self._bytes = TokenBucket(settings.bytes, now) if settings.bytes else None
        self._subscribes = TokenBucket(settings.subscribes, now) if settings.subscribes else None

    def read(self, size_bytes: int, messages: int, now: float) -> float:
        """Count what was read; return the seconds to read nothing more for."""
        wait = self._bytes.take(size_bytes, now) if self._bytes is not None else 0.0
        if self._messages is not None:
            wait = max(wait, self._messages.take(messages, now))
        return wait

    def may_subscribe(self, filters: int, now: float) -> bool:
        """Tell whether so many filters more are within the rate; if so, they are counted."""
        return self._subscribes is None or self._subscribes.take_if_room(filters, now)
