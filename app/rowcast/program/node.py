"""Runs a node of a cluster: its engine, its share of the lease, and the role that follows from it.

A node that takes the lease ends what it was and becomes the sequencer; one that has lost it,
or could not append, ends that and follows. Clients of a node that changes its role connect again.
"""

import asyncio
import hashlib
import logging
import secrets
import signal
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, TypeVar

from rowcast import __version__
from rowcast.auth.shared_secret import derived
from rowcast.cluster.lease_keeper import Holder, LeaseKeeper
from rowcast.cluster.ports import fetch_copy
from rowcast.core.compiled import CODE
from rowcast.core.errors import Code, Error
from rowcast.journal.node_opening import (
    Tables,
    check_tables,
    needs_copy,
    prepare_tables,
)
from rowcast.journal.written_schema import OTHER, WrittenSchema
from rowcast.log.engine import Engine
from rowcast.net.fork_server import Processes
from rowcast.program.cluster_checks import agreed, check_cluster, tell_of_archive
from rowcast.program.cluster_membership import Watch, admitted, check_begin, has_left
from rowcast.program.cluster_nodes import FollowerNode, Membership, SequencerNode
from rowcast.program.cluster_tls import contexts
from rowcast.program.collector import Collector
from rowcast.program.config import Config, variable
from rowcast.program.engines import EngineOfNode
from rowcast.program.main import Application
from rowcast.program.membership_mark import locked, mark
from rowcast.program.operations import end, hear_signals
from rowcast.program.process import cut, run
from rowcast.program.settings.cluster import beside
from rowcast.program.systemd import service_manager
from rowcast.program.table_fetch import Fetch, TableFetch
from rowcast.program.waiting_status import WaitingStatus
from rowcast.schema import load_schema
from rowcast.store.sql_database import file_of

log = logging.getLogger("rowcast.cluster")

T = TypeVar("T")

PAUSE_SECONDS: Final = 0.5
"""After a role that could not begin."""
HINT: Final = (
    "; if they run, compare the names, addresses and secret of all nodes, and look into "
    "nats/nats-server.log in the data directory"
)
ROLE_SECONDS: Final = 30.0
"""For a role to end; a process that hangs for longer ends, and is started again from outside."""


class Node:
    """One node, from its start to its end."""

    def __init__(self, config: Config, stopping: asyncio.Event, processes: Processes) -> None:
        check_cluster(config)
        self._processes = processes
        self.config, self._cluster = config, config.cluster
        self._stopping = stopping
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Event()
        """Set when the lease, or the log, says something new."""
        self._closing = AsyncExitStack()
        self._was = False
        """Whether it has had a role: then its clients wait for its ports."""
        self._waiting = WaitingStatus(config)
        self._left = False
        """Whether it is no node of this cluster any more."""
        stopping_soon = self._loop.create_task(stopping.wait())
        stopping_soon.add_done_callback(lambda _: self._turn.set())

    async def open(self) -> bool:
        """Start the engine, and wait for a majority; return False if it is to stop meanwhile.

        What it waits for is told by HTTP, from here until a role opens its own ports: a port that
        was closed in between would refuse who asks. Raises Error when this node cannot be one.
        """
        cluster = self._cluster
        check_begin(self.config.data, cluster)
        schema, url = load_schema(self.config.schema_file), self.config.database_url
        self._closing.enter_context(locked(self.config.data))
        tables = await asyncio.to_thread(prepare_tables, url, schema.tables)
        self._engine = EngineOfNode(self.config)
        self._closing.push_async_callback(asyncio.to_thread, self._engine.stop)
        await self._waiting.report("this node has not reached the log of its cluster yet")
        await asyncio.to_thread(self._engine.start)
        engine = await self._open_engine(tables)
        if engine is None or not await self._admitted():
            return False
        key = bytes.fromhex(derived(cluster.secret, f"link/{cluster.name}"))
        accepting, connecting = contexts(cluster)
        while why := await self._answer(partial(needs_copy, tables, engine)):
            await self._report_copying(why)
            if not await self._fetch(engine, partial(fetch_copy, key=key, tls=connecting)):
                return False
            tables = await asyncio.to_thread(prepare_tables, url, schema.tables)
        if not await self._check(tables, engine):
            return False
        await self._mark(engine.epoch)
        self._agreed = agreed(self.config, schema.text)
        self._written = WrittenSchema(url, engine, schema.text)
        self._member = self._membership(engine, key, accepting, connecting)
        await self._waiting.report("this node starts; ask again in a moment")
        return True

    async def _mark(self, epoch: str) -> None:
        """Note in the data directory which cluster its log is of."""
        cluster, data = self._cluster, self.config.data
        several = len(cluster.peers) > 1
        await asyncio.to_thread(mark, data, cluster.name, epoch, several=several)
        if not self.config.log.archive:
            await asyncio.to_thread(tell_of_archive, data, epoch)

    def _membership(
        self,
        engine: Engine,
        key: bytes,
        accepting: ssl.SSLContext | None,
        connecting: ssl.SSLContext | None,
    ) -> Membership:
        cluster, life = self._cluster, secrets.token_hex(8)
        digest = hashlib.sha256(self._agreed.encode()).hexdigest()
        place = beside(cluster.addresses[cluster.node])
        own = Holder(cluster.node, life, *place, digest)
        self.keeper = LeaseKeeper(engine, own, cluster.lease_seconds, self._wake)
        self._closing.push_async_callback(asyncio.to_thread, self.keeper.stop)
        return Membership(
            engine,
            self.keeper,
            cluster.node,
            life,
            key,
            place,
            self._nodes,
            self._engine.group,
            accepting,
            connecting,
            self._engine.problem,
        )

    async def _admitted(self) -> bool:
        """Wait until this node is one of the cluster; return False if it is to stop meanwhile."""

        async def pause(why: str) -> bool:
            await self._waiting.report(why)
            await self._pause()
            return not self._stopping.is_set()

        return await admitted(self._engine.nodes, self._cluster, self.config.data, pause)

    def _nodes(self) -> Mapping[str, str]:
        """Return the addresses of all nodes by their names. Blocks; raises BUSY."""
        return self._engine.nodes() or self._cluster.addresses

    def _leave(self) -> None:
        self._left = True
        self._turn.set()

    async def _fetch(self, engine: Engine, fetch: Fetch) -> bool:
        getting = TableFetch(engine, self._cluster.node, self._stopping)
        return await getting.replace(file_of(self.config.database_url), fetch)

    async def _report_copying(self, why: str) -> None:
        message = f"this node {why}; it gets a copy of the tables of another node"
        log.warning("%s", message)
        await self._waiting.report(message)

    async def _answer(self, ask: Callable[[], T]) -> T | None:
        """Ask the engine until it answers, in a thread; None if this node is to stop meanwhile."""
        while not self._stopping.is_set():
            try:
                return await asyncio.to_thread(ask)
            except Error as error:
                if error.code is not Code.BUSY:
                    raise
                await self._waiting.report(f"this node waits for its log: {error.message}")
                await self._pause()
        return None

    async def _check(self, tables: Tables, engine: Engine) -> bool:
        """Check that tables can follow; the engine's server goes on, whose vote others need.

        Returns False if this node is to stop meanwhile.
        """
        try:
            await self._answer(partial(check_tables, tables, engine, self.config.data))
        except Error as error:
            if error.code is Code.CONFLICT:
                log.error("%s", error.message)  # noqa: TRY400 - it is raised when it ends
                await self._waiting.report(error.message)
                await self._stopping.wait()
            raise
        return not self._stopping.is_set()

    async def _open_engine(self, tables: Tables) -> Engine | None:
        waiting = False
        while True:
            try:
                engine = await asyncio.to_thread(self._engine.open, tables)
            except Error as error:
                if error.code is not Code.BUSY:
                    raise
                if self._stopping.is_set():
                    return None
                hint = HINT if self._cluster.starts_nats else ""
                message = f"this node waits for the others: {error.message}{hint}"
                if not waiting:
                    log.warning("%s", message)
                waiting = True
                await self._waiting.report(message)
            else:
                self._closing.push_async_callback(asyncio.to_thread, engine.close)
                return engine

    def _wake(self) -> None:
        """Be called by other threads: there is something new."""
        self._loop.call_soon_threadsafe(self._turn.set)

    async def run(self, ready: Callable[[Application, str], None]) -> None:
        """Have one role after the other; ``ready`` is called when one has begun."""
        await asyncio.to_thread(self.keeper.step)  # nobody may hold it
        self.keeper.start()
        watch = Watch(self._engine.nodes, self._cluster.node, self._leave)
        self._closing.push_async_callback(watch.stop)
        while not (self._stopping.is_set() or self._left):
            try:
                if self.keeper.held:
                    await self._number(ready)
                else:
                    await self._follow(ready)
            except Error as error:
                if error.code is not Code.BUSY:
                    raise
                log.error("this node cannot begin, and tries again: %s", error.full)  # noqa: TRY400
                if self.keeper.held:
                    await asyncio.to_thread(self.keeper.give_up)
                await self._waiting.report(error.message)
                await self._pause()
        if self._left:
            raise has_left(self._cluster, self.config.data)

    async def _pause(self) -> None:
        waiting = asyncio.create_task(self._stopping.wait())
        await asyncio.wait((waiting,), timeout=PAUSE_SECONDS)
        waiting.cancel()

    async def _number(self, ready: Callable[[Application, str], None]) -> None:
        await asyncio.to_thread(self._written.settle, all_of_it=True)
        self._was = True
        parts = self.config, self._member, self._processes
        node = await asyncio.to_thread(SequencerNode, *parts, self._wake)
        await self._begin(node)
        ready(node, "is the sequencer")

        def goes_on() -> bool:
            if not self.keeper.held:
                node.log.abandon("the lease of this node has run out")
            return self.keeper.held and not node.log.problem

        await self._while(goes_on)
        if node.log.problem:
            log.error("this node is no longer the sequencer: %s", node.log.problem)
            await asyncio.to_thread(self.keeper.give_up)
        await self._end(node)

    async def _follow(self, ready: Callable[[Application, str], None]) -> None:
        if not await self._schema_reached():
            return
        patient, self._was = not self._was, True
        parts = self.config, self._member, self._processes
        node = await asyncio.to_thread(FollowerNode, *parts, self._wake, patient=patient)
        await self._begin(node)
        ready(node, "follows")

        def goes_on() -> bool:
            node.look_again()
            return not (self.keeper.held or node.differs)

        await self._while(goes_on)
        self._written.differs = node.differs
        await self._end(node)

    async def _schema_reached(self) -> bool:
        """Wait until the log is written under this node's schema; return False to do otherwise."""
        is_logged = False
        while not await asyncio.to_thread(self._written.settle):
            if not is_logged:
                log.error("this node does not follow: %s", OTHER)
            is_logged = True
            await self._waiting.report(OTHER)
            await self._pause()
            if self.keeper.held or self._stopping.is_set() or self._left:
                return False
        return True

    async def _begin(self, role: Application) -> None:
        await self._waiting.end()
        await role.start()
        if role.doors.certificates is not None:  # read again on SIGHUP, as by a server
            self._loop.add_signal_handler(signal.SIGHUP, role.doors.certificates.look_now)
        self._keep_ports(role)

    def _keep_ports(self, role: Application) -> None:
        """Have the next role listen where this one does, where a port was to be picked."""
        config = self.config
        http = config.http.model_copy(update={"port": role.http_port})
        network = config.mqtt.network
        if role.mqtt_port is not None and network.port == 0:
            network = network.model_copy(update={"port": role.mqtt_port})
        mqtt = config.mqtt.model_copy(update={"network": network})
        self.config = config.model_copy(update={"http": http, "mqtt": mqtt})

    async def _while(self, goes_on: Callable[[], bool]) -> None:
        while goes_on() and not (self._stopping.is_set() or self._left):
            await self._turn.wait()
            self._turn.clear()

    async def _end(self, role: Application) -> None:
        await _within(role.stop())
        if not (self._stopping.is_set() or self._left):
            await self._waiting.report("this node changes its role; ask again in a moment")

    async def close(self) -> None:
        """End everything."""
        await self._waiting.end()
        await self._closing.aclose()


async def _within(ending: Awaitable[None]) -> None:
    task = asyncio.ensure_future(ending)
    await asyncio.wait((task,), timeout=ROLE_SECONDS)
    if not task.done():
        log.error("this node does not end what it was within %g s; it exits", ROLE_SECONDS)
        cut()
    task.result()


def serve(config: Config) -> None:
    """Run a node until SIGINT or SIGTERM. Raises Error when it cannot start."""
    run(config, _serve)


async def _serve(config: Config, processes: Processes) -> None:
    stopping, again = hear_signals()
    manager = service_manager(variable)
    collectors: list[Collector] = []

    def ready(role: Application, does: str) -> None:
        if collectors:
            collectors[0].watched = role
        else:
            collectors.append(Collector(role))
            collectors[0].start()
            manager.ready()
        _print_role(config, role, does)

    node = Node(config, stopping, processes)
    try:
        if await node.open():
            await node.run(ready)
    finally:
        manager.stopping()
        await end(node.close(), again)


def _print_role(config: Config, role: Application, does: str) -> None:
    """Print what this node does now, and its addresses."""
    cluster = config.cluster
    print(  # noqa: T201
        f"Rowcast {__version__} ({CODE}): node {cluster.node} of {cluster.name} {does}.",
        *role.doors.lines(),
        *role.identity.lines(),
        f"  data                   {config.data.resolve()}",
        sep="\n",
        file=sys.stderr,
        flush=True,
    )
