"""The rate limit: how much one caller may do in a second, on every door (G20).

What is over the rate is refused with BUSY, which is 429 over HTTP and 0x97 over MQTT; nothing waits
for it. A caller is a user with its client id at its address.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from time import monotonic

from rowcast.core.bounded import BoundedCache
from rowcast.core.buckets import Bucket
from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.limits import HOOK_CALLERS_MAX
from rowcast.features.hooks.hook import Hook
from rowcast.subscriptions.subscribed_filters import SubscribedFilter


@dataclass(frozen=True, slots=True)
class HookRateLimit:
    """What one caller may do in a second; 0 is no limit."""

    publishes: float = 0
    bytes: float = 0
    """Payload bytes of its writes."""
    subscribes: float = 0


class RateLimit(Hook):
    """Counts what each caller does."""

    id = "rate-limit"

    def __init__(
        self,
        allowance: HookRateLimit,
        clock: Callable[[], float] = monotonic,
        callers_max: int = HOOK_CALLERS_MAX,
    ) -> None:
        self._allowance = allowance
        self._clock = clock
        self._buckets: BoundedCache[tuple[str, str, str, str], Bucket] = BoundedCache(callers_max)

    def on_publish(self, caller: Caller, event: Event) -> None:
        """Refuse a write over the rate."""
        allowed = self._allowance
        self._take(caller, "publishes", allowed.publishes, 1)
        self._take(caller, "bytes", allowed.bytes, len(event.payload))

    def on_subscribe(self, caller: Caller, interest: SubscribedFilter) -> None:  # noqa: ARG002
        """Refuse a filter over the rate."""
        self._take(caller, "subscribes", self._allowance.subscribes, 1)

    def _take(self, caller: Caller, what: str, rate: float, amount: float) -> None:
        if not rate:
            return
        now = self._clock()
        key = caller.user, caller.client_id, caller.peer, what
        bucket = self._buckets.use(key) or self._buckets.put(key, Bucket(rate, now))
        if not bucket.take_if_room(amount, now):
            raise Error(
                Code.BUSY,
                f"you may have {rate:g} {what} in a second; slow down",
                rate=True,
                retry_after_seconds=ceil(amount / rate),
            )
