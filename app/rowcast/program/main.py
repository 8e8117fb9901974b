"""Wiring: builds, starts and stops a server; the only module that imports all rooms.

It starts bottom up (store, kernel, doors), and stops top down: listeners first, then connections,
then pending writes, then the store.
"""

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TypeVar, cast

from rowcast import __version__
from rowcast.bus.bus import Bus
from rowcast.cluster.sequencing import SequencingCommitter
from rowcast.core.clock import HybridClock, WallClock
from rowcast.core.compiled import CODE
from rowcast.core.errors import Code, Error
from rowcast.core.fairness_limits import GATHER_SECONDS
from rowcast.doors.durable_streams.door import streams_door
from rowcast.doors.http.door import HttpSettings
from rowcast.doors.http.edge import Edge
from rowcast.doors.http.fixed_routes import make_application
from rowcast.doors.mqtt.broker import Broker
from rowcast.doors.mqtt.connections.transport import Entrance
from rowcast.doors.mqtt.connections.websocket import WebSocketEndpoint
from rowcast.doors.mqtt.delivery.delivery_format import media_type_wanted
from rowcast.doors.mqtt.door import make_broker
from rowcast.doors.mqtt.sessions.session_loading import OWNER
from rowcast.doors.mqtt.sessions.wills import WILLS
from rowcast.doors.mqtt.settings import BrokerSettings
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.rights.feature import AccessRights
from rowcast.journal.applier_child import spawn_applier
from rowcast.journal.journaled_store import JournaledStore
from rowcast.journal.opening import open_journal
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel
from rowcast.models import Models
from rowcast.net.fork_server import Interpreters, Processes
from rowcast.program.clock import guarded_clock
from rowcast.program.collector import Collector
from rowcast.program.config import Config, variable
from rowcast.program.doors import Doors
from rowcast.program.features import FEATURES, Plug
from rowcast.program.identity import Identity
from rowcast.program.listener_rows import LISTENERS, listener_rows
from rowcast.program.membership_mark import check_alone
from rowcast.program.operations import end, hear_signals, make_ready, tell_of_applier
from rowcast.program.parts import Parts
from rowcast.program.process import run
from rowcast.program.resource_loader import load_resources
from rowcast.program.schema_rows import SCHEMA, schema_rows
from rowcast.program.settings.hooks import bundled
from rowcast.program.settings.mqtt import auto_subscriptions, rewriting
from rowcast.program.systemd import service_manager
from rowcast.program.threads import Threads
from rowcast.program.workers import Workers, check_workers
from rowcast.reads.record_cache import RecordCache
from rowcast.routes.registry import Registry
from rowcast.schema import Schema, load_schema
from rowcast.seams.seams import Facts
from rowcast.store.private import make_directory
from rowcast.subscriptions.backlog import Overflow
from rowcast.subscriptions.reader import Reader
from rowcast.writes.commit import Committer

log = logging.getLogger("rowcast")

T = TypeVar("T")


class Application:
    """A complete server: ``start`` and ``stop`` it once; port 0 selects a free port.

    The constructor reads the schema and the resources, and raises INVALID for mistakes in them.
    ``processes`` start that which writes the tables; without them they are written here.
    """

    edge_class: type[Edge] = Edge
    """The edge of HTTP."""

    def __init__(
        self,
        config: Config,
        now: WallClock | None = None,
        features: Sequence[Plug] = FEATURES,
        *,
        processes: Processes | None = None,
    ) -> None:
        self.config = config
        self._plugs = features
        self.features: dict[str, Feature] = {}
        """The features that are switched on, by name."""
        self._now = now = now or guarded_clock()
        self._threads = Threads(processes=processes)
        self._on_writer = self._threads.write
        self._closing = contextlib.AsyncExitStack()
        self.doors = Doors(config, now, self._closing)
        self.workers: Workers | None = None
        self.schema = schema = self._read_schema()
        self.registry = Registry(schema.tables, undeclared=config.topics.undeclared != "reject")
        self._processes = processes or Interpreters()
        self._applier = None if processes is None else partial(spawn_applier, processes)
        self.hooks = Hooks()
        for hook in bundled(config.hooks):
            self.hooks.add(hook)
        self._load_resources()
        _make_directory(config.data)
        self.identity = Identity(config, now, self._threads.check_password)
        self.store = self._open_store()

    def _read_schema(self) -> Schema:
        return load_schema(self.config.schema_file)

    def _load_resources(self) -> None:
        config, models = self.config, Models(self.schema.tables, self.config.database_url)
        for path, resource in load_resources(config.resources, self.hooks, models):
            self.registry.add(path, resource)
        if config.workers.count:
            check_workers(config)

    def _open_store(self) -> JournaledStore:
        config = self.config
        return open_journal(
            config.database_url,
            self._now,
            self.schema.text,
            config.log.tail,
            applier=self._applier,
        )

    @property
    def http_port(self) -> int | None:
        """The port of HTTP."""
        return self.doors.http_port

    @property
    def mqtt_port(self) -> int | None:
        """The port of MQTT."""
        return self.doors.mqtt_port

    def short_of_memory(self) -> bool:
        """Whether requests are refused for want of memory."""
        return bool(self.kernel.reader.shedding.level)

    def former_clients(self) -> int:
        """Return how many clients of MQTT have left since the start."""
        return self.broker.connections - len(self.broker.clients)

    async def start(self) -> None:
        """Open the store and every door; returns when all of them accept clients.

        Raises Error when a file or a port is not available; nothing is left open then.
        """
        self._closing.callback(self._threads.stop)
        try:
            self._closing.push_async_callback(self._on_writer, self.store.close)
            await self._on_writer(self.store.open, self.schema.tables)
            self._closing.push_async_callback(self.hooks.stop)
            await self.hooks.start()
            self._build()
            for feature in self.features.values():
                await feature.load()
            await self._restore()
            for feature in self.features.values():
                self._closing.push_async_callback(feature.stop)
                await feature.start()
            await self.doors.prepare(self._threads.readers)
            edge = self._make_edge()
            make_ready(edge.settings.readiness, self.kernel, self.doors)
            tell_of_applier(edge.settings.readiness, self.kernel, self.store)
            await self.doors.open_http(edge)
            self._closing.push_async_callback(self.broker.stop)
            await self.doors.open_mqtt(self.broker)
            self._closing.callback(self.doors.close)  # before anything else stops
            for feature in self.features.values():
                await feature.opened()
            await self._start_workers()
            if self.workers is not None:
                edge.settings.readiness.warnings["workers"] = self.workers.problem
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Close every door, finish pending writes, close the store."""
        await self._closing.aclose()

    async def _start_workers(self) -> None:
        """Start the worker processes, if there are to be any."""
        if not self.config.workers.count:
            return
        parts = (self.kernel, self.store, self.schema, self._processes)
        self.workers = Workers(self.config, *parts)
        self.workers.follow_rules(cast("AccessRights", self.features["rights"]))
        self._closing.push_async_callback(self.workers.stop)  # first of all
        await self.workers.start(self.doors)

    async def _restore(self) -> None:
        """Restore durable state: tables, rules, groups, sessions."""
        await self._on_writer(self._define_own_logs)
        await self.kernel.restore(self._facts)

    async def _facts(self, owner: str) -> Facts:
        """Return what an owner stored."""
        return await self._on_writer(self.store.states, owner)

    def _build(self) -> None:
        """Build the kernel and the components on it."""
        store, tables = self.store, self.schema.tables
        bus, cache = Bus(), RecordCache(bytes_max=self.config.memory.cache_bytes)
        clock = HybridClock(self._now, store.last_version())
        committer = self._make_committer(bus, cache, clock)
        waiting = self.config.subscriptions
        reader = Reader(
            store,
            cache,
            self._threads.readers,
            tables,
            partial(attrgetter("announced"), committer),  # called often, so without a Python frame
            waiting.queue_events,
            waiting.queue_bytes,
        )
        reader.queue.background = self._threads.searches
        reader.queue.query_seconds = self.config.store.query_timeout
        self.kernel = Kernel(
            self.registry,
            bus,
            committer,
            reader,
            self._now,
            self.config.http.max_body_bytes,
        )
        self.kernel.removal_now = self._removal_clock()
        self._closing.callback(reader.queue.stop)
        self._closing.push_async_callback(self.kernel.stop)
        self._install()
        self.broker = self._make_broker()
        self.kernel.rows(LISTENERS, listener_rows(self.doors))
        self.kernel.rows(SCHEMA, schema_rows(self.schema))
        self._keep_facts()

    def _removal_clock(self) -> WallClock:
        """Return the time by which what is over is removed."""
        return self._now

    def _make_committer(self, bus: Bus, cache: RecordCache, clock: HybridClock) -> Committer:
        store, bounds = self.store, self.config.memory.bounds
        if self.config.workers.count:
            tables, writer = self.schema.tables, self._threads.writer
            return SequencingCommitter(store, bus, cache, clock, writer, bounds, tables=tables)
        bounds = replace(bounds, gather_seconds=GATHER_SECONDS)  # no other process waits for them
        return Committer(store, bus, cache, clock, self._threads.writer, bounds)

    def _keep_facts(self) -> None:
        """Register restored facts, in this order.

        Features have registered theirs already: rules are known when wills are judged by them,
        topic tables when sessions are counted in them, and groups when sessions join them.
        """
        kernel, wills = self.kernel, list[tuple[str, str, bytes]]()
        kernel.facts(WILLS, wills.extend)
        kernel.facts(OWNER, lambda facts: self.broker.restore(facts, wills))

    def _install(self) -> None:
        """Create the enabled features, and install them in the kernel."""
        made = self.config, self.schema, self.store, self._facts, self.identity
        parts = Parts(*made, self._now, self.hooks, self._processes)
        for plug in self._plugs:
            feature = plug.make(parts)
            if feature is not None:
                self.features[plug.name] = feature
                feature.install(self.kernel)
        if self.hooks.registered and self.kernel.service(Hooks) is None:
            raise Error(
                Code.INVALID,
                "there are hooks, but the feature that asks them is not installed: what they "
                "refuse would be allowed",
            )
        for client in self.hooks.clients:
            client.bind(self.kernel)

    def _define_own_logs(self) -> None:
        """Create the topic tables of the server's own topics, which separates their history."""
        try:
            self.store.define(*(log.table for log in self.kernel.own_logs))
        except Error as error:
            log.warning("the past of $SYS has no table until the next start: %s", error.message)

    def _make_broker(self) -> Broker:
        mqtt = self.config.mqtt
        settings = BrokerSettings(
            packet_bytes_max=mqtt.max_packet_bytes,
            connect_timeout_seconds=mqtt.connect_timeout_seconds,
            receive_maximum=mqtt.receive_maximum,
            inflight_max=mqtt.max_inflight,
            subscriptions_max=mqtt.max_subscriptions,
            keep_alive_seconds_max=mqtt.max_keep_alive_seconds,
            tcp_keep_alive_seconds=mqtt.tcp_keep_alive_seconds,
            session_expiry_seconds_max=mqtt.max_session_expiry_seconds,
            session_queue_max=mqtt.max_session_queue,
            session_queue_policy=Overflow(mqtt.session_queue_policy),
            authenticator=self.identity.authenticator,
            guard=mqtt.guard,
            rates=mqtt.rate.settings,
            rewriting=rewriting(mqtt.rewrite),
            auto_subscriptions=auto_subscriptions(mqtt.auto_subscribe),
            media_type=media_type_wanted(mqtt.accept),
            server_reference=mqtt.server_reference,
            announces_first=self.config.log.qos0 == "behind",
            clears_silently=self.config.retainer.stop_publish_clear_msg,
        )
        return make_broker(self.kernel, settings, self._now)

    def _make_edge(self) -> Edge:
        config = self.config
        settings = HttpSettings(
            title="Rowcast",
            version=__version__,
            sse_heartbeat_seconds=config.sse.heartbeat_seconds,
            sse_retry_ms=config.sse.retry_ms,
            websocket_heartbeat_seconds=config.websocket.heartbeat_seconds,
            cors_origins=config.http.cors,
            allowed_hosts=(*config.http.allowed_hosts, config.http.host),
            body_bytes_max=config.http.max_body_bytes,
            body_seconds_max=config.http.body_seconds,
            query_writes_max=config.http.max_query_writes,
            poll_seconds=config.http.poll_seconds,
            anonymous=self.identity.authenticator.anonymous,
            authenticator=self.identity.authenticator,
            token_seconds=config.security.token_seconds,
            revoke=self.identity.directory.revoke,
            ports=lambda: self.doors.ports,
        )
        mqtt = WebSocketEndpoint(self._entrance()) if config.mqtt.web_socket else None
        fixed = make_application(self.kernel, settings)
        edge = self.edge_class(self.kernel, settings, fixed, mqtt)
        edge.streams = streams_door(self.kernel, settings.poll_seconds, edge.closing)
        return edge

    def _entrance(self) -> Entrance:
        """Return what takes connections of MQTT."""
        return self.broker


def serve(config: Config) -> None:
    """Run a server until SIGINT or SIGTERM. Raises Error when it cannot start."""
    run(config, _serve)


def _make_directory(place: Path) -> None:
    try:
        make_directory(place)
    except OSError as error:
        what = f"the data directory {place} cannot be made: {error.strerror}"
        raise Error(Code.BUSY, f"{what}; name another with --data") from error


async def _serve(config: Config, processes: Processes) -> None:
    check_alone(config.data)
    application = Application(config, processes=processes)
    if application.doors.certificates is not None:  # before, since a hangup would end the process
        look_now = application.doors.certificates.look_now
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, look_now)
    await application.start()
    Collector(application).start()
    stopping, again = hear_signals()
    print(_where_to_look(application), file=sys.stderr, flush=True)  # noqa: T201
    manager = service_manager(variable)
    manager.ready()
    await stopping.wait()
    manager.stopping()
    log.info("stopping")
    await end(application.stop(), again)


def _where_to_look(application: Application) -> str:
    """Return the start message: addresses and hints."""
    entries = [entry for entry in application.registry.entries if entry.view is None]
    paths = [entry.path or "/" for entry in entries if entry.path[:1] != "$"]
    return "\n".join(
        (
            f"Rowcast {__version__} ({CODE}) is ready.",
            *application.doors.lines(),
            *(application.workers.lines() if application.workers is not None else ()),
            *application.identity.lines(),
            f"  tables and resources   {', '.join(paths) or 'none yet: declare a table'}",
            f"  data                   {application.config.data.resolve()}",
        )
    )
