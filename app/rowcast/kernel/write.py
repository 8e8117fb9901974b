"""A write on its way: the event to be, the conditions it must meet, and who waits for the answer.

Data only; ``commit.py`` carries it out. It must not know how the answer is told: ``done`` is called
on the event loop with a ``Receipt`` or an ``Error``.
"""

from asyncio import Future
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from rowcast.core.callers import Caller
from rowcast.core.errors import Error
from rowcast.core.events import RETAINED, Event, Record
from rowcast.core.memory_limits import WRITE_BYTES
from rowcast.features.retained.retaining import Quota
from rowcast.features.rights.row_policy import TableSight
from rowcast.kernel.last_write_wins import Stamp
from rowcast.rows.compiled_table import Shape
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
        "condition",
        "done",
        "event",
        "group",
        "job",
        "logged",
        "mark",
        "patch",
        "quota",
        "sent",
        "shape",
        "sight",
        "size",
        "stamped",
    )

    def __init__(
        self,
        event: Event,
        caller: Caller,
        done: Done,
        condition: Condition | None = None,
        shape: Shape | None = None,
        patch: object = None,
        *,
        logged: bool = True,
        group: "Group | None" = None,
        changes: Sequence[Change] = (),
    ) -> None:
        self.event = event
        self.caller = caller
        self.done = done
        self.condition = condition
        self.shape = shape
        self.patch = patch
        self.logged = logged
        self.group = group
        self.changes = changes
        """Facts that become true if and only if its outcome is a Receipt."""
        self.quota: Quota | None = None
        """Counts the messages that are kept, where there may not be any number."""
        self.mark: tuple[str, str, bytes] | None = None
        """Owner and name of the fact that remembers its receipt, if it may come again, and what
        the value of that fact begins with."""
        self.sight: TableSight | None = None
        """What its writer sees of the table and may write; None: all of it."""
        self.sent: object = None
        """The value as it was sent, where that matters to its writer's rights."""
        self.job = ""
        """The job whose result it is part of: what is as it was makes no event, and it takes away
        only what it wrote itself."""
        self.stamped = False
        """Whether it may be late: a retained one that brought its version with it."""
        self.size = WRITE_BYTES
        """Bytes that it holds until it is answered; the committer counts its payload too."""

    @property
    def queued(self) -> bool:
        """Whether it goes through the writer thread: to be logged, or to be judged there."""
        return self.logged or (self.shape is not None and self.shape.ruled)

    @property
    def depends(self) -> bool:
        """Whether the outcome depends on the current record."""
        shape = self.shape
        return (
            self.condition is not None
            or self.stamped
            or self.job != ""
            or self.quota is not None
            or (self.mark is not None and self.event.kind in RETAINED)
            or self.event.kind == "patch"
            or self.sight is not None
            or (shape is not None and (bool(shape.managed) or shape.ruled))
        )


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


class Keeping:
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
