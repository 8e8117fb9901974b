"""Gaps: events that a subscription does not get, counted exactly and reported in stream order (M4).

For each subscription: events published to its filters = events delivered + the sum of its gaps. A
door that cannot deliver an event calls ``Gaps.miss``; all other losses are counted in the
subscription. Both produce a ``Gap``, a mark in place of the missing events, with a reason of a
closed list. Not a gap: events withheld by hooks, whose existence is hidden from the reader; and
events covered by a RESET, which restarts the count. The module knows neither queues nor protocols.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from rowcast.core.callers import Caller
from rowcast.core.events import GAP, SNAPSHOT, Event
from rowcast.core.limits import GAP_MARKS_TOGETHER_MAX
from rowcast.subscriptions.addressed import Addressed
from rowcast.subscriptions.subscribed_filter import SubscribedFilter


class GapCause(StrEnum):
    """Reasons of gaps, as sent to clients."""

    SLOW = "slow"
    """The reader was too slow for unlogged events."""
    WAITING = "waiting"
    """The session's backlog limit was exceeded (D25)."""
    AWAY = "away"
    """Unlogged events while the client was disconnected."""
    TOO_LARGE = "too_large"
    """Larger than the client's maximum packet size (MQTT-3.1.2-24)."""
    EXPIRED = "expired"
    """The message expired before delivery (MQTT-3.3.2-5)."""
    UNSENDABLE = "unsendable"
    """It cannot be encoded in the reader's format."""
    DOUBTFUL = "doubtful"
    """With QoS 0, unknown whether it was delivered before the server was killed."""
    CONFLATED = "conflated"
    """A newer value of the same record follows, and the table delivers the latest."""
    COMPACTED = "compacted"
    """Trimmed from the log, without a count; what became of each record was delivered (E16)."""
    TRIMMED = "trimmed"
    """Trimmed from the log; without a count if the number is unknown."""


class Gap(Addressed):
    """A mark in place of missing events; ``count`` is None if unknown.

    The missing events are after ``after`` and up to ``last`` in the log; both are 0 when unlogged.
    The count only grows until delivery.
    """

    __slots__ = ("after", "count", "last", "why")

    def __init__(
        self,
        why: GapCause,
        count: int | None = 0,
        interest: SubscribedFilter | None = None,
        after: int = 0,
        last: int = 0,
    ) -> None:
        super().__init__("", GAP, b"")
        self.why = why
        self.count = count
        self.interest = interest
        """The filter concerned; None for all filters of the subscription."""
        self.after = after
        self.last = last

    def facts(self, cursor: Callable[[int], str]) -> dict[str, object]:
        """Return the fields sent to a reader; it may fetch a logged range by cursor."""
        return {
            "from": cursor(self.after) if self.last else None,
            "to": cursor(self.last) if self.last else None,
            "count": self.count,
            "reason": self.why.value,
        }


_NO_COUNTS: Final[Mapping[GapCause, int]] = MappingProxyType({})
"""Shared by the readers that lost nothing, which are nearly all."""


class LossCounter:
    """The lost events of a subscription, by reason."""

    __slots__ = ("caller", "counts", "noted", "parent", "reported")

    def __init__(self, parent: "LossCounter | None" = None) -> None:
        self.parent = parent
        """The counter that includes this one."""
        self.counts: Mapping[GapCause, int] = _NO_COUNTS
        self.caller: Caller | None = None
        """The reader, if it counts for one."""
        self.noted: set[LossCounter] | None = None
        """Child counters that changed, if they are reported."""
        self.reported: Mapping[GapCause, int] = _NO_COUNTS
        """The counts at the last report."""

    def add(self, why: GapCause, count: int = 1) -> None:
        """Count events, here and in the parent."""
        self.counts = {**self.counts, why: self.counts.get(why, 0) + count}
        if self.parent is not None:
            self.parent.add(why, count)
            if self.parent.noted is not None:
                self.parent.noted.add(self)

    def news(self) -> dict[str, int]:
        """Return the counts since the last report, by reason as text."""
        reported, self.reported = self.reported, dict(self.counts)
        counts = {why: count - reported.get(why, 0) for why, count in self.counts.items()}
        return {why.value: count for why, count in counts.items() if count > 0}

    @property
    def total(self) -> int:
        """The sum of all reasons."""
        return sum(self.counts.values())

    def rows(self) -> dict[str, int]:
        """Return the counts by reason as text, for a row."""
        return {why.value: self.counts[why] for why in GapCause if why in self.counts}


class Gaps:
    """The gaps of a reader, over all its connections, and those not reported yet."""

    __slots__ = ("losses", "marks", "unreported")

    def __init__(self) -> None:
        self.losses = LossCounter()
        self.unreported: list[Gap] = []
        """Gaps of a lost connection or while disconnected, reported after the reconnect."""
        self.marks: list[Gap] = []
        """Gaps to report first."""

    def miss(self, event: Event, interest: SubscribedFilter | None, why: GapCause) -> None:
        """Count an undelivered event; consecutive ones form one gap."""
        self.losses.add(why)
        seq = event.seq if event.kind != SNAPSHOT else 0  # a record has no position in the stream
        last = self.marks[-1] if self.marks else None
        if (
            last is not None
            and last.why is why
            and last.interest is interest
            and (last.last < seq if last.last else not seq)
        ):
            last.count = (last.count or 0) + 1
            last.last = seq
        else:
            self.marks.append(Gap(why, 1, interest, seq - 1 if seq else 0, seq))

    def take_back(self) -> None:
        """Undo the last ``miss``: another group member got the event."""
        last = self.marks[-1]
        self.losses.add(last.why, -1)
        last.count = (last.count or 0) - 1
        if not last.count:
            self.marks.pop()

    def take(self, most: int | None = None) -> list[Gap]:
        """Remove and return the gaps to report now, at most ``most``."""
        marks = self.marks[:most]
        del self.marks[:most]
        return marks


def mark_for(queue: Iterable[Event], interest: SubscribedFilter | None) -> Gap | None:
    """Return the gap at the end of a queue that counts for an interest; None if there is none.

    ``queue`` is in reverse order. Beyond a number of consecutive marks the last one counts for all
    other interests.
    """
    for together, event in enumerate(queue, 1):
        if not isinstance(event, Gap):
            break
        if event.interest is interest:
            return event
        if together == GAP_MARKS_TOGETHER_MAX:
            event.interest = None
            return event
    return None


def together(marks: Iterable[Gap]) -> list[Gap]:
    """Merge gaps: those without a range in the log become one per reason."""
    sums: dict[GapCause, Gap] = {}
    apart: list[Gap] = []
    for mark in marks:
        known = sums.get(mark.why)
        if mark.last or mark.count is None:
            apart.append(mark)
        elif known is None:
            sums[mark.why] = mark
        else:
            known.count = (known.count or 0) + mark.count
            known.interest = known.interest if known.interest is mark.interest else None
    return [*sums.values(), *apart]
