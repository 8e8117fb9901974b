"""A worker: a process that serves declared tables over HTTP, and follows the log of its server.

It reads the server's own tables, and has writes numbered by the server (``following.py``).
"""

import asyncio
import gc
import logging
import os
import pickle
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from rowcast.cluster.forwarding import ForwardingCommitter, unreachable
from rowcast.cluster.frames import Frames
from rowcast.cluster.shared_tables import SharedTables
from rowcast.cluster.sockets import follow, relay
from rowcast.core.errors import Code, Error
from rowcast.journal.follower_store import FollowerStore
from rowcast.log.followed_log import FollowedLog
from rowcast.log.log import Head
from rowcast.net.heartbeats import HEARTBEAT_SECONDS
from rowcast.net.relay import Client
from rowcast.program.collector import Collector
from rowcast.program.config import Config
from rowcast.program.following import Following, without_topics
from rowcast.program.operations import end
from rowcast.program.process import prepare, run_loop
from rowcast.program.workers import HEARTBEAT, READY, Ports
from rowcast.schema import Schema, parse_schema
from rowcast.store.sqlite import SqlStore

log = logging.getLogger("rowcast.workers")


class Worker(Following):
    """One worker process."""

    def __init__(self, config: Config, ports: Ports, place: Path, node: str, schema: str) -> None:
        self._place, self._schema_text = place, schema
        super().__init__(_of_worker(config, ports), node)
        self.doors.shared = True
        self.lost = asyncio.Event()
        """Set when the server has gone."""
        self._frames: Frames | None = None

    def _read_schema(self) -> Schema:
        """Return the schema that the server runs with; its file may have been edited since."""
        return parse_schema(self._schema_text, str(self.config.schema_file))

    def _open_store(self) -> FollowerStore:
        tables = SqlStore(self.config.database_url, synced=False, lock=False, moves=False)
        followed = FollowedLog(tables.epoch, Head(tables.applied(), tables.head()))
        return FollowerStore(tables, followed, SharedTables(tables, followed), self._now)

    async def _open_far(
        self, client: Client, protocol: asyncio.Protocol, seconds: float
    ) -> asyncio.Transport:
        return await relay(self._place, client, protocol, seconds)

    async def _follow(self) -> None:
        """Connect, and wait until all is here that was in the log then."""
        committer = self.kernel.committer
        assert isinstance(committer, ForwardingCommitter)  # noqa: S101 - made above
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


def _of_worker(config: Config, ports: Ports) -> Config:
    """Return the settings of a worker: its ports alone."""
    place = "secure_port" if config.tls.certificate is not None else "port"
    closed: dict[str, int | None] = {"port": None, "secure_port": None}
    http = config.http.model_copy(update=closed | {place: ports.http})
    network = config.mqtt.network.model_copy(update=closed | {place: ports.mqtt})
    mqtt = config.mqtt.model_copy(update={"network": network})
    return without_topics(config).model_copy(update={"http": http, "mqtt": mqtt})


def _beat(loop: asyncio.AbstractEventLoop, answers: int) -> None:
    """Show the server that this loop turns, once a second; a full pipe has enough of it."""
    with suppress(BlockingIOError, BrokenPipeError):
        os.write(answers, HEARTBEAT)
    loop.call_later(HEARTBEAT_SECONDS, _beat, loop, answers)


async def _run(make: Callable[[], Worker], answers: int) -> None:
    os.set_blocking(answers, False)
    _beat(asyncio.get_running_loop(), answers)
    worker = make()
    await worker.start()
    Collector(worker).start()
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # of the terminal: the server says when
    if worker.doors.certificates is not None:
        loop.add_signal_handler(signal.SIGHUP, worker.doors.certificates.look_now)
    os.write(answers, READY)
    waiting = [asyncio.create_task(event.wait()) for event in (stopping, worker.lost)]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if worker.lost.is_set():
        log.error("a worker ends, because its server has")
    await end(worker.stop(), asyncio.Event())


def main(orders: int, answers: int) -> None:
    """Run the process, with handles of its order and of where to tell that it listens."""
    gc.disable()  # until ready, as the server does
    with os.fdopen(orders, "rb") as order:
        config, ports, place, node, schema = pickle.load(order)  # noqa: S301 - of our own parent
    prepare(config)
    try:
        run_loop(_run(partial(Worker, config, ports, Path(place), node, schema), answers))
    except Error as error:
        log.error("a worker cannot start: %s", error.full)  # noqa: TRY400 - the sentence is all
        sys.exit(1)
