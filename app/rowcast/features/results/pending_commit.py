"""One commit of a result: what was asked for, what is counted, and the facts that go with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowcast.core.events import DELETE
from rowcast.features.results.hook_notices import HookNotices, PendingNotice
from rowcast.features.results.memory import Memory, ResultReceipt
from rowcast.features.results.own_topics import NewTopics
from rowcast.results.result_changes import Changes
from rowcast.store.store import Change
from rowcast.writes.write import FIRE_AND_FORGET, Outcome, Receipt

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Order:
    """A commit request."""

    upload: str
    table: str
    job: str
    cut: str
    parts: tuple[str, ...]
    rows: int
    replace: bool
    again: bool


class PendingCommit:
    """One pending commit: its receipt, and the changes of facts that go with it."""

    def __init__(
        self,
        order: Order,
        memory: Memory,
        made: Changes,
        names: NewTopics | None,
        kernel: "Kernel",
        notices: HookNotices,
    ) -> None:
        self._order = order
        self._names = names
        self._memory = memory
        self._kernel = kernel
        self._notices = notices
        self._pending: PendingNotice | None = None
        self.made = made
        self.caller = made.author.caller
        self.written = self.removed = 0
        """How many rows were written, and how many records removed."""
        self.changes: list[Change] = []
        self.receipt: ResultReceipt

    def count(self, outcomes: Sequence[Outcome]) -> None:
        """Count what was written."""
        for outcome in outcomes:
            if isinstance(outcome, Receipt) and not outcome.late:
                self.removed += outcome.event.kind == DELETE
                self.written += outcome.event.kind != DELETE

    def conclude(self, last: int) -> Sequence[Change]:
        """Return the changes of facts, once all is counted; ``last`` is the last number, or 0."""
        order, rows = self._order, self.made.topics.count
        self.receipt = ResultReceipt(
            job=order.job,
            cut=order.cut,
            upload=order.upload,
            table=order.table,
            rows=rows,
            written=self.written,
            unchanged=rows - self.written,
            removed=self.removed,
            position=self._kernel.cursor(last) if self.written or self.removed else "",
            number=self._memory.next,
        )
        self.changes = self._memory.changes(self.receipt)
        if self._names is not None:
            path = self._kernel.registry.shapes[order.table].table.path or ""
            self.changes += self._names.changes(path, rows)
        return self.changes

    def pending_notices(self, after: int, last: int) -> Sequence[Change]:
        """Return what is kept until hooks are told of staged rows, if there are any."""
        author = self.made.author
        if author.notifying(self._kernel) is FIRE_AND_FORGET:
            return ()
        self._pending = PendingNotice(tuple(self.made.tables), after, last, author.caller)
        return (self._pending.fact(),)

    def seen(self) -> None:
        """Begin to tell them."""
        if self._pending is not None:
            self._notices.add(self._pending)
