"""Rates: the three token buckets of one client's packets (D57).

Packets that were read are counted in full and paid for by waiting, so nothing is lost. It knows
neither clocks nor sockets: each call passes the time, and the owner waits.
"""

from dataclasses import dataclass

from rowcast.core.rate_limit import TokenBucket


@dataclass(frozen=True, slots=True)
class RateSettings:
    """Limits of one client per second; 0: none."""

    messages: float = 0
    """PUBLISH packets."""
    bytes: float = 0
    """Bytes of all its packets."""
    subscribes: float = 0
    """Filters in SUBSCRIBE."""
    disconnects: bool = False
    """Whether it is disconnected above them; otherwise reading is slowed down."""

    def meter(self, now: float) -> "Meter | None":
        """Return the meter of one client; None without limits."""
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
        """Count packets read; return the seconds to pause reading."""
        wait = self._bytes.take(size_bytes, now) if self._bytes is not None else 0.0
        if self._messages is not None:
            wait = max(wait, self._messages.take(messages, now))
        return wait

    def may_subscribe(self, filters: int, now: float) -> bool:
        """Whether ``filters`` more are within the rate; counts them if so."""
        return self._subscribes is None or self._subscribes.take_if_room(filters, now)
