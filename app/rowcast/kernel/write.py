"""A write on its way: the event to be, the conditions it must meet, and who waits for the answer.

``write_path.py`` asks the steps of its route about it, and ``commit.py`` carries it out. It must
not know how the answer is told: ``done`` is called on the event loop with a ``Receipt`` or an
``Error``.
"""

from asyncio import Future
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import PATCH, Event, Record
from rowcast.core.memory_limits import WRITE_BYTES
from rowcast.kernel.last_write_wins import Stamp
from rowcast.rows.compiled_table import CompiledTable
from rowcast.store.store import Change


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold of the current record when the write is carried out; all of it.

    ``exists``: there must (True) or must not (False) be a record. ``seqs``: its number must be one
    of these. ``not_seqs``: it must be none of these. ``strict``: a missing record is NOT_FOUND
    instead of PRECONDITION: the plain DELETE of HTTP.
    """

    exists: bool | None = None
    seqs: frozenset[int] | None = None
    not_seqs: frozenset[int] = frozenset()
    strict: bool = False

    def check(self, record: Record | None, topic: str) -> None:
        """Raise NOT_FOUND or PRECONDITION when it does not hold of the record."""
        if record is None:
            if self.strict:
                raise Error(Code.NOT_FOUND, f"there is no record at {topic!r}")
            if self.exists or self.seqs is not None:
                raise Error(
                    Code.PRECONDITION, f"there is no record at {topic!r}, but one is required"
                )
            return
        if self.exists is False:
            problem = "there is a record already"
        elif self.seqs is not None and record.seq not in self.seqs:
            problem = "the record was changed by someone else"
        elif record.seq in self.not_seqs:
            problem = "the record is the excluded one"
        else:
            return
        raise Error(
            Code.PRECONDITION,
            f"at {topic!r} {problem}; read it again and repeat with its current version",
            seq=record.seq,
            version=record.version,
        )


A_RECORD: Final = Condition(exists=True, strict=True)
"""There must be one; NOT_FOUND when there is none."""


@dataclass(slots=True)
class Receipt:
    """The write is done: durable if its table logs it, and announced to every subscriber.

    There is one for each write, so it is not frozen: that takes three times as long to make.
    """

    event: Event
    existed: bool = False
    """Whether a record was at the topic before; of a message it is not known."""
    repeat: bool = False
    """Whether it was written before, by the same producer under the same number (M8)."""
    late: int = 0
    """The version of what won over it, if it came too late to change anything (E26)."""


T = TypeVar("T")
Outcome = Receipt | Error
Done = Callable[[Outcome], None]


class Unheard:
    """The ``done`` of writes that nobody waits for: it hears of refusals only."""

    __slots__ = ("_refused",)

    def __init__(self, refused: Callable[[Error], None] | None = None) -> None:
        self._refused = refused

    def __call__(self, outcome: Outcome) -> None:
        """Take an outcome."""
        if self._refused is not None and isinstance(outcome, Error):
            self._refused(outcome)


UNHEARD: Final = Unheard()


def resolver(future: "Future[T]") -> Callable[[T], None]:
    """Return a ``done`` that resolves a future, unless nobody waits for it any more."""

    def resolve(outcome: T) -> None:
        if not future.done():
            future.set_result(outcome)

    return resolve


def received(outcome: Outcome) -> Receipt:
    """Return the receipt; raises what came instead."""
    if isinstance(outcome, Error):
        raise outcome
    return outcome


class Write:
    """One write between ``submit`` and its outcome."""

    __slots__ = (
        "caller",
        "changes",
        "checks",
        "conclude",
        "condition",
        "deciders",
        "depends",
        "direct",
        "done",
        "event",
        "group",
        "logged",
        "part_of",
        "passed",
        "patch",
        "shape",
        "size",
        "versioned",
    )

    def __init__(
        self,
        event: Event,
        caller: Caller,
        done: Done = UNHEARD,
        condition: Condition | None = None,
        shape: CompiledTable | None = None,
        patch: object = None,
        *,
        logged: bool = True,
        group: "Group | None" = None,
        changes: Sequence[Change] = (),
        passed: bool = False,
        direct: bool = False,
        part_of: str = "",
    ) -> None:
        self.event = event
        self.caller = caller
        self.done = done
        self.shape = shape
        self.patch = patch
        self.logged = logged
        self.group = group
        self.changes = changes
        """Facts that become true if and only if its outcome is a Receipt: in one transaction with
        the write, before it is announced."""
        self.passed = passed
        """Whether the hooks were asked about it, and it is known to come for the first time."""
        self.direct = direct
        """Whether it goes past any resource class at its topic, because that class writes it."""
        self.part_of = part_of
        """What it is a part of, all of which is written or nothing; empty when it is alone."""
        self.condition = condition
        self.checks: tuple[Decider, ...] = () if condition is None else _CONDITION
        """Asked of the record as it is, in this order."""
        self.deciders: tuple[Decider, ...] = ()
        """Asked when the new value is known, a patch merged, before the server sets times."""
        self.conclude: Conclude | None = None
        """Returns more facts that become true with it, once its receipt is known."""
        self.versioned = False
        """Whether it brought its version with it, so that it may be late."""
        self.depends = (
            condition is not None
            or event.kind == PATCH
            or (shape is not None and (shape.ruled or bool(shape.managed)))
        )
        """Whether the outcome depends on the current record."""
        self.size = WRITE_BYTES
        """Bytes that it holds until it is answered; the committer counts its payload too."""

    def meet(self, condition: Condition | None) -> None:
        """Have another condition in place of the one it came with."""
        self.condition = condition
        self.checks = () if condition is None else _CONDITION

    def check(self, check: "Decider") -> None:
        """Have the record as it is judged, after what judges it already."""
        self.checks += (check,)
        self.depends = True

    def decide(self, decider: "Decider") -> None:
        """Have the new value judged, after what judges it already."""
        self.deciders += (decider,)
        self.depends = True


Step = Callable[[Write], bool | None]
"""What one feature has to say about a write, on the loop: nothing, or that it has taken the write
and will answer it (True). Raises the Error that refuses it."""
Decider = Callable[[Write, Record | None, "Current"], int]
"""What one feature has to say about a write when its record is known, on the writer thread: 0, or
the version that wins over it. A pure function of its arguments, run in the order of commits; raises
the Error that refuses the write."""
Conclude = Callable[[Receipt], Sequence[Change]]


def _meets(write: Write, record: Record | None, _current: "Current") -> int:
    if write.condition is not None:
        write.condition.check(record, write.event.topic)
    return 0


_CONDITION: Final[tuple[Decider, ...]] = (_meets,)


class Group:
    """Several writes that are carried out all or none (B11)."""

    __slots__ = ("conclude", "writes")

    def __init__(
        self,
        writes: list[Write],
        conclude: "Callable[[Sequence[Outcome]], Sequence[Change]] | None" = None,
    ) -> None:
        self.writes = writes
        self.conclude = conclude
        """Returns the facts that become true with all of it, from what became of each; called by
        the writer thread."""


Kept = Callable[[Error | None], None]
"""Told on the event loop that changes are durable, or why they are not."""


class FactsWrite:
    """Changes of facts on their way to the disk, without an event."""

    __slots__ = ("changes", "done", "error", "size")

    def __init__(self, changes: Sequence[Change], done: Kept | None) -> None:
        self.changes = changes
        self.done = done
        self.error: Error | None = None
        """Set by the writer thread when they could not be kept."""
        self.size = sum(len(change.value or b"") for change in changes)
        """How many bytes it holds."""

    @property
    def weight(self) -> int:
        """How much of a batch it is."""
        return len(self.changes) or 1


class Current(dict[str, Record | None]):
    """Current records by topic, as far as they are known; None is a record known to be absent.

    ``epoch`` names the log, ``now`` is the newest version handed out. ``gone`` has the stamps of
    deletions at topics without a record, for those who may come late. A version above ``ceiling``
    came from a clock that was wrong: it wins over nothing.
    """

    __slots__ = ("ceiling", "epoch", "gone", "now")

    def __init__(self, epoch: str = "", now: int = 0, ceiling: int = 1 << 63) -> None:
        super().__init__()
        self.epoch = epoch
        self.now = now
        self.ceiling = ceiling
        self.gone: dict[str, Stamp] = {}
