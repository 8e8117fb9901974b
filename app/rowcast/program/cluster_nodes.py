"""A node of a cluster in its two roles: the sequencer, and those that follow it.

The sequencer is a whole server, whose log is kept by an engine on several machines. The
others are what workers are, with tables of their own.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from rowcast.bus.bus import Bus
from rowcast.cluster.clocks import Clocks
from rowcast.cluster.followed_filters import FilterSender
from rowcast.cluster.forwarding import ForwardingCommitter
from rowcast.cluster.frames import Frames
from rowcast.cluster.lease_keeper import Holder, LeaseKeeper
from rowcast.cluster.ports import SequencerPort, follow
from rowcast.cluster.remote_rows import RemoteRows
from rowcast.cluster.sequencer_links import SequencerLinks
from rowcast.cluster.sequencing import SequencingCommitter
from rowcast.cluster.table_copies import TableCopies
from rowcast.cluster.unlogged import UnloggedEvents
from rowcast.core.clock import HybridClock, WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.topics import RULES, TopicFilter
from rowcast.doors.http.edge import Edge
from rowcast.features.rights.feature import AccessRights
from rowcast.journal.applier_child import spawn_applier
from rowcast.journal.follower_store import FollowerStore
from rowcast.journal.journaled_store import JournaledStore
from rowcast.journal.node_opening import open_follower, open_sequencer, other_batch
from rowcast.journal.written_schema import begin_term
from rowcast.kernel.feature import Background
from rowcast.kernel.kernel import Kernel
from rowcast.log.engine import Engine
from rowcast.log.replicated_log import ReplicatedLog
from rowcast.net.fork_server import Processes
from rowcast.net.relay import Client
from rowcast.program.cluster_checks import agreed
from rowcast.program.config import Config
from rowcast.program.features import FEATURES
from rowcast.program.following import Following, without_topics
from rowcast.program.main import Application
from rowcast.program.node_changes import PATH, Group, NodeChanges, changing_rows
from rowcast.program.relaying import Relays
from rowcast.program.rule_follower import RuleFollower
from rowcast.program.settings.cluster import beside
from rowcast.program.shared_users import sharing
from rowcast.reads.record_cache import RecordCache
from rowcast.routes.figure_rows import listed_rows
from rowcast.store.sql_database import file_of
from rowcast.writes.commit import Committer

log = logging.getLogger("rowcast.cluster")

RETRY_SECONDS: Final = 0.2
"""Between two attempts to reach the sequencer, which may be starting."""
LAG_LOOK_SECONDS: Final = 0.05
"""How often it is seen whether the tables are behind: half of how far they may be, in time."""
REFUSED_SECONDS: Final = 2.0
"""The same after it has refused this node, which only an operator changes."""
WELCOME_SECONDS: Final = 10.0
"""How long a follower waits before it opens its port: a new one of the others takes over
in less. Then it opens, reads what it has, and refuses writes."""


@dataclass(frozen=True, slots=True)
class Membership:
    """What a node knows of its cluster, in either role."""

    engine: Engine
    keeper: LeaseKeeper
    node: str
    life: str
    key: bytes = field(repr=False)
    place: tuple[str, int]
    """Where it listens for those that follow."""
    nodes: Callable[[], Mapping[str, str]]
    """Returns the addresses of all nodes by their names. Blocks; raises BUSY."""
    group: Group | None = None
    """The servers of the nodes, where those have any."""
    accepting: ssl.SSLContext | None = None
    connecting: ssl.SSLContext | None = None
    problem: Callable[[], str] = str
    """Returns why this node's part of the engine does not keep the log; empty if it does."""


def _row(
    node: str,
    role: str,
    number: int | None,
    place: tuple[str, int],
    *,
    up: bool,
    behind: int | None = 0,
    ahead: float | None = None,
) -> dict[str, object]:
    """Return the row of a node below ``$SYS/cluster/nodes``; ``behind`` counts batches.

    ``number`` and ``behind`` are None for a node that is not connected: nobody knows what it has.
    ``ahead`` is by how many seconds its clock is ahead of the agreed time; None if nobody knows.
    """
    return {
        "node": node,
        "role": role,
        "connected": up,
        "batch": number,
        "behind": behind,
        "address": f"{place[0]}:{place[1]}",
        "clock_ahead": None if ahead is None else round(ahead, 1),
    }


class SequencerNode(Application):
    """The sequencer."""

    def __init__(
        self, config: Config, member: Membership, processes: Processes, problem: Callable[[], None]
    ) -> None:
        self._member, self._problem = member, problem
        features = (*FEATURES, sharing(member.key))
        super().__init__(config, features=features, processes=processes)

    def _open_store(self) -> JournaledStore:
        def made(log: ReplicatedLog) -> None:
            self.log = log
            log.on_problem = self._problem

        config = self.config
        return open_sequencer(
            config.database_url,
            self._member.engine,
            self._now,
            self.schema.text,
            config.log.tail,
            applier=partial(spawn_applier, self._processes),
            made=made,
        )

    def _make_committer(self, bus: Bus, cache: RecordCache, clock: HybridClock) -> Committer:
        parts = (self.store, bus, cache, clock, self._threads.writer, self.config.memory.bounds)
        return SequencingCommitter(*parts, tables=self.schema.tables, confirms=True)

    def _make_edge(self) -> Edge:
        edge = super()._make_edge()
        edge.settings.readiness.add("engine", self._member.problem)
        edge.settings.readiness.warnings["clock"] = lambda: self._clocks.problem
        return edge

    def _removal_clock(self) -> WallClock:
        """Return a clock by which no node's wrong clock removes anything too early."""
        peers = self.config.cluster.addresses

        def changed() -> None:
            for call in self.kernel.on_removal_time:
                call()

        self._clocks = Clocks(self._now, time.monotonic, lambda: peers, changed)
        return self._clocks

    async def _start_workers(self) -> None:
        """Let other nodes follow."""
        kernel, member = self.kernel, self._member
        committer = kernel.committer
        assert isinstance(committer, SequencingCommitter)  # noqa: S101 - made above
        tables = {table.name: table for table in self.schema.tables}
        self.links = SequencerLinks(
            committer,
            self.store,
            self.log,
            tables.get,
            schema=agreed(self.config, self.schema.text),
        )
        FilterSender(kernel.durable, self.links, self.schema.tables)
        unlogged = UnloggedEvents(committer, self.links.pass_on)
        self.links.on_events.append(unlogged.take)
        rights = self.features["rights"]
        assert isinstance(rights, AccessRights)  # noqa: S101 - the tuple of features says so
        kernel.bus.add(TopicFilter(f"{RULES}/+"), RuleFollower(rights.rules))
        await self._list_nodes(kernel)
        copies = TableCopies(file_of(self.config.database_url))
        self._closing.push_async_callback(copies.stop)
        elsewhere = RemoteRows(self.links, member.node)
        self.doors.list_streams_of(elsewhere)
        self._ask_clocks(elsewhere)
        self.links.on_copy = copies.begin
        port = SequencerPort(self.links, member.key, member.accepting)
        port.on_relay = self.doors.relayed
        self._closing.callback(port.stop)
        await port.start(*member.place)

    def _ask_clocks(self, elsewhere: RemoteRows) -> None:
        asking = Background()
        self._closing.push_async_callback(asking.stop)
        asking.run(self._clocks.ask(elsewhere, self.links.connected))

    async def _list_nodes(self, kernel: Kernel) -> None:
        """Have nodes join and leave."""
        member = self._member
        nodes = await asyncio.to_thread(member.nodes)
        self.changes = NodeChanges(
            member.group, nodes, self.links, lambda: self.log.head.number, member.node
        )
        self._clocks.listed = lambda: self.changes.nodes
        kernel.rows(PATH, changing_rows(self.changes, self._rows))

    async def _restore(self) -> None:
        """Begin this node's term first: from here on no other one can append."""
        await self._on_writer(begin_term, self.store, self.schema.text)
        await super()._restore()

    def _rows(self) -> dict[str, dict[str, object]]:
        member, head = self._member, self.log.head.number
        sent, clocks = self.links.sent(), self._clocks.ahead()
        rows = {}
        for name, address in self.changes.nodes.items():
            number, place = sent.get(name), beside(address)
            behind = None if number is None else head - number
            up, ahead = name in sent, clocks.get(name)
            rows[name] = _row(name, "follower", number, place, up=up, behind=behind, ahead=ahead)
        own = _row(member.node, "sequencer", head, member.place, up=True, ahead=clocks[""])
        rows[member.node] = own | {"term": self.log.term}
        return rows


class FollowerNode(Following):
    """A follower."""

    def __init__(
        self,
        config: Config,
        member: Membership,
        processes: Processes,
        problem: Callable[[], None] | None = None,
        *,
        patient: bool = True,
    ) -> None:
        self._member, self._starts, self._problem = member, processes, problem
        self._welcome_seconds = WELCOME_SECONDS if patient else 0.0
        name, more = f"{member.node}/{member.life}", [sharing(member.key)]
        super().__init__(without_topics(config), name, more)
        self._relays = Relays(member.keeper, member.life, member.key, member.connecting)
        self._frames: Frames | None = None
        self._followed = ""
        """The life of the node that this one is connected to."""

    def _open_store(self) -> FollowerStore:
        config = self.config
        store = open_follower(
            config.database_url,
            self._member.engine.epoch,
            self._now,
            self.schema.text,
            config.log.tail,
            applier=partial(spawn_applier, self._starts),
        )
        store.on_other_schema = self._problem
        return store

    @property
    def differs(self) -> bool:
        """Whether the log goes on under another schema, so that this role ends."""
        return isinstance(self.store, FollowerStore) and self.store.differs

    def _make_edge(self) -> Edge:
        edge = super()._make_edge()
        edge.settings.readiness.add("engine", self._member.problem)
        return edge

    async def start(self) -> None:
        """Follow the log, and open the port."""
        await super().start()
        self._closing.callback(self._refuse)  # first of all: who waits would hold up the end

    def _refuse(self) -> None:
        """Tell writers that wait that this node does not learn what becomes of their writes."""
        committer = self.kernel.committer
        assert isinstance(committer, ForwardingCommitter)  # noqa: S101 - of every follower
        self.link.disconnected("it ends, or is about to become the sequencer")
        committer.give_up(
            Error(
                Code.BUSY,
                "this node ends, or is about to become the sequencer: it is not known whether this "
                "was written; read before you repeat it",
                retry_after_seconds=1,
            )
        )

    async def _open_far(
        self, client: Client, protocol: asyncio.Protocol, seconds: float
    ) -> asyncio.Transport:
        return await self._relays.open(client, protocol, seconds)

    async def _follow(self) -> None:
        """Connect, again and again; wait for a while until all is here that was in the log."""
        self._declare(self.kernel)
        welcome = asyncio.Event()
        self.link.on_welcome = welcome.set
        connecting = asyncio.create_task(self._keep_connected(), name="cluster")
        self._closing.push_async_callback(self._leave, connecting)
        loop = asyncio.get_running_loop()
        until = loop.time() + self._welcome_seconds
        while not (welcome.is_set() or self._member.keeper.held or self.link.refusal):
            if loop.time() > until:
                log.warning("there is no sequencer yet: %s", self.link.problem)
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS):
                    await welcome.wait()

    async def _leave(self, connecting: "asyncio.Task[None]") -> None:
        connecting.cancel()
        await asyncio.wait((connecting,))
        if self._frames is not None:
            self._frames.close()

    async def _keep_connected(self) -> None:
        said = ""
        while True:
            holder = self._member.keeper.holder
            if holder is not None and holder.life != self._member.life:
                lost = asyncio.Event()
                self._followed = holder.life
                try:
                    if not (problem := await self._parted()):
                        await self._follow_node(holder, lost)
                    self.link.refusal = problem or self.link.refusal
                except Error as error:
                    log.debug("node %s: %s", holder.node, error.message)
                    self._relays.leave_others("")  # what clients have there goes nowhere either
                if self.link.refusal not in {"", said}:
                    said = self.link.refusal
                    log.error("this node does not follow: %s", said)
            await asyncio.sleep(REFUSED_SECONDS if self.link.refusal else RETRY_SECONDS)

    async def _parted(self) -> str:
        """Return how this node's past differs from the log; empty if not, or nobody can tell now.

        The engine may have been restored to an earlier state, and another node have written since.
        """
        store = self.store
        assert isinstance(store, FollowerStore)  # noqa: S101 - opened above
        known = self._member.engine, store.number, store.checksum
        try:
            problem = await asyncio.to_thread(other_batch, *known)
        except Error:  # the sequencer may be reached all the same
            return ""
        return problem and f"its tables are no longer those of the log: {problem}"

    async def _follow_node(self, holder: Holder, lost: asyncio.Event) -> None:
        member = self._member
        to = holder.host, holder.port, member.key
        self._frames = await follow(*to, self.link, lost.set, member.connecting)
        await self._read_until(lost)

    async def _read_until(self, lost: asyncio.Event) -> None:
        """Read no more than the tables keep up with, until the connection is lost."""
        frames, waiting = self._frames, asyncio.ensure_future(lost.wait())
        try:
            while not lost.is_set() and frames is not None:
                (frames.pause if self.store.is_behind else frames.resume)()
                await asyncio.wait((waiting,), timeout=LAG_LOOK_SECONDS)
        finally:
            waiting.cancel()

    def look_again(self) -> None:
        """Leave a node that does not hold the lease any more, with all that goes there.

        It may be stopped, and not closed.
        """
        holder, frames = self._member.keeper.holder, self._frames
        if holder is None:
            return
        self._relays.leave_others(holder.life)
        if frames is not None and holder.life != self._followed:
            frames.close()

    def _declare(self, kernel: Kernel) -> None:
        kernel.rows(PATH, listed_rows(PATH, self._rows))

    def _rows(self) -> dict[str, dict[str, object]]:
        member, holder = self._member, self._member.keeper.holder
        up = not self.link.problem
        store = self.store
        assert isinstance(store, FollowerStore)  # noqa: S101 - opened above
        number, rows = store.number, {}
        if holder is not None:
            place = (holder.host, holder.port)
            rows[holder.node] = _row(holder.node, "sequencer", number, place, up=up)
        rows[member.node] = _row(member.node, "follower", number, member.place, up=up)
        return rows
