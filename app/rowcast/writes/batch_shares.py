"""Limits of a batch while several callers write, and which callers are deferred when tables lag.

A write waits for the batch in progress and for its own. So batches are small while several callers
write, or did some seconds ago; a single caller gets large ones, with fewer syncs.
"""

from collections.abc import Callable

from rowcast.store.store import Appends
from rowcast.writes.batch import Batch
from rowcast.writes.pending_bytes import PendingBytes, WriteBounds


class BatchShares:
    """Limits of the next batch of one committer.

    ``pending`` are the callers with unanswered writes, ``now`` is the loop's clock in seconds.
    """

    def __init__(
        self, bounds: WriteBounds, pending: PendingBytes, store: Appends, now: Callable[[], float]
    ) -> None:
        self._bounds = bounds
        self._pending = pending
        self._store = store
        self._now = now
        self.until = 0.0
        """Until when several callers count as writing; 0 while one writes alone."""
        self.awaited = 0
        """How many writes of the queue somebody waits for, without those in lanes."""
        self.awaited_until = 0.0
        """Until when somebody counts as waiting for the disk."""
        self.behind_since = 0.0
        """Since when writers are passed over because the tables are behind; 0 while none is."""
        self._events = bounds.shared_events
        """Writes of one batch until then: fewer where answering them takes long."""

    def are_needed(self) -> bool:
        """Return whether several callers write, now or some seconds ago."""
        if self._pending.rivals > 1:
            if not self.until:
                self._pending.share(shared=True)
            self.until = self._now() + self._bounds.shared_seconds
        elif self.until and self._now() >= self.until:
            self.until = self.behind_since = 0.0
            self._pending.share(shared=False)
        return self.until > 0

    def limits(self, *, many_awaited: bool) -> tuple[int, int]:
        """Return the bytes and the writes of a shared batch.

        ``many_awaited``: whether somebody waits for many of the writes. If not, and somebody waits
        for a few or did some seconds ago, the batch is small.
        """
        bounds, callers = self._bounds, len(self._pending)
        most, events = bounds.shared_batch, self._events
        if not many_awaited and self._now() < self.awaited_until:
            most, events = min(most, bounds.unawaited_batch), min(events, bounds.unawaited_events)
        return (
            min(bounds.batch, max(most, callers * bounds.few_bytes)),
            min(bounds.batch_events, max(events, callers * bounds.caller_events)),
        )

    def pass_over(self) -> bool:
        """Return whether those with much waiting are passed over: the tables are behind."""
        if not self._store.is_behind:
            self.behind_since = 0.0
            return False
        now = self._now()
        self.behind_since = self.behind_since or now
        return now < self.behind_since + self._bounds.behind_seconds

    def room_ahead(self, announced: Batch) -> int:
        """Return how many more writes may be announced before they are appended.

        0 while a caller waits for an answer. What is announced here is appended before that
        caller's write, which would then wait for three appends instead of two.
        """
        bounds = self._bounds
        if not self.are_needed():
            return bounds.loop_writes if announced.size < bounds.batch else 0
        announced.may_outrun_tables = True
        if self._now() < self.awaited_until:
            return 0
        full = announced.size >= bounds.shared_batch or self.pass_over()
        return 0 if full else max(0, self._events - len(announced.writes))

    def fit(self, answer_seconds: float) -> None:
        """Choose the writes of the next shared batches, after the answers to one."""
        if answer_seconds > self._bounds.answer_seconds:
            self._events = max(self._bounds.fitted_events, self._events // 2)
        else:
            self._events = min(self._bounds.shared_events, 2 * self._events)
