"""Producers: writers that number what they send, so that a repeat has no second effect (M8, H25).

A write may carry a mark: the name of its producer, the producer's epoch, and a number that it gives
to one write only. Mark and event are one transaction. When the same mark comes again (because the
acknowledgement was lost, or somebody was killed), the writer gets the receipt of the first
(``remembered_receipts.py``), and nothing else happens; while the first is still on its way, the
repeat waits for it. An older epoch is fenced off: a producer that was replaced can write no more.

A producer may say below which number all is done: those need no memory, and a repeat of one gets a
receipt without a position. Else the newest numbers are remembered, as many as a bound says; what is
older than all of them is refused, because nobody knows any more. A name is the user's own: no one
can use up the numbers of another.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import RETAINED, Event
from rowcast.core.gateway_limits import (
    PRODUCER_NUMBERS_FORGOTTEN,
    PRODUCER_NUMBERS_MAX,
    PRODUCERS_MAX,
)
from rowcast.core.topics import DELAYED_PREFIX
from rowcast.core.write_marks import MARK, PATH, parse_mark
from rowcast.features.idempotency.idempotency_keys import KEY, Keys, fact_of_key
from rowcast.features.idempotency.remembered_receipts import pack, receipt_of
from rowcast.kernel.write import Done, Outcome, Receipt, Write
from rowcast.store.store import Change

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

MARKS: Final = frozenset({MARK, PATH, KEY})
OWNER: Final = "producer/"
"""What the owners of marks begin with; the user and the producer's name follow."""
_LOW: Final = "low"
_FORGOTTEN: Final = "forgotten"
"""Names of the facts that keep the two bounds; those of the others are numbers."""


@dataclass(slots=True)
class Producer:
    """What is known of one producer."""

    owner: str
    epoch: int = 0
    low: int = 0
    """All numbers below this are done, the producer has said."""
    forgotten: int = 0
    """Of numbers below this nobody knows whether they were written."""
    done: dict[int, bytes] = field(default_factory=dict)
    """What each number became, as ``remembered_receipts.py`` packs it."""
    flying: dict[tuple[int, int], list[Done]] = field(default_factory=dict)
    """Epoch and number of what is being written, and who waits besides the first."""

    def enter(self, epoch: int) -> None:
        """Begin an epoch: its numbers are new ones."""
        self.epoch, self.low, self.forgotten, self.done = epoch, 0, 0, {}

    def fact(self, epoch: int, name: str, number: int) -> Change:
        """Return the change that keeps a number that concerns all the others."""
        return Change(self.owner, f"{epoch}:{name}", number.to_bytes(8, "big"))


class IdempotentWrites:
    """All producers of one kernel; the loop's own."""

    def __init__(self, kernel: "Kernel", keys: Keys) -> None:
        self._kernel = kernel
        self.keys = keys
        self._producers: dict[str, Producer] = {}
        """By owner; the one that wrote last is the last."""
        self.repeats = 0
        """Writes that came again and had no second effect."""

    def restore(self, facts: Iterable[tuple[str, str, bytes]]) -> None:
        """Take up what was known before a restart; ``facts`` are those of owners ``producer/``."""
        for owner, name, value in facts:
            text, _, number = name.partition(":")
            producer = self._producers.setdefault(owner, Producer(owner))
            epoch = int(text)
            if epoch > producer.epoch:
                producer.enter(epoch)
            if epoch < producer.epoch:  # it was on its way when the newer one began
                continue
            if number == _LOW:
                producer.low = int.from_bytes(value, "big")
            elif number == _FORGOTTEN:
                producer.forgotten = int.from_bytes(value, "big")
            else:
                producer.done[int(number)] = value

    def hear_write(self, write: Write) -> bool:
        """Take a marked write that came before: it is answered as the first one was."""
        if write.passed or write.direct:  # it was heard when the client wrote it
            return False
        heard = self.hear(write.event, write.caller, write.done)
        if heard is None:
            return True
        write.done = heard
        return False

    def hear(self, event: Event, caller: Caller, done: Done) -> Done | None:
        """Return what is to hear of a marked write; None when it came before.

        ``done`` has then heard the first one's receipt, or will. Refusals go to ``done`` too.
        """
        try:
            self._kernel.rights.check_write(event.topic, caller, event.kind)
            properties = event.properties or {}
            if self._kernel.reader.epoch in str(properties.get(PATH, "")).split(","):  # H34
                self.repeats += 1
                done(Receipt(event, existed=True, repeat=True))
                return None
            mark, key = properties.get(MARK), properties.get(KEY)
            if mark is None and key is None:
                return done
            if event.topic.startswith(DELAYED_PREFIX):
                raise _not_delayed()
            if key is not None:
                heard = self.keys.hear(str(key), event, caller, done)
                self.repeats += heard is None
                return heard
            name, epoch, number, low = parse_mark(str(mark))
            producer = self._producer(_owner(caller, name))
            self._enter(producer, name, epoch)
            self._forget(producer, low)
            if (epoch, number) in producer.flying:
                self.repeats += 1
                producer.flying[epoch, number].append(done)
                return None
            known = producer.done.get(number, b"" if number < producer.low else None)
            if known is None and number < producer.forgotten:
                done(_forgotten(name, number, producer.forgotten))
                return None
        except Error as error:
            done(error)
            return None
        if known is not None:
            self.repeats += 1
            done(receipt_of(known, event, self._kernel))
            return None
        producer.flying[epoch, number] = []
        return self._hearing(producer, epoch, number, done)

    def knows(self, event: Event, caller: Caller) -> bool:
        """Tell whether a write with the event's mark was done before."""
        properties = event.properties or {}
        if (key := properties.get(KEY)) is not None:
            return self.keys.knows(str(key), caller)
        if (mark := properties.get(MARK)) is None:
            return False
        name, epoch, number, low = parse_mark(str(mark))
        known = self._producers.get(_owner(caller, name))
        if known is None or known.epoch != epoch:
            return False
        return number in known.done or number < max(known.low, low)

    def _producer(self, owner: str) -> Producer:
        producer = self._producers.pop(owner, None)
        if producer is None:
            producer = Producer(owner)
            self._make_room()
        self._producers[owner] = producer
        return producer

    def _make_room(self) -> None:
        """Forget who has not written for the longest time, when there are too many."""
        if len(self._producers) >= PRODUCERS_MAX:
            idle = (item for item in self._producers.values() if not item.flying)
            oldest = next(idle, None)
            if oldest is None:
                raise Error(Code.BUSY, f"{PRODUCERS_MAX} producers are writing; try again")
            del self._producers[oldest.owner]
            self._kernel.committer.keep((Change(oldest.owner, "", None),))

    def _enter(self, producer: Producer, name: str, epoch: int) -> None:
        """Go to a newer epoch, or fence off an older one."""
        if epoch < producer.epoch:
            raise Error(
                Code.PRECONDITION,
                f"the producer {name} goes on in epoch {producer.epoch}; epoch {epoch} is over",
            )
        if epoch > producer.epoch:
            self._kernel.committer.keep(
                (Change(producer.owner, "", None), producer.fact(epoch, _FORGOTTEN, 0))
            )
            producer.enter(epoch)

    def _forget(self, producer: Producer, low: int) -> None:
        """Forget what is done for good, and the oldest when there are too many.

        Both come in bulk, so that a write does not pay for all the numbers before it.
        """
        done = producer.done
        gone: list[int] = []
        changes: list[Change] = []
        if low > producer.low:
            gone = [number for number in done if number < low]
            producer.low = low
            changes.append(producer.fact(producer.epoch, _LOW, low))
        if len(done) - len(gone) > PRODUCER_NUMBERS_MAX:
            oldest = sorted(done)[: len(gone) + PRODUCER_NUMBERS_FORGOTTEN]
            gone, producer.forgotten = oldest, oldest[-1] + 1
            changes.append(producer.fact(producer.epoch, _FORGOTTEN, producer.forgotten))
        for number in gone:
            del done[number]
            changes.append(Change(producer.owner, f"{producer.epoch}:{number}", None))
        if changes:
            self._kernel.committer.keep(changes)

    def _hearing(self, producer: Producer, epoch: int, number: int, done: Done) -> Done:
        def hear(outcome: Outcome) -> None:
            waiting = producer.flying.pop((epoch, number), [])
            if isinstance(outcome, Receipt) and producer.epoch == epoch:
                late, existed = outcome.late, outcome.existed
                producer.done[number] = pack(outcome.event, existed=existed, late=late)
            done(outcome)
            for other in waiting:
                if isinstance(outcome, Receipt):
                    other(replace(outcome, repeat=True))
                else:
                    other(outcome)

        return hear


def _not_delayed() -> Error:
    return Error(
        Code.INVALID,
        "a delayed write cannot be numbered: leave the producer, the key or the delay out",
    )


def _forgotten(name: str, number: int, least: int) -> Error:
    return Error(
        Code.GONE,
        f"number {number} of the producer {name} is below {least}: whether it was written is no "
        "longer known; go on with a new number",
    )


def fact_of_mark(event: Event, caller: Caller) -> tuple[str, str, bytes] | None:
    """Return owner and name of the fact that a marked event was written; None for others.

    The third is what its value begins with, before the receipt. The mark of an idempotency key is
    taken from the event: it is not stored with it.
    """
    properties = event.properties or {}
    if (key := properties.get(KEY)) is not None:
        event.properties = {name: properties[name] for name in properties if name != KEY} or None
        return fact_of_key(str(key), caller)
    if (mark := properties.get(MARK)) is None:
        return None
    name, epoch, number, _ = parse_mark(str(mark))
    return _owner(caller, name), f"{epoch}:{number}", b""


def remember_mark(write: Write) -> None:
    """Have the receipt of a marked write remembered, in one transaction with it."""
    fact = fact_of_mark(write.event, write.caller)
    if fact is None:
        return
    owner, name, start = fact

    def remembered(receipt: Receipt) -> list[Change]:
        kept = pack(receipt.event, existed=receipt.existed, late=receipt.late)
        return [Change(owner, name, start + kept)]

    write.logged, write.conclude = True, remembered
    if write.event.kind in RETAINED:  # whether there was a record before is a part of it
        write.depends = True


def _owner(caller: Caller, name: str) -> str:
    """Return the owner of a producer's facts; a slash in a user's name is no boundary."""
    return f"{OWNER}{quote(caller.user, safe='')}/{name}"
