"""A worker: a process that serves declared tables over HTTP, and follows the log of its server.

It reads the server's own tables, decides writes on what it has followed, and has them numbered by
the server (``kernel/forwarding.py``). It has no MQTT, and only the features that are the same in
each process; what needs one place it refuses.
"""

import asyncio
import gc
import logging
import pickle
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NoReturn, cast

from rowcast.bus.bus import Bus
from rowcast.cluster.follower_link import FollowerLink
from rowcast.cluster.frames import Frames
from rowcast.cluster.shared_tables import SharedTables
from rowcast.cluster.sockets import follow
from rowcast.cluster.unlogged import UnloggedEvents
from rowcast.core.callers import Caller
from rowcast.core.clock import HybridClock
from rowcast.core.errors import Code, Error
from rowcast.core.topics import RULES, TopicFilter
from rowcast.features.idempotency.idempotent_writes import MARKS
from rowcast.features.rights.feature import AccessRights
from rowcast.journal.follower_store import FollowerStore
from rowcast.kernel.commit import Committer
from rowcast.kernel.forwarding import NUMBERED_ELSEWHERE, ForwardingCommitter, unreachable
from rowcast.kernel.kernel import Kernel
from rowcast.kernel.write import Write
from rowcast.log.followed_log import FollowedLog
from rowcast.log.log import Head
from rowcast.program.config import Config
from rowcast.program.features import FEATURES
from rowcast.program.logs import configure_logging
from rowcast.program.main import Application, calm_the_collector, loop_factory
from rowcast.program.operations import end, make_ready
from rowcast.program.rule_follower import RuleFollower
from rowcast.program.workers import READY
from rowcast.reads.record_cache import RecordCache
from rowcast.store.sqlite import SqlStore

log = logging.getLogger("rowcast.workers")

SAME_EVERYWHERE: Final = frozenset(
    {
        "accounts",
        "audit",
        "heartbeats",
        "history",
        "late_writes",
        "live_queries",
        "overload",
        "rights",
        "transactions",
        "unfit_values",
    }
)
"""The features of a worker: those that keep nothing in memory, or what each process reads for
itself (users, from their file), or hears with the log (rules)."""


class Worker(Application):
    """One worker process."""

    def __init__(self, config: Config, port: int, place: Path, node: str) -> None:
        self._node = node
        self._place = place
        super().__init__(
            _of_worker(config, port),
            features=[plug for plug in FEATURES if plug.name in SAME_EVERYWHERE],
        )
        self.doors.shared = True
        self.lost = asyncio.Event()
        """Set when the server has gone."""
        self._frames: Frames | None = None

    def _open_store(self) -> FollowerStore:
        tables = SqlStore(self.config.database_url, synced=False, lock=False)
        self._followed = FollowedLog(tables.epoch, Head(tables.applied(), tables.head()))
        shared = SharedTables(tables, self._followed)
        return FollowerStore(tables, self._followed, shared, self._now)

    def _make_committer(self, bus: Bus, cache: RecordCache, clock: HybridClock) -> Committer:
        store, bounds = cast("FollowerStore", self.store), self.config.memory.bounds
        writer = self._threads.writer
        return ForwardingCommitter(store, bus, cache, clock, writer, bounds, node=self._node)

    async def start(self) -> None:
        """Follow the log, and open the port. Raises Error when either fails."""
        self._closing.callback(self._threads.stop)
        try:
            await self._on_writer(self.store.open, self.schema.tables)
            self._closing.push_async_callback(self._on_writer, self.store.close)
            self._build()
            await self._follow()
            for feature in self.features.values():
                await feature.load()
            await self.kernel.restore(self._facts)
            for feature in self.features.values():
                self._closing.push_async_callback(feature.stop)
                await feature.start()
            await self.doors.prepare(self._threads.readers)
            edge = self._make_edge()
            make_ready(edge.settings.readiness, self.kernel, self.doors)
            edge.settings.readiness.add("log", lambda: self.link.problem)
            await self.doors.open_http(edge)
            self._closing.callback(self.doors.close)
            for feature in self.features.values():
                await feature.opened()
        except BaseException:
            await self.stop()
            raise

    def _keep_facts(self) -> None:
        """Restore no session: a worker has none."""

    async def _follow(self) -> None:
        """Connect, and wait until all is here that was in the log then."""
        kernel, committer = self.kernel, self.kernel.committer
        assert isinstance(committer, ForwardingCommitter)  # noqa: S101 - made above
        tables = {table.name: table for table in self.schema.tables}
        store = cast("FollowerStore", self.store)
        loop = asyncio.get_running_loop()
        reports = ThreadPoolExecutor(1, thread_name_prefix="rowcast-reports")
        self._closing.callback(reports.shutdown)
        self.link = FollowerLink(
            committer, store, tables.get, loop, reports, schema=self.schema.text
        )
        unlogged = UnloggedEvents(committer, self.link.pass_on)
        self.link.on_events.append(unlogged.take)
        self._differ(kernel)
        welcome = asyncio.Event()
        self.link.on_welcome = welcome.set

        def lost() -> None:
            committer.give_up(unreachable("the server has ended"))
            self.lost.set()
            welcome.set()

        self._frames = await follow(self._place, self.link, lost)
        await welcome.wait()
        if self.lost.is_set():
            raise Error(Code.BUSY, self.link.refusal or "the server has ended")

    def _differ(self, kernel: Kernel) -> None:
        """Follow what others change, and refuse what needs one place."""
        rights = self.features["rights"]
        assert isinstance(rights, AccessRights)  # noqa: S101 - the tuple of features says so
        kernel.bus.add(TopicFilter(f"{RULES}/+"), RuleFollower(rights.rules))
        for name in MARKS:
            kernel.steps.on_property(name, _refuse_mark, first=True)
        tickets = self.identity.authenticator.tickets
        setattr(tickets, "make", _refuse_ticket)  # noqa: B010 - a method of this one object


def _of_worker(config: Config, port: int) -> Config:
    """Return the settings of a worker: its port alone, no MQTT, and no undeclared topics."""
    secure = config.tls.certificate is not None
    http = {"port": None if secure else port, "secure_port": port if secure else None}
    network = config.mqtt.network.model_copy(update={"port": None, "secure_port": None})
    mtls = config.mqtt.mtls.model_copy(update={"enabled": False})
    mqtt = {"network": network, "web_socket": False, "mtls": mtls}
    return config.model_copy(
        update={
            "http": config.http.model_copy(update=http),
            "mqtt": config.mqtt.model_copy(update=mqtt),
            "topics": config.topics.model_copy(update={"undeclared": "reject"}),
        }
    )


def _refuse_mark(_write: Write) -> NoReturn:
    raise Error(Code.INVALID, NUMBERED_ELSEWHERE)


def _refuse_ticket(_caller: Caller) -> NoReturn:
    raise Error(
        Code.NOT_ALLOWED,
        "a ticket is good at one process only: ask for it, and show it, at http.port",
        allow=[],
    )


async def _run(worker: Worker) -> None:
    await worker.start()
    calm_the_collector()
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # of the terminal: the server says when
    if worker.doors.certificates is not None:
        loop.add_signal_handler(signal.SIGHUP, worker.doors.certificates.look_now)
    sys.stdout.buffer.write(READY + b"\n")
    sys.stdout.buffer.flush()
    waiting = [asyncio.create_task(event.wait()) for event in (stopping, worker.lost)]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if worker.lost.is_set():
        log.error("a worker ends, because its server has")
    await end(worker.stop(), asyncio.Event())


def main() -> None:
    """Run the process; standard input has its order (``workers.py``)."""
    gc.disable()  # until ready, as the server does
    config, port, place, node = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our own parent
    configure_logging(config.logging.level, config.logging.format)
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_main(config, port, Path(place), node))
    except Error as error:
        log.error("a worker cannot start: %s", error.full)  # noqa: TRY400 - the sentence is all
        sys.exit(1)


async def _main(config: Config, port: int, place: Path, node: str) -> None:
    await _run(Worker(config, port, place, node))
