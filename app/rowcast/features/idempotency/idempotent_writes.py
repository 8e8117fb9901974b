"""Producers: writers with numbered writes, whose repeats have no further effect (M8, H25).

A write may have a mark: the name of its producer, the producer's epoch, and a unique number. Mark
and event are one transaction. A repeat of the same mark (after a lost acknowledgement, or a kill)
gets the receipt of the first (``remembered_receipts.py``), without further effect; while the first
is pending, the repeat waits for it. An older epoch is fenced off: a replaced producer can no longer
write.

A producer may state the number below which all is done: those need not be stored, and a repeat gets
a receipt without a position. Otherwise the newest numbers are stored, up to a bound; older ones are
refused, because their state is unknown. Names are per user, so no user affects another's numbers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
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
from rowcast.store.store import Change
from rowcast.writes.write import Done, Outcome, Receipt, Write

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

MARKS: Final = frozenset({MARK, PATH, KEY})
OWNER: Final = "producer/"
"""The prefix of owners of marks, followed by the user and the producer's name."""
_LOW: Final = "low"
_FORGOTTEN: Final = "forgotten"
"""Names of the facts of the two bounds; other names are numbers."""


@dataclass(frozen=True, slots=True)
class ProducerBounds:
    """What is remembered of producers."""

    producers: int = PRODUCERS_MAX
    numbers: int = PRODUCER_NUMBERS_MAX
    """Numbers of one producer."""
    forgotten: int = PRODUCER_NUMBERS_FORGOTTEN
    """The oldest of them evicted at once when there are more."""


BOUNDS: Final = ProducerBounds()


@dataclass(slots=True)
class Producer:
    """The state of one producer."""

    owner: str
    epoch: int = 0
    low: int = 0
    """All numbers below are done, according to the producer."""
    forgotten: int = 0
    """Numbers below have an unknown state."""
    done: dict[int, bytes] = field(default_factory=dict)
    """The packed receipt of each number (``remembered_receipts.py``)."""
    order: list[int] = field(default_factory=list)
    """A heap of these numbers."""
    flying: dict[tuple[int, int], list[Done]] = field(default_factory=dict)
    """Pending writes by epoch and number, with callbacks of waiting repeats."""

    def enter(self, epoch: int) -> None:
        """Start an epoch, with new numbers."""
        self.epoch, self.low, self.forgotten, self.done, self.order = epoch, 0, 0, {}, []

    def note(self, number: int, receipt: bytes) -> None:
        """Remember the packed receipt of a number."""
        if number not in self.done:
            heappush(self.order, number)
        self.done[number] = receipt

    def fact(self, epoch: int, name: str, number: int) -> Change:
        """Return the change that stores a bound."""
        return Change(self.owner, f"{epoch}:{name}", number.to_bytes(8, "big"))


class IdempotentWrites:
    """All producers of one kernel; the loop's own."""

    def __init__(self, kernel: "Kernel", keys: Keys, bounds: ProducerBounds = BOUNDS) -> None:
        self._kernel = kernel
        self._bounds = bounds
        self.keys = keys
        self._producers: dict[str, Producer] = {}
        """By owner."""
        self._users: dict[str, dict[str, Producer]] = {}
        """Those of each user, least recently active first."""
        self.repeats = 0
        """Repeated writes."""

    def restore(self, facts: Iterable[tuple[str, str, bytes]]) -> None:
        """Restore producers; ``facts`` are those of owners ``producer/``."""
        for owner, name, value in facts:
            text, _, number = name.partition(":")
            producer = self._producers.get(owner) or self._add(Producer(owner))
            epoch = int(text)
            if epoch > producer.epoch:
                producer.enter(epoch)
            if epoch < producer.epoch:  # it was pending when the newer epoch began
                continue
            if number == _LOW:
                producer.low = int.from_bytes(value, "big")
            elif number == _FORGOTTEN:
                producer.forgotten = int.from_bytes(value, "big")
            else:
                producer.note(int(number), value)

    def answer_repeat(self, write: Write) -> bool:
        """Handle a repeated write: it gets the answer of the first."""
        if write.passed or write.direct:  # checked when the client wrote it
            return False
        callback = self.callback_of(write.event, write.caller, write.done)
        if callback is None:
            return True
        write.done = callback
        return False

    def callback_of(self, event: Event, caller: Caller, done: Done) -> Done | None:
        """Return the callback of a marked write; None for a repeat.

        Then ``done`` gets the first one's receipt. ``done`` also gets refusals.
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
                callback = self.keys.callback_of(str(key), event, caller, done)
                self.repeats += callback is None
                return callback
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
        return self._noting(producer, epoch, number, done)

    def _producer(self, owner: str) -> Producer:
        producer = self._producers.get(owner)
        if producer is None:
            producer = Producer(owner)
            self._make_room(_user(owner))
        else:
            self._remove(producer)
        return self._add(producer)

    def _add(self, producer: Producer) -> Producer:
        owner = producer.owner
        self._producers[owner] = self._users.setdefault(_user(owner), {})[owner] = producer
        return producer

    def _remove(self, producer: Producer) -> None:
        owner, user = producer.owner, _user(producer.owner)
        del self._producers[owner], self._users[user][owner]
        if not self._users[user]:
            del self._users[user]

    def _make_room(self, user: str) -> None:
        """Evict the least recently active producer when there are too many.

        Of a user with a fair share or more it is one of their own, else one of somebody with more.
        """
        most = self._bounds.producers
        if len(self._producers) < most:
            return
        share, own = most // len(self._users), self._users.get(user, {})
        if len(own) >= share:
            found = own.values()
        else:
            large = (it for it in self._users.values() if len(it) > share)
            found = next(large, self._producers).values()
        oldest = next((item for item in found if not item.flying), None)
        if oldest is None:
            raise Error(Code.BUSY, f"{len(found)} producers are writing; try again")
        self._remove(oldest)
        self._kernel.committer.keep((Change(oldest.owner, "", None),))

    def _enter(self, producer: Producer, name: str, epoch: int) -> None:
        """Switch to a newer epoch, or refuse an older one."""
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
        """Remove numbers that are done, and the oldest when there are too many.

        The oldest in bulk, to amortise the cost.
        """
        done, order = producer.done, producer.order
        gone: list[int] = []
        changes: list[Change] = []
        if low > producer.low:
            while order and order[0] < low:
                gone.append(heappop(order))
            producer.low = low
            changes.append(producer.fact(producer.epoch, _LOW, low))
        if len(order) > self._bounds.numbers:
            left = sorted(order)
            gone += left[: self._bounds.forgotten]
            producer.order, producer.forgotten = left[self._bounds.forgotten :], gone[-1] + 1
            changes.append(producer.fact(producer.epoch, _FORGOTTEN, producer.forgotten))
        for number in gone:
            del done[number]
            changes.append(Change(producer.owner, f"{producer.epoch}:{number}", None))
        if changes:
            self._kernel.committer.keep(changes)

    def _noting(self, producer: Producer, epoch: int, number: int, done: Done) -> Done:
        def on_outcome(outcome: Outcome) -> None:
            waiting = producer.flying.pop((epoch, number), [])
            if isinstance(outcome, Receipt) and producer.epoch == epoch:
                producer.note(number, pack(outcome))
            done(outcome)
            for other in waiting:
                if isinstance(outcome, Receipt):
                    other(outcome.repeated())
                else:
                    other(outcome)

        return on_outcome


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
    """Return owner and name of the fact of a marked event; None for others.

    The third is the prefix of its value, before the receipt. The mark of an idempotency key is
    removed from the event, so that it is not stored.
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
    """Store the receipt of a marked write in its transaction."""
    fact = fact_of_mark(write.event, write.caller)
    if fact is None:
        return
    owner, name, start = fact

    def remembered(receipt: Receipt) -> list[Change]:
        return [Change(owner, name, start + pack(receipt))]

    write.logged, write.conclude = True, remembered
    write.wants_existed = write.event.kind in RETAINED


def _user(owner: str) -> str:
    """Return the user of a producer's facts, as it is escaped there."""
    return owner.split("/", 2)[1]


def _owner(caller: Caller, name: str) -> str:
    """Return the owner of a producer's facts; slashes in user names are escaped."""
    return f"{OWNER}{quote(caller.user, safe='')}/{name}"
