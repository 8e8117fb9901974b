"""A follower's side of its connection to the sequencer.

It says up to which batch it has the log, and gets what comes after it. A proposal is sent once, and
again on each new connection when the log up to its WELCOME has no answer to it: the writer of that
log has appended in its own term by then, so nothing can come from an earlier one.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Final, Protocol, cast

from rowcast.cluster.forwarding import ForwardingCommitter
from rowcast.cluster.messages import (
    APPLIED,
    BATCH,
    EVENTS,
    HELLO,
    PROPOSAL,
    REFUSED,
    ROWS_WANTED,
    VERDICT,
    WELCOME,
    applied_of,
    events_of,
    pack,
    pack_events,
    unpack,
    verdict_of,
)
from rowcast.cluster.proposals import Proposal
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.journal.follower_store import FollowerStore
from rowcast.log.batch import Batch
from rowcast.log.batch_content import TableOf

log = logging.getLogger("rowcast.cluster")

ANSWER_SECONDS: Final = 10.0
"""How long a writer waits for the log to answer. A new sequencer takes over within some seconds;
who waits longer is told that the outcome is not known."""
UNLOGGED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes that wait for a sequencer that takes nothing, beyond which unlogged events are lost: more
than a proposal has, and seconds of most networks."""


class Timers(Protocol):
    """The part of a loop that a link uses."""

    def call_later(self, delay: float, call: Callable[..., object], *arguments: object) -> object:
        """Call later."""


class FollowerLink:
    """The way of one node to the sequencer, over one connection after the other."""

    problem = "it has no connection yet"
    """Why writes cannot be sent now; empty while they can."""
    refusal = ""
    """Why the sequencer does not let this node follow; empty unless it refused."""

    _waiting: Callable[[], int] = int
    """Returns how many bytes wait for the other side."""
    on_rows_wanted: Callable[[object], None] | None = None
    """Called with the content of ROWS_WANTED."""

    def __init__(
        self,
        committer: ForwardingCommitter,
        store: FollowerStore,
        table_of: TableOf,
        timers: Timers,
        reports: Executor,
        *,
        schema: str = "",
        answer_seconds: float = ANSWER_SECONDS,
        unlogged_bytes_max: int = UNLOGGED_BYTES_MAX,
    ) -> None:
        self._committer, self._store = committer, store
        self._table_of, self._timers = table_of, timers
        self._reports = reports
        """One thread that takes reports on shared tables: it reads those, and waits for batches."""
        self._schema, self._answer_seconds = schema, answer_seconds
        self._send: Callable[[bytes], None] | None = None
        self._welcome = -1
        """The number of the last batch when this connection was welcomed; -1 before."""
        self._term, self._unlogged_bytes_max = 0, unlogged_bytes_max
        self._proposal: Proposal | None = None
        self._sent = False
        """Whether the proposal was sent on this connection."""
        self.on_welcome: Callable[[], None] | None = None
        """Called once all is here that was in the log when a connection began."""
        self.on_events: list[Callable[[Sequence[Event]], None]] = []
        """Called with unlogged events of other nodes."""
        committer.sequencer = self
        committer.on_followed = self._look

    # -- of the committer --------------------------------------------------------------------------

    def propose(self, proposal: Proposal) -> None:
        """Send a proposal, again after each interruption, until it is known what became of it."""
        self._proposal, self._sent = proposal, False
        self._timers.call_later(self._answer_seconds, self._overdue, proposal.number)
        self._send_proposal()

    def _overdue(self, number: int) -> None:
        """Tell writers that the outcome is not known; it may come with the log yet."""
        if self._committer.proposed == number:
            self._proposal = None
            self._committer.give_up(
                Error(
                    Code.BUSY,
                    "the sequencer has not answered within "
                    f"{self._answer_seconds:g} seconds: it is not known whether this was written; "
                    "read before you repeat it",
                    retry_after_seconds=1,
                )
            )

    def pass_on(self, events: Sequence[Event]) -> None:
        """Have other nodes announce unlogged events.

        Those of a lost connection are lost, and those that find too much waiting before them.
        """
        there = self._send is not None and not self.problem
        if there and self._waiting() < self._unlogged_bytes_max:
            self.tell(pack_events(events))

    def tell(self, message: bytes) -> None:
        """Send a message, if there is a connection."""
        if self._send is not None:
            self._send(message)

    def _send_proposal(self) -> None:
        proposal = self._proposal
        if proposal is None or self._sent or self.problem or self._send is None:
            return
        if self._committer.proposed != proposal.number:
            self._proposal = None
            return
        self._sent = True
        self._send(pack(PROPOSAL, proposal.pack()))

    # -- of the connection -------------------------------------------------------------------------

    def connected(self, send: Callable[[bytes], None], waiting: Callable[[], int] = int) -> None:
        """Begin a connection; ``send`` takes a message, ``waiting`` tells how many bytes wait."""
        self._send, self._welcome, self._sent = send, -1, False
        self._waiting = waiting
        self.problem = "it has not answered yet"
        hello = (self._committer.node, self._store.epoch, self._schema, self._store.number)
        send(pack(HELLO, hello))

    def disconnected(self, why: str = "the connection was lost") -> None:
        """End a connection; another one may follow."""
        self._send = None
        self.problem = why

    def received(self, data: bytes) -> None:
        """Take a message. Raises an Error after which the connection is of no use."""
        kind, content = unpack(data)
        if kind == REFUSED:
            self.refusal = str(content)
            raise Error(Code.CONFLICT, self.refusal)
        if kind == WELCOME:
            self._welcomed(*cast("tuple[int, int]", tuple(cast("Sequence[int]", content))))
        elif self._welcome < 0:
            raise Error(Code.INVALID, "a node has sent something before its welcome")
        elif kind == BATCH:
            self._committer.follow(Batch.read(cast("bytes", content)))
        elif kind == VERDICT:
            number, verdict, until = verdict_of(content)
            self._committer.judge(number, verdict, until)
        elif kind == APPLIED:
            self._reports.submit(self._store.note_applied, applied_of(content))
        elif kind == EVENTS:
            events = events_of(content, self._table_of)
            for call in self.on_events:
                call(events)
        elif kind == ROWS_WANTED and self.on_rows_wanted is not None:
            self.on_rows_wanted(content)

    def _welcomed(self, term: int, number: int) -> None:
        if term < self._term or number < self._store.number:
            raise Error(Code.CONFLICT, "this node numbers no more: another one has since appended")
        self.refusal = ""
        self._term, self._welcome = term, number
        self._look()

    def _look(self) -> None:
        """Once all is here that was in the log at the beginning, writes can be sent."""
        if self.problem and self._committer.followed >= self._welcome >= 0:
            self.problem = ""
            if self.on_welcome is not None:
                self.on_welcome()
        if not self._sent:
            self._send_proposal()
