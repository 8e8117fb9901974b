"""Gaps: what a subscription is not passed on, counted exactly and told in stream order (M4).

For each subscription: what was sent to its filters = what was handed over + the sum of its gaps. An
edge that cannot pass something on says so to ``Gaps.miss``; everything else is counted where it is
lost, in the subscription. Both give the same mark, a ``Gap``, which takes the place of what is
missing. Why is one of a closed list. Not a gap: what hooks keep from a reader, because that it was
there is none of its business; and what a RESET tells of, where one count ends and another begins.

It knows neither queues nor protocols.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum

from rowcast.core.callers import Caller
from rowcast.core.events import GAP, SNAPSHOT, Event
from rowcast.core.limits import GAP_MARKS_TOGETHER_MAX
from rowcast.subscriptions.subscribed_filters import SubscribedFilter


class GapCause(StrEnum):
    """Why events were not passed on; these words are told to clients."""

    SLOW = "slow"
    """The reader was too slow for what is not logged."""
    WAITING = "waiting"
    """More waited for a session than may (D25)."""
    AWAY = "away"
    """The connection was gone, and what came meanwhile is not logged."""
    TOO_LARGE = "too_large"
    """The client takes no packet of that size (MQTT-3.1.2-24)."""
    EXPIRED = "expired"
    """Its time was over before it could be passed on (MQTT-3.3.2-5)."""
    UNSENDABLE = "unsendable"
    """It cannot be written in the form that the reader asked for."""
    DOUBTFUL = "doubtful"
    """The server was killed, and with QoS 0 nobody knows whether it was passed on before that."""
    CONFLATED = "conflated"
    """A newer value of the same record follows, and the table delivers the latest."""
    TRIMMED = "trimmed"
    """The log holds it no more; where nobody can say how many those were, there is no count."""


class Gap(Event):
    """The mark in the place of what is missing; ``count`` is None where nobody can know it.

    What is missing lies after ``after`` and up to ``last`` in the log; both are 0 when it is not
    logged. It counts up only until it is handed over.
    """

    __slots__ = ("after", "count", "interest", "last", "why")

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
        """Whose it is; None for all interests of the subscription."""
        self.after = after
        self.last = last

    def facts(self, cursor: Callable[[int], str]) -> dict[str, object]:
        """Return what a reader is told; a range that is in the log may be fetched by cursor."""
        return {
            "from": cursor(self.after) if self.last else None,
            "to": cursor(self.last) if self.last else None,
            "count": self.count,
            "reason": self.why.value,
        }


class LossCounter:
    """How many events of a subscription were not passed on, by reason."""

    __slots__ = ("caller", "counts", "noted", "parent", "told")

    def __init__(self, parent: "LossCounter | None" = None) -> None:
        self.parent = parent
        """What this is a part of."""
        self.counts: dict[GapCause, int] = {}
        self.caller: Caller | None = None
        """Whose it is, if it is one reader's."""
        self.noted: set[LossCounter] | None = None
        """Parts of this one that have counted something, if somebody looks at them."""
        self.told: dict[GapCause, int] = {}
        """The counts when somebody looked last."""

    def add(self, why: GapCause, count: int = 1) -> None:
        """Count events, here and in the counter of all."""
        self.counts[why] = self.counts.get(why, 0) + count
        if self.parent is not None:
            self.parent.add(why, count)
            if self.parent.noted is not None:
                self.parent.noted.add(self)

    def news(self) -> dict[str, int]:
        """Return what was counted since the last look, in the words that clients are told."""
        told, self.told = self.told, dict(self.counts)
        counts = {why: count - told.get(why, 0) for why, count in self.counts.items()}
        return {why.value: count for why, count in counts.items() if count > 0}

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.counts.values())

    def rows(self) -> dict[str, int]:
        """Return the counts in the words that clients are told, for a row."""
        return {why.value: self.counts[why] for why in GapCause if why in self.counts}


class Gaps:
    """What a reader was not passed on, over all its connections, and what of it is to be told."""

    __slots__ = ("losses", "marks", "owed")

    def __init__(self) -> None:
        self.losses = LossCounter()
        self.owed: list[Gap] = []
        """What was lost with a connection or between two, to be told when the reader is back."""
        self.marks: list[Gap] = []
        """What is to be told before anything else."""

    def miss(self, event: Event, interest: SubscribedFilter | None, why: GapCause) -> None:
        """Count an event that is not passed on; those that follow one another are one gap."""
        self.losses.add(why)
        seq = event.seq if event.kind != SNAPSHOT else 0  # a record has no place in the stream
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
        """Forget what was missed last: somebody else was handed it."""
        last = self.marks[-1]
        self.losses.add(last.why, -1)
        last.count = (last.count or 0) - 1
        if not last.count:
            self.marks.pop()

    def told(self, most: int | None = None) -> list[Gap]:
        """Return what is to be told now, as much as there is room for, and forget it."""
        marks = self.marks[:most]
        del self.marks[:most]
        return marks


def mark_for(queue: Iterable[Event], interest: SubscribedFilter | None) -> Gap | None:
    """Return the mark at the end of a queue that counts for an interest; None if there is none.

    ``queue`` is given from its end. Beyond a number of marks that stand together the last one
    counts for whoever has none.
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
    """Return marks as few as they can be: one for each reason, if they have no place in the log."""
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
