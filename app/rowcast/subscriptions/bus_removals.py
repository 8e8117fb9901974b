"""Removal of ended subscriptions from the bus; many filters are removed in slices.

Ten thousand filters take a tenth of a second. The subscription is closed before, so it ignores
events that the bus still offers it. The filters of readers that are away are entered and removed
in slices, too.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from rowcast.bus.bus import Bus
from rowcast.bus.subscriber import Subscriber
from rowcast.core.fairness_limits import SUBSCRIPTION_LEAVE_TURN_FILTERS
from rowcast.core.topics import TopicFilter
from rowcast.reads.loop_turns import LoopTurns
from rowcast.subscriptions.subscribed_filters import SubscribedFilter


class BusRemovals:
    """Removes ended subscriptions, those with at most ``at_once`` filters in one turn."""

    def __init__(
        self, bus: Bus, turns: LoopTurns, at_once: int = SUBSCRIPTION_LEAVE_TURN_FILTERS
    ) -> None:
        self._bus = bus
        self._turns = turns
        self._at_once = at_once
        self._tasks: set[asyncio.Task[None]] = set()
        bus.absences.walk = self.walk

    def add(
        self, subscription: Subscriber, filters: Iterable[SubscribedFilter]
    ) -> Sequence[SubscribedFilter]:
        """Remove a subscription, which its owner closes in the same turn of the loop.

        Returns its filters that had not left before.
        """
        remove, interests = self._bus.remove, list(filters)
        if len(interests) <= self._at_once:
            return [item for item in interests if remove(item.topics, subscription)]
        left = [interest.topics for interest in interests]
        if not remove(left.pop(), subscription):
            return ()
        self._run(left, lambda topics: remove(topics, subscription))
        return interests

    def walk(self, filters: Sequence[TopicFilter], call: Callable[[TopicFilter], object]) -> None:
        """Call a function with each filter: now if they are few, else in slices."""
        if len(filters) > self._at_once:
            self._run(filters, call)
            return
        for topics in filters:
            call(topics)

    def _run(self, filters: Sequence[TopicFilter], call: Callable[[TopicFilter], object]) -> None:
        task = asyncio.get_running_loop().create_task(self._walk(filters, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _walk(
        self, filters: Sequence[TopicFilter], call: Callable[[TopicFilter], object]
    ) -> None:
        async for topics in self._turns.each(filters):
            call(topics)

    def stop(self) -> None:
        """Stop removing: the bus is discarded, too."""
        for task in self._tasks:
            task.cancel()
