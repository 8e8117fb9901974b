"""A pending write: the event, its conditions, and its callback.

``kernel/write_path.py`` runs the steps of its route, and ``commit.py`` commits it. It does not know
the protocol of the answer: ``done`` is called on the event loop with a ``Receipt`` or an ``Error``.
"""

from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final, TypeVar

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import PATCH, RETAINED, Event, Record
from rowcast.core.memory_limits import WRITE_BYTES
from rowcast.core.plain_value import PlainValue
from rowcast.rows.compiled_table import CompiledTable
from rowcast.store.store import Change
from rowcast.writes.last_write_wins import Stamp


@dataclass(frozen=True, slots=True)
class Condition:
    """Conditions on the current record at the time of the commit; all must be met.

    ``exists``: there must (True) or must not (False) be a record. ``seqs``: its number must be one
    of these. ``not_seqs``: it must be none of these. ``strict``: a missing record is NOT_FOUND
    instead of PRECONDITION: the plain DELETE of HTTP.
    """

    exists: bool | None = None
    seqs: frozenset[int] | None = None
    not_seqs: frozenset[int] = frozenset()
    strict: bool = False

    def check(self, record: Record | None, topic: str) -> None:
        """Raise NOT_FOUND or PRECONDITION when the record does not meet it."""
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
"""The record must exist; NOT_FOUND otherwise."""


class Receipt(PlainValue):
    """The write is done: durable if its table logs it, and announced to every subscriber."""

    __slots__ = ("event", "existed", "late", "repeat", "unfit")
    FIELDS: ClassVar[tuple[str, ...]] = ("event", "existed", "repeat", "late", "unfit")

    def __init__(
        self,
        event: Event,
        existed: bool = False,
        repeat: bool = False,
        late: int = 0,
        unfit: str = "",
    ) -> None:
        self.event = event
        self.existed = existed
        """Whether a record existed before, if its writer asked (``Write.wants_existed``)."""
        self.repeat = repeat
        """Whether it was written before, by the same producer under the same number (M8)."""
        self.late = late
        """The version that won over it, if it was late (E26)."""
        self.unfit = unfit
        """What became of a value that does not fit its table: ``drop``, ``deadLetter`` (A15)."""

    def repeated(self) -> "Receipt":
        """Return the receipt of the same write, sent once more."""
        return Receipt(self.event, self.existed, True, self.late, self.unfit)


T = TypeVar("T")
Outcome = Receipt | Error
Done = Callable[[Outcome], None]


class FireAndForget:
    """The ``done`` of writes without a waiter: only reports refusals.

    ``at_once``: nobody is told that such a message is stored, so it may be announced before it is.
    """

    __slots__ = ("_refused", "at_once")

    def __init__(
        self, refused: Callable[[Error], None] | None = None, *, at_once: bool = False
    ) -> None:
        self._refused = refused
        self.at_once = at_once

    def __call__(self, outcome: Outcome) -> None:
        """Handle an outcome."""
        if self._refused is not None and isinstance(outcome, Error):
            self._refused(outcome)


FIRE_AND_FORGET: Final = FireAndForget()


class LowPriority:
    """The ``done`` of a write whose outcome is noted, but for which nothing waits: a metric."""

    __slots__ = ("_note",)

    def __init__(self, note: Done) -> None:
        self._note = note

    def __call__(self, outcome: Outcome) -> None:
        """Note an outcome."""
        self._note(outcome)


LOW_PRIORITY_TYPES: Final = (FireAndForget, LowPriority)
"""Types of ``done`` of writes for which others need not make way."""


def resolver(future: "Future[T]") -> Callable[[T], None]:
    """Return a ``done`` that resolves a future, unless it was cancelled."""
    return partial(resolve, future)


def resolve(future: "Future[T]", outcome: T) -> None:
    """Resolve a future, unless it was cancelled."""
    if not future.done():
        future.set_result(outcome)


def answer(future: "Future[Receipt]", outcome: Outcome) -> None:
    """Give a future the receipt, or the Error to raise, unless it was cancelled."""
    if future.done():
        return
    if isinstance(outcome, Error):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


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
        "examination",
        "follows",
        "group",
        "logged",
        "on_writer_thread",
        "part_of",
        "passed",
        "patch",
        "shape",
        "size",
        "versioned",
        "wants_existed",
    )

    def __init__(
        self,
        event: Event,
        caller: Caller,
        done: Done = FIRE_AND_FORGET,
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
        wants_existed: bool = False,
    ) -> None:
        self.event = event
        self.caller = caller
        self.done = done
        self.shape = shape
        self.patch = patch
        self.logged = logged
        self.group = group
        self.changes = changes
        """Changes of facts in the write's transaction, applied if and only if its outcome is a
        Receipt."""
        self.passed = passed
        """Whether hooks have run, and repeats are excluded."""
        self.direct = direct
        """Whether it bypasses the resource class at its topic, which is its writer."""
        self.part_of = part_of
        """The description of its atomic batch; empty for a single write."""
        self.wants_existed = wants_existed and event.kind in RETAINED
        """Whether its receipt tells if there was a record."""
        self.examination: Examination | None = None
        """Of a large value: OPEN until it was examined, then what was found; None of others."""
        self.condition = condition
        self.checks: tuple[Decider, ...] = () if condition is None else _CONDITION
        """Checks of the current record, in order."""
        self.on_writer_thread = False
        """Whether a check reads the store, so that it must not run on the event loop."""
        self.deciders: tuple[Decider, ...] = ()
        """Checks of the new value, after a patch is merged, before the server sets times."""
        self.conclude: Conclude | None = None
        """Returns further changes of facts, given its receipt."""
        self.versioned = False
        """Whether it has a version of its writer, so that it may be late."""
        self.follows = False
        """Whether a deletion before it matters to it: its version is compared with this write's."""
        self.depends = (
            condition is not None
            or event.kind == PATCH
            or (shape is not None and (shape.ruled or bool(shape.managed)))
        )
        """Whether the outcome depends on the current record."""
        self.size = WRITE_BYTES
        """Bytes counted until it is answered; the committer adds its payload."""

    def meet(self, condition: Condition | None) -> None:
        """Replace its condition."""
        self.condition = condition
        self.checks = () if condition is None else _CONDITION

    def check(self, check: "Decider") -> None:
        """Add a check of the current record."""
        self.checks += (check,)
        self.depends = True

    def check_first(self, check: "Decider") -> None:
        """Add a check of the current record before all others."""
        self.checks = (check, *self.checks)
        self.depends = True

    def decide(self, decider: "Decider") -> None:
        """Add a check of the new value."""
        self.deciders += (decider,)
        self.depends = True


Step = Callable[[Write], bool | None]
"""A feature's function on a write, on the loop: returns None, or True if it has taken over the
write and will answer it. Raises the Error that refuses it."""
Decider = Callable[[Write, Record | None, "Current"], int]
"""A feature's function on a write and its current record: returns 0, or the version that wins over
it. Runs in the order of commits, without I/O unless the write is decided ``on_writer_thread``, and
again if the batch is retried; may change the event; raises the Error that refuses the write."""
Conclude = Callable[[Receipt], Sequence[Change]]


def _meets(write: Write, record: Record | None, _current: "Current") -> int:
    if write.condition is not None:
        write.condition.check(record, write.event.topic)
    return 0


_CONDITION: Final[tuple[Decider, ...]] = (_meets,)


@dataclass(frozen=True, slots=True)
class Examination:
    """What a detour found about the content of a write."""

    checked: bool = False
    """Whether the content was checked: it is valid with ``content_type`` and ``payload``."""
    content_type: str | None = None
    payload: bytes | None = None
    """The bytes to store, if they are others than were sent."""
    error: Error | None = None
    """Why the content is refused."""


OPEN: Final = Examination()
"""Not examined yet: the write may take a detour."""


class Group:
    """Several atomic writes (B11)."""

    __slots__ = ("conclude", "writes")

    def __init__(
        self,
        writes: list[Write],
        conclude: "Callable[[Sequence[Outcome]], Sequence[Change]] | None" = None,
    ) -> None:
        self.writes = writes
        self.conclude = conclude
        """Returns further changes of facts, given the outcome of each; called by the writer
        thread."""


FactsDone = Callable[[Error | None], None]
"""Called on the event loop with None for durable changes, or the Error."""


class FactsWrite:
    """Pending changes of facts without an event."""

    __slots__ = ("changes", "done", "error", "size")

    def __init__(self, changes: Sequence[Change], done: FactsDone | None) -> None:
        self.changes = changes
        self.done = done
        self.error: Error | None = None
        """Set by the writer thread on failure."""
        self.size = sum([len(change.value or b"") for change in changes])
        """Its size in bytes."""

    @property
    def weight(self) -> int:
        """Its size in entries of a batch."""
        return len(self.changes) or 1


class Current(dict[str, Record | None]):
    """Known current records by topic; None for an absent record.

    ``epoch`` is the log's, ``now`` the newest version. ``tombstones`` has the stamps of deletions
    at topics without a record, to detect late writes; ``tombstone_properties`` has the properties
    that are kept of these deletions, by topic and stamp. A version above ``ceiling`` is from a
    wrong clock, and wins over nothing.
    """

    __slots__ = ("ceiling", "epoch", "now", "tombstone_properties", "tombstones")

    def __init__(self, epoch: str = "", now: int = 0, ceiling: int = 1 << 63) -> None:
        super().__init__()
        self.epoch = epoch
        self.now = now
        self.ceiling = ceiling
        self.tombstones: dict[str, Stamp] = {}
        self.tombstone_properties: dict[tuple[str, Stamp], Mapping[str, object]] = {}
