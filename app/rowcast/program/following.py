"""A process that follows the log of the sequencer, and serves declared tables over HTTP.

It decides writes on what it has followed, and has them numbered elsewhere
(``cluster/forwarding.py``). It has no MQTT, and only the features that are the same in each
process; what needs one place it refuses. Workers (``worker.py``) and the nodes of a cluster that
follow (``cluster_follower.py``) differ in their tables, and in how they reach the sequencer.
"""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NoReturn, cast

from rowcast.bus.bus import Bus
from rowcast.cluster.clocks import PATH as CLOCK
from rowcast.cluster.clocks import ClockAnswer
from rowcast.cluster.followed_filters import PATH as FILTERS
from rowcast.cluster.followed_filters import FilterReceiver
from rowcast.cluster.follower_link import FollowerLink
from rowcast.cluster.forwarding import NUMBERED_ELSEWHERE, ForwardingCommitter
from rowcast.cluster.remote_rows import RowAnswers, RowsOf
from rowcast.cluster.unlogged import UnloggedEvents
from rowcast.core.callers import ALL, Caller
from rowcast.core.clock import HybridClock
from rowcast.core.errors import Code, Error
from rowcast.core.topics import RULES, TopicFilter
from rowcast.doors.http.edge import Edge
from rowcast.doors.http.streams.rows import STREAMS, stream_rows
from rowcast.doors.mqtt.connections.relay import MqttRelay
from rowcast.features.compaction.compacted_reads import CompactedTables
from rowcast.features.computed.computation import Computation
from rowcast.features.derived.feature import DerivedTables
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.idempotency.idempotent_writes import MARKS
from rowcast.features.rights.feature import AccessRights
from rowcast.features.rollups.feature import Rollups
from rowcast.journal.follower_store import FollowerStore
from rowcast.kernel.kernel import Kernel
from rowcast.net.relay import Client
from rowcast.program.cluster_checks import agreed
from rowcast.program.config import Config
from rowcast.program.features import Plug, plugs_of
from rowcast.program.main import Application
from rowcast.program.operations import make_ready
from rowcast.program.relaying_edge import RelayingEdge
from rowcast.program.rule_follower import RuleFollower
from rowcast.reads.record_cache import RecordCache
from rowcast.routes.figure_rows import figure_rows
from rowcast.routes.system_rows import SystemRows
from rowcast.writes.commit import Committer
from rowcast.writes.write import Write

log = logging.getLogger("rowcast.cluster")

SAME_EVERYWHERE: Final = frozenset(
    {
        "accounts",
        "archive",
        "audit",
        "computed",
        "heartbeats",
        "history",
        "late_writes",
        "live_queries",
        "overload",
        "replay",
        "rights",
        "sites",
        "transactions",
        "unfit_values",
    }
)
"""The features of a follower: those that keep nothing in memory, or what each process
reads for itself (users, from their file), or hears with the log (rules)."""
REFUSING: Final = (
    Plug("derived", lambda it: DerivedTables(it.schema.tables, None)),
    Plug("rollups", lambda it: Rollups(it.schema.tables, keeps=False)),
)
"""Features whose tables clients do not write, at any process; the rows are kept at one."""
READING: Final = (Plug("compaction", lambda it: CompactedTables(it.store, it.schema.tables)),)
"""Features that only read what the sequencer has noted in the log."""


class Following(Application):
    """One life of a follower; ``node`` names it, and no other has that name."""

    edge_class = RelayingEdge

    def __init__(self, config: Config, node: str, more: Sequence[Plug] = ()) -> None:
        self._node = node
        self._mqtt: MqttRelay | None = None
        same = plugs_of(SAME_EVERYWHERE)
        super().__init__(config, features=[*same, *REFUSING, *READING, *more])

    def _load_resources(self) -> None:
        """Note what the project's own code is asked for: it runs in the sequencer's process."""
        super()._load_resources()
        self._has_hooks = self.hooks.registered
        computing = self.hooks.collected(Computation)  # for readers, who are everywhere
        self.hooks = Hooks()
        self.hooks.collected(Computation).extend(computing)

    def _make_committer(self, bus: Bus, cache: RecordCache, clock: HybridClock) -> Committer:
        store, bounds = cast("FollowerStore", self.store), self.config.memory.bounds
        writer = self._threads.writer
        return ForwardingCommitter(store, bus, cache, clock, writer, bounds, node=self._node)

    async def start(self) -> None:
        """Follow the log, and open the port. Raises Error when either fails."""
        self._closing.callback(self._threads.stop)
        try:
            self._closing.push_async_callback(self._on_writer, self.store.close)
            await self._on_writer(self.store.open, self.schema.tables)
            self._build()
            self._make_link()
            await self._follow()
            for feature in self.features.values():
                await feature.load()
            await self.kernel.restore(self._facts)
            for feature in self.features.values():
                self._closing.push_async_callback(feature.stop)
                await feature.start()
            await self._open_doors()
            for feature in self.features.values():
                await feature.opened()
        except BaseException:
            await self.stop()
            raise

    def _keep_facts(self) -> None:
        """Restore no session: who follows has none."""

    def _make_link(self) -> None:
        kernel, committer = self.kernel, self.kernel.committer
        assert isinstance(committer, ForwardingCommitter)  # noqa: S101 - made above
        tables = {table.name: table for table in self.schema.tables}
        reports = ThreadPoolExecutor(1, thread_name_prefix="rowcast-reports")
        self._closing.callback(reports.shutdown)
        self.link = FollowerLink(
            committer,
            cast("FollowerStore", self.store),
            tables.get,
            asyncio.get_running_loop(),
            reports,
            schema=agreed(self.config, self.schema.text),
        )
        unlogged = UnloggedEvents(committer, self.link.pass_on)
        self.link.on_events.append(unlogged.take)
        receiver = FilterReceiver(kernel.durable)
        self._kinds: dict[str, RowsOf] = {FILTERS: partial(self._filter_rows, receiver)}
        self._answers = RowAnswers(self.link, self._kinds)
        self._differ(kernel)

    async def _open_far(
        self, client: Client, protocol: asyncio.Protocol, seconds: float
    ) -> asyncio.Transport:
        """Pass on a client to the sequencer. Raises BUSY."""
        raise NotImplementedError

    def _make_edge(self) -> Edge:
        edge = super()._make_edge()
        assert isinstance(edge, RelayingEdge)  # noqa: S101 - its class above
        edge.open_far, edge.passes_all = self._open_far, self._has_hooks
        edge.is_connected = lambda: not self.link.problem
        return edge

    def _entrance(self) -> MqttRelay:
        if self._mqtt is None:
            guard, refused = self.broker.guard, self.broker.refused
            timeout = self.broker.settings.connect_timeout_seconds
            self._mqtt = MqttRelay(guard, refused, self._open_far, timeout)
        return self._mqtt

    async def _open_doors(self) -> None:
        await self.doors.prepare(self._threads.readers)
        edge, entrance = self._make_edge(), self._entrance()
        readiness = edge.settings.readiness
        make_ready(readiness, self.kernel, self.doors)
        readiness.add("log", lambda: self.link.refusal or self.link.problem)
        readiness.add("tables", lambda: self.store.tail.problem)
        clock = ClockAnswer(self._now)
        readiness.warnings["clock"] = lambda: clock.problem
        await self.doors.open_http(edge)
        self._kinds[STREAMS] = partial(self._streams, edge)
        self._kinds[CLOCK] = partial(self._clock, clock)
        self._closing.push_async_callback(entrance.stop)
        await self.doors.open_mqtt(self.broker, entrance)
        self._closing.callback(self.doors.close)

    def _streams(self, edge: Edge, name: str) -> SystemRows:
        """Return the rows of readers here, for the sequencer."""
        topic = f"{STREAMS}/{name}"
        return stream_rows(edge.watch)(self.kernel, topic, name, Caller(self._node, ALL))

    def _clock(self, clock: ClockAnswer, asked: str) -> SystemRows:
        """Return this node's time, for the sequencer."""
        rows = figure_rows(CLOCK, list, clock.answer)
        return rows(self.kernel, CLOCK, asked, Caller(self._node, ALL))

    def _filter_rows(self, receiver: FilterReceiver, path: str) -> SystemRows:
        """Take filters of the sequencer, which are told as the id of a row."""
        rows = figure_rows(FILTERS, list, receiver.take)
        return rows(self.kernel, FILTERS, path, Caller(self._node, ALL))

    async def _follow(self) -> None:
        """Connect. Raises Error when this process is of no use without a connection."""
        raise NotImplementedError

    def _differ(self, kernel: Kernel) -> None:
        """Follow what others change, and refuse what needs one place."""
        rights = self.features["rights"]
        assert isinstance(rights, AccessRights)  # noqa: S101 - the tuple of features says so
        kernel.bus.add(TopicFilter(f"{RULES}/+"), RuleFollower(rights.rules))
        for name in MARKS:
            kernel.steps.on_property(name, _refuse_mark, first=True)
        tickets = self.identity.authenticator.tickets
        setattr(tickets, "make", _refuse_ticket)  # noqa: B010 - a method of this one object


def without_topics(config: Config) -> Config:
    """Return the settings of a follower: without undeclared topics."""
    topics = config.topics.model_copy(update={"undeclared": "reject"})
    return config.model_copy(update={"topics": topics})


def _refuse_mark(_write: Write) -> NoReturn:
    raise Error(Code.INVALID, NUMBERED_ELSEWHERE)


def _refuse_ticket(_caller: Caller) -> NoReturn:
    raise Error(
        Code.NOT_ALLOWED,
        "a ticket is good at one process only: ask for it, and show it, at http.port",
        allow=[],
    )
