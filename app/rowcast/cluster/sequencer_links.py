"""The sequencer's side of its connections to followers.

Every batch that it appends goes to each of them, in order; one that is behind, or slow, is sent
what it lacks from the log. Each proposal is judged once, however often it comes.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final, cast

from rowcast.cluster.agreement import difference
from rowcast.cluster.messages import (
    BATCH,
    COPY,
    EVENTS,
    HELLO,
    PROPOSAL,
    REFUSED,
    ROWS,
    WELCOME,
    events_of,
    pack,
    pack_events,
    pack_verdict,
    unpack,
)
from rowcast.cluster.proposals import Proposal
from rowcast.cluster.sequencing import SequencingCommitter, Verdict
from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.journal.journaled_store import JournaledStore
from rowcast.log.batch import Batch
from rowcast.log.batch_content import TableOf
from rowcast.log.log import Log

log = logging.getLogger("rowcast.cluster")

READ_BYTES: Final = 1024 * 1024
"""Of the log at a time for a node that is behind: its transport holds no more of it."""
LIVES_MAX: Final = 1_000
"""Lives of nodes whose last proposal is remembered. Each has one at a time, and asks about it only
until it has its answer; a forgotten one would have to be older than a thousand others."""


REPORTS_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of reports on the tables that wait for a process which takes nothing: hours of those of some
tables, and minutes of those of thousands. None can be left out, each has what changed. Beyond it
the connection ends, and the process, when it goes on, begins anew."""


class _Life:
    """One life of a node: its last proposal, and its connection."""

    __slots__ = ("caller", "link", "number", "until", "verdict")

    def __init__(self, node: str) -> None:
        self.caller = Caller(node, ALL, "server")
        """Stands for all its clients, where bytes of writes are counted."""
        self.link: SequencerLink | None = None
        self.number = 0
        self.verdict: Verdict | None = None
        self.until = 0


class SequencerLinks:
    """All followers of this sequencer."""

    on_greeted: "Callable[[SequencerLink], None] | None" = None
    """Called with the connection of a node that was just welcomed."""

    def __init__(
        self,
        committer: SequencingCommitter,
        store: JournaledStore,
        appended: Log,
        table_of: TableOf,
        *,
        schema: str = "",
        reports_bytes_max: int = REPORTS_BYTES_MAX,
    ) -> None:
        self.committer, self.reports_bytes_max = committer, reports_bytes_max
        self.store = store
        self.log = appended
        self.schema = schema
        self._table_of = table_of
        self._loop = asyncio.get_running_loop()
        self._lives: OrderedDict[str, _Life] = OrderedDict()
        self.links: dict[SequencerLink, None] = {}
        """Open connections, in the order in which they came."""
        self.on_events: list[Callable[[Sequence[Event]], None]] = []
        """Called with unlogged events of followers."""
        self.applied: bytes | None = None
        """The newest report of the applier, for nodes that share the tables."""
        self.on_copy: Callable[[SequencerLink], None] | None = None
        """Called with the connection of a node that asks for a copy of the tables."""
        self.check_node: Callable[[str], str] = _nothing_of
        """Returns why a node of a name is not to follow; empty if it may."""
        self.on_rows: Callable[[object], None] = _take_nothing
        """Called with the content of ROWS."""
        store.on_appended = self._appended

    def begin(self) -> None:
        """Begin this node's term, on the writer thread, so that no earlier writer can append.

        Raises BUSY when another node has begun a later one.
        """
        self.store.begin_term()

    def connected(self) -> "dict[str, SequencerLink]":
        """Return the connections of followers, by their names."""
        return {
            node.partition("/")[0]: life.link
            for node, life in self._lives.items()
            if life.link is not None
        }

    def sent(self) -> dict[str, int]:
        """Return the number of the last batch that each connected node was sent, by its name."""
        return {node: link.number for node, link in self.connected().items()}

    def link(self, send: Callable[[bytes], None]) -> "SequencerLink":
        """Begin a connection of a node; ``send`` takes a message."""
        link = SequencerLink(self, send)
        self.links[link] = None
        return link

    def _appended(self, batch: Batch) -> None:
        """Pass on a batch that is durable; called on the writer thread."""
        self._loop.call_soon_threadsafe(self._spread, batch)

    def _spread(self, batch: Batch) -> None:
        message = pack(BATCH, batch.data)
        for link in tuple(self.links):
            link.offer(batch.number, message)

    def pass_on(self, events: Sequence[Event], beside: "SequencerLink | None" = None) -> None:
        """Have the nodes announce unlogged events, except the one that sent them."""
        message = pack_events(events)
        for link in tuple(self.links):
            if link is not beside and not link.full:
                link.tell(message)

    def events(self, content: object, sender: "SequencerLink") -> None:
        """Take unlogged events of a node: announce them here, and pass them on."""
        events = events_of(content, self._table_of)
        for call in self.on_events:
            call(events)
        self.pass_on(events, sender)

    def greeted(self, link: "SequencerLink") -> None:
        """Tell a new node how far the tables are, and what else it must know."""
        if self.applied is not None:
            link.tell(self.applied)
        if self.on_greeted is not None:
            self.on_greeted(link)

    def tell_applied(self, message: bytes) -> None:
        """Tell nodes that share the tables how far those are."""
        self.applied = message
        for link in tuple(self.links):
            link.report(message)

    # -- proposals ---------------------------------------------------------------------------------

    def life(self, node: str, link: "SequencerLink") -> _Life:
        """Return what is known of a life of a node, whose connection this now is."""
        life = self._lives.pop(node, None) or _Life(node)
        self._lives[node] = life
        while len(self._lives) > LIVES_MAX:
            self._lives.popitem(last=False)
        life.link = link
        return life

    def propose(self, life: _Life, proposal: Proposal) -> None:
        """Have a proposal judged, unless it was; then its verdict is told again."""
        if proposal.number > life.number:
            life.number, life.verdict = proposal.number, None
            judged = partial(self._judged, life, proposal.number)
            self.committer.judge(proposal, life.caller, judged)
        elif proposal.number == life.number and life.verdict is not None:
            self._send(life)

    def _judged(self, life: _Life, number: int, verdict: Verdict) -> None:
        if number == life.number:
            life.verdict, life.until = verdict, self.log.head.number
            self._send(life)

    @staticmethod
    def _send(life: _Life) -> None:
        """Tell a node what no batch tells it."""
        verdict = life.verdict
        if life.link is not None and verdict is not None and not verdict.written:
            life.link.tell(pack_verdict(life.number, verdict, life.until))


class SequencerLink:
    """One connection to a follower."""

    def __init__(self, links: SequencerLinks, send: Callable[[bytes], None]) -> None:
        self._links = links
        self._send = send
        self._life: _Life | None = None
        self.on_close: Callable[[], None] | None = None
        """Called when this side ends the connection."""
        self.on_cut: Callable[[], None] = _nothing
        """Called to end it at once, with all that waits to be sent."""
        self._waiting_reports = 0
        """How many bytes of reports it was sent since it was full."""
        self.number = 0
        """The number of the last batch that was sent."""
        self._reading = False
        self._open = True
        self.full = False
        """Whether its transport has no room now."""
        self.on_room: Callable[[], None] = _nothing
        """Called when it has room again, and when it is closed."""

    @property
    def is_open(self) -> bool:
        """Whether the connection is there."""
        return self._open

    def send(self, message: bytes) -> None:
        """Send a message to a node, welcome or not."""
        if self._open:
            self._send(message)

    def received(self, data: bytes) -> None:
        """Take a message. Raises an Error after which the connection is of no use."""
        kind, content = unpack(data)
        if kind == COPY and self._life is None and self._links.on_copy is not None:
            self._links.on_copy(self)
        elif kind == HELLO:
            self._greet(*cast("tuple[str, str, str, int]", tuple(cast("list[object]", content))))
        elif self._life is None:
            raise Error(Code.INVALID, "a node has sent something before its HELLO")
        elif kind == PROPOSAL:
            self._links.propose(self._life, Proposal.unpack(cast("bytes", content)))
        elif kind == EVENTS:
            self._links.events(content, self)
        elif kind == ROWS:
            self._links.on_rows(content)

    def _greet(self, node: str, epoch: str, schema: str, after: int) -> None:
        links, log_ = self._links, self._links.log
        problem = links.check_node(node.partition("/")[0])
        if problem:
            pass
        elif epoch != links.store.epoch:
            problem = f"its tables are of the log {epoch}, and this log is {links.store.epoch}"
        elif schema != links.schema:
            problem = difference(schema, links.schema)
        elif after > log_.head.number:
            problem = "it is ahead of this node, which is behind the log"
        elif after < log_.trimmed:
            problem = (
                f"batches up to {log_.trimmed} are gone, and it has them up to {after}; start it "
                "again: it gets a copy of the tables of another node"
            )
        if problem:
            self._send(pack(REFUSED, f"a node cannot follow: {problem}"))
            raise Error(Code.CONFLICT, problem)
        self.number = after
        self._life = links.life(node, self)
        self._send(pack(WELCOME, (log_.term, log_.head.number)))
        links.greeted(self)
        self.catch_up()

    def tell(self, message: bytes) -> None:
        """Send a message, if it is welcome."""
        if self._open and self._life is not None:
            self._send(message)

    def report(self, message: bytes) -> None:
        """Send a report on the tables; end the connection where too many wait."""
        self._waiting_reports = self._waiting_reports + len(message) if self.full else 0
        if self._waiting_reports > self._links.reports_bytes_max:
            log.error("a process has taken nothing for long, and its connection ends")
            self.close()
            self.on_cut()
            return
        self.tell(message)

    def offer(self, number: int, message: bytes) -> None:
        """Send the next batch; one that is behind gets it from the log."""
        if self._life is None or self._reading or self.full or number <= self.number:
            return
        if number == self.number + 1:
            self.number = number
            self.tell(message)
        else:
            self.catch_up()

    def catch_up(self) -> None:
        """Send what it lacks of the log, as far as its transport has room."""
        if not self.full:
            self.on_room()
        if self._reading or self.full or not self._open or self._life is None:
            return
        if self.number >= self._links.log.head.number:
            return
        self._reading = True
        reading = self._links.committer.on_writer(
            partial(self._links.log.read, self.number, READ_BYTES)
        )
        loop = asyncio.get_running_loop()
        reading.add_done_callback(lambda it: loop.call_soon_threadsafe(self._read, it))

    def _read(self, reading: "Future[list[Batch]]") -> None:
        self._reading = False
        if not self._open:
            return
        error = reading.exception()
        if error is not None:  # trimmed meanwhile, or damaged: it is refused when it comes again
            log.error("a node cannot be sent the log: %s", error)
            self.close()
            return
        for batch in reading.result():
            self.number = batch.number
            self.tell(pack(BATCH, batch.data))
        self.catch_up()

    def close(self) -> None:
        """End the connection."""
        was_open, self._open = self._open, False
        self.on_room()
        self._links.links.pop(self, None)
        if self._life is not None and self._life.link is self:
            self._life.link = None
        if was_open and self.on_close is not None:
            self.on_close()


def _nothing() -> None:
    """Do nothing."""


def _nothing_of(_node: str) -> str:
    """Find nothing wrong with a node."""
    return ""


def _take_nothing(_content: object) -> None:
    """Do nothing with it."""
