"""The rate limit of one caller per second, on every door (G20).

Requests over the rate are refused with BUSY, 429 over HTTP and 0x97 over MQTT, without waiting. A
caller is identified by user, client id and address.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from time import monotonic

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.limits import HOOK_CALLERS_MAX
from rowcast.core.rate_limit import KeyedRateLimit
from rowcast.features.hooks.hook import Hook
from rowcast.subscriptions.subscribed_filters import SubscribedFilter


@dataclass(frozen=True, slots=True)
class HookRateLimit:
    """Limits of one caller per second; 0: none."""

    publishes: float = 0
    bytes: float = 0
    """Payload bytes of its writes."""
    subscribes: float = 0


class RateLimit(Hook):
    """Applies the limits to each caller."""

    id = "rate-limit"

    def __init__(
        self,
        allowance: HookRateLimit,
        clock: Callable[[], float] = monotonic,
        callers_max: int = HOOK_CALLERS_MAX,
    ) -> None:
        self._clock = clock
        self._publishes = _limit(allowance.publishes, callers_max)
        self._bytes = _limit(allowance.bytes, callers_max)
        self._subscribes = _limit(allowance.subscribes, callers_max)

    def on_publish(self, caller: Caller, event: Event) -> None:
        """Refuse a write over the rate."""
        if self._publishes is not None:
            self._take(self._publishes, caller, "publishes", 1)
        if self._bytes is not None:
            self._take(self._bytes, caller, "bytes", len(event.payload))

    def on_subscribe(self, caller: Caller, interest: SubscribedFilter) -> None:  # noqa: ARG002
        """Refuse a filter over the rate."""
        if self._subscribes is not None:
            self._take(self._subscribes, caller, "subscribes", 1)

    def _take(self, limit: "_Limit", caller: Caller, what: str, amount: float) -> None:
        key = caller.user, caller.client_id, caller.peer
        if not limit.allows(key, amount, self._clock()):
            raise Error(
                Code.BUSY,
                f"you may have {limit.rate:g} {what} in a second; slow down",
                rate=True,
                retry_after_seconds=ceil(amount / limit.rate),
            )


_Limit = KeyedRateLimit[tuple[str, str, str]]


def _limit(rate: float, callers_max: int) -> _Limit | None:
    return _Limit(rate, callers_max) if rate else None
