"""Pending bytes: unanswered writes per caller, and backpressure.

A client that sends faster than the disk writes would fill the memory, and delay all others' writes.
So bytes are counted, in sum and per caller: reading from a connection with too many pauses until
half of them are answered, and when the sum is too large, reading pauses from those with more than
the mean. A caller that cannot be paused is refused.

It knows neither connections nor the disk: ``commit.py`` counts, the doors query.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rowcast.core.callers import EVENTS_WRITER, METRICS_WRITER, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.fairness_limits import (
    BEHIND_LOOK_SECONDS,
    BEHIND_SECONDS_MAX,
    FEW_WRITE_BYTES,
    GATHER_EVENTS,
    SHARED_ANSWER_SECONDS,
    SHARED_BATCH_BYTES_MAX,
    SHARED_BATCH_CALLER_EVENTS,
    SHARED_BATCH_EVENTS_MAX,
    SHARED_BATCH_FITTED_EVENTS,
    SHARED_CLIENT_BYTES_HIGH,
    SHARED_SECONDS,
    SHARED_UNAWAITED_BYTES_MAX,
    SHARED_UNAWAITED_EVENTS_MAX,
)
from rowcast.core.limits import (
    COMMIT_BACKLOG_CHANGES_MAX,
    COMMIT_BACKLOG_EVENTS_HIGH,
    COMMIT_BACKLOG_EVENTS_MAX,
    COMMIT_BATCH_EVENTS_MAX,
    COMMIT_LOOP_WRITES_MAX,
    SEQ_RESERVE,
)
from rowcast.core.memory_limits import (
    COMMIT_BACKLOG_BYTES_HIGH,
    COMMIT_BACKLOG_BYTES_MAX,
    COMMIT_BATCH_BYTES_MAX,
    COMMIT_CLIENT_BYTES_HIGH,
    COMMIT_CLIENT_BYTES_MAX,
    WRITE_BYTES,
)

log = logging.getLogger("rowcast.commit")


@dataclass(frozen=True, slots=True)
class WriteBounds:
    """Bounds of pending writes, in bytes."""

    client_high: int = COMMIT_CLIENT_BYTES_HIGH
    """Of one client, above which reading from it pauses."""
    client_max: int = COMMIT_CLIENT_BYTES_MAX
    """Of one caller, above which it is refused."""
    high: int = COMMIT_BACKLOG_BYTES_HIGH
    """Of all callers, above which reading pauses from those with more than the mean."""
    most: int = COMMIT_BACKLOG_BYTES_MAX
    """Of all callers, above which writes are refused."""
    batch: int = COMMIT_BATCH_BYTES_MAX
    """Of one transaction."""
    batch_events: int = COMMIT_BATCH_EVENTS_MAX
    """Writes and changes of facts in one transaction."""
    backlog_events_high: int = COMMIT_BACKLOG_EVENTS_HIGH
    """Writes that wait before what can wait is not read."""
    backlog_events: int = COMMIT_BACKLOG_EVENTS_MAX
    """Writes that wait before more are refused."""
    backlog_changes: int = COMMIT_BACKLOG_CHANGES_MAX
    """Changes of facts that wait before more are refused."""
    loop_writes: int = COMMIT_LOOP_WRITES_MAX
    """Writes of one batch that are decided on the event loop; more are by the writer thread."""
    reserved_numbers: int = SEQ_RESERVE
    """Sequence numbers that are taken from the disk at a time."""
    shared_batch: int = SHARED_BATCH_BYTES_MAX
    """Of one transaction while several callers write."""
    shared_client_high: int = SHARED_CLIENT_BYTES_HIGH
    """Of one client while several callers write, above which reading from it pauses."""
    shared_events: int = SHARED_BATCH_EVENTS_MAX
    """Writes of one transaction while several callers write."""
    unawaited_batch: int = SHARED_UNAWAITED_BYTES_MAX
    """Of one transaction with much that nobody waits for, while others wait for the disk."""
    unawaited_events: int = SHARED_UNAWAITED_EVENTS_MAX
    """Writes of such a transaction."""
    caller_events: int = SHARED_BATCH_CALLER_EVENTS
    """The same for each caller that has writes waiting, where that is more."""
    answer_seconds: float = SHARED_ANSWER_SECONDS
    """For which the answers to one of them may hold the loop; then the next have fewer writes."""
    fitted_events: int = SHARED_BATCH_FITTED_EVENTS
    """Not fewer than these."""
    shared_seconds: float = SHARED_SECONDS
    """How long a second caller counts after its last write."""
    few_bytes: int = FEW_WRITE_BYTES
    """Of a caller that does not wait for tables that are behind, while others have more."""
    behind_seconds: float = BEHIND_SECONDS_MAX
    """How long those others are passed over."""
    look_seconds: float = BEHIND_LOOK_SECONDS
    """Between two looks at tables that are behind."""
    gather_seconds: float = 0.0
    """How long announced messages of QoS 0 are gathered before they are appended."""
    gather_events: int = GATHER_EVENTS
    """Of so many the append begins at once."""


class Sized(Protocol):
    """A write."""

    caller: Caller
    size: int


class PendingBytes(dict[object, int]):
    """Pending bytes by connection, those without any are absent.

    Not by caller: one is another one after a change of its rights, and its writes stay in order.
    """

    __slots__ = ("_bounds", "calm", "client_high", "high", "size", "slowed")

    def __init__(self, bounds: WriteBounds) -> None:
        super().__init__()
        self._bounds = bounds
        self.size = 0
        """The sum."""
        self.high = bounds.high
        """The sum above which pausable callers wait."""
        self.share(shared=False)
        self.slowed: dict[object, list[Callable[[], None]]] = {}
        """Connections of paused callers, with the callbacks to resume them."""

    def share(self, *, shared: bool) -> None:
        """Choose the bounds for several callers that write, or for one."""
        bounds = self._bounds
        most = bounds.shared_client_high if shared else bounds.client_high
        self.client_high = min(most, bounds.client_high)
        """The bytes of one caller above which reading from it pauses."""
        self.calm = min(self.client_high, self.high, bounds.backlog_events_high * WRITE_BYTES)
        """The sum below which nobody waits."""

    @property
    def rivals(self) -> int:
        """How many callers have writes, without the server's own reports of itself."""
        return len(self) - (METRICS_WRITER.connection in self) - (EVENTS_WRITER.connection in self)

    def check(self, caller: Caller, size: int) -> None:
        """Raise BUSY if ``size`` more bytes would exceed a bound."""
        bounds = self._bounds
        own = self.get(caller.connection, 0)
        if own and own + size > bounds.client_max:
            raise _too_many(own, "of yours ")
        if self and self.size + size > bounds.most:
            raise _too_many(self.size, "")

    def hold(self, caller: Caller, size: int) -> None:
        """Count bytes of a write that waits before it is submitted; raises BUSY."""
        self.check(caller, size)
        connection = caller.connection
        self[connection] = self.get(connection, 0) + size
        self.size += size

    def release(self, caller: Caller, size: int) -> None:
        """Count them no longer."""
        left = self.pop(caller.connection) - size
        if left:
            self[caller.connection] = left
        self.size -= size

    def release_all(self, writes: Sequence["Sized"]) -> None:
        """Count those of some writes no longer; of one caller in a row with one look."""
        held, last = 0, len(writes) - 1
        for index, write in enumerate(writes):
            held += write.size
            if index == last or writes[index + 1].caller is not write.caller:
                connection = write.caller.connection
                if left := self.pop(connection) - held:  # ``release``, inlined
                    self[connection] = left
                self.size, held = self.size - held, 0

    def slows(self, connection: object, *, crowded: bool) -> bool:
        """Whether reading from a connection should pause."""
        own = self.get(connection, 0)
        return own >= self.client_high or (crowded and own > 0 and own * len(self) >= self.size)

    def when_room(self, caller: Caller, call: Callable[[], None]) -> None:
        """Call once when reading from the caller may resume."""
        self.slowed.setdefault(caller.connection, []).append(call)

    def let_go(self, *, crowded: bool) -> None:
        """Resume callers with few enough pending bytes."""
        low = self.client_high // 2
        for connection in list(self.slowed):
            few = self.get(connection, 0) <= low
            if few and not self.slows(connection, crowded=crowded):
                for call in self.slowed.pop(connection):
                    relieve(call)


def relieve(call: Callable[[], None]) -> None:
    """Call a waiting callback; its failure affects only itself."""
    try:
        call()
    except Exception:
        log.exception("a connection failed to read again")


def _too_many(size: int, whose: str) -> Error:
    return Error(
        Code.BUSY,
        f"{size} bytes {whose}are waiting for the disk; try again in a second",
        retry_after_seconds=1,
    )
