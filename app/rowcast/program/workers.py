"""Worker processes of one server: started, watched and ended by the process that owns the log.

A worker (``worker.py``) is the same program with the log behind a socket. It is started again when
it has ended; it ends itself when this process has gone. One that hangs sends no heartbeats through
its pipe, and is ended: the thread that waits for it reads them, whatever this loop does meanwhile.
"""

import asyncio
import logging
import os
import pickle
import secrets
import signal
import socket
from collections.abc import Callable
from typing import Final, NamedTuple

from rowcast.cluster.followed_filters import FilterSender
from rowcast.cluster.messages import pack_applied
from rowcast.cluster.remote_rows import RemoteRows
from rowcast.cluster.sequencer_links import SequencerLinks
from rowcast.cluster.sequencing import SequencingCommitter
from rowcast.cluster.sockets import SequencerSocket
from rowcast.cluster.unlogged import UnloggedEvents
from rowcast.core.errors import Code, Error
from rowcast.core.limits import SHUTDOWN_SECONDS_MAX
from rowcast.core.topics import RULES, TopicFilter
from rowcast.features.rights.feature import AccessRights
from rowcast.journal.applying import Applied
from rowcast.journal.journaled_store import JournaledStore
from rowcast.kernel.kernel import Kernel
from rowcast.net.fork_server import Process, Processes
from rowcast.net.heartbeats import HEARTBEAT_SECONDS, START_SECONDS, Silence, readable
from rowcast.net.listener import bind
from rowcast.net.single_thread import SingleThread
from rowcast.program.config import Config
from rowcast.program.doors import Doors
from rowcast.program.rule_follower import RuleFollower
from rowcast.routes.figure_rows import listed_rows
from rowcast.schema.schema import Schema

log = logging.getLogger("rowcast.workers")

RESTART_SECONDS: Final = 1.0
"""Before a worker that has ended is started again."""
RESTART_SECONDS_MAX: Final = 30.0
"""The same of one that has failed several times before it listened: each time costs a second of a
core, and what is wrong has to be mended by somebody."""
SOCKET: Final = "workers.sock"
PATH: Final = "$SYS/workers"
READY: Final = b"r"
"""What a worker says once it listens, and once a second that its loop turns."""
HEARTBEAT: Final = b"."
ANSWER_BYTES: Final = 4096
"""Read at a time: more heartbeats than come in an hour."""
PROGRAM: Final = "rowcast.program.worker:main"


class Ports(NamedTuple):
    """What all workers listen on; with TLS where there is a certificate."""

    http: int
    mqtt: int | None


def check_workers(config: Config) -> None:
    """Raise INVALID for what a server with workers would do wrong."""
    if not config.database_url.startswith("sqlite:"):
        raise Error(
            Code.INVALID,
            "workers cannot be started: store.url names no SQLite file, which workers read; leave "
            "--workers out, or that",
        )


class Workers:
    """All worker processes of one server."""

    _stopping = False

    def __init__(
        self,
        config: Config,
        kernel: Kernel,
        store: JournaledStore,
        schema: Schema,
        processes: Processes,
    ) -> None:
        self._config = config
        self._kept: list[socket.socket] = []
        self._schema = schema.text
        tables = {table.name: table for table in schema.tables}
        committer = kernel.committer
        assert isinstance(committer, SequencingCommitter)  # noqa: S101 - ``main.py`` has made it
        self._kernel = kernel
        self._links = SequencerLinks(committer, store, store.log, tables.get, schema=schema.text)
        self._socket = SequencerSocket(config.data / SOCKET, self._links)
        FilterSender(kernel.durable, self._links, schema.tables)
        self._links.on_events.append(UnloggedEvents(committer, self._links.pass_on).take)
        self._watching: list[asyncio.Task[None]] = []
        self._starts = processes
        self._processes: dict[int, Process] = {}
        """Those that run, by the index of the worker."""
        self._ready: dict[int, asyncio.Event] = {}
        self.restarts = [0] * config.workers.count
        self.hangs = [0] * config.workers.count  # those of ``restarts`` of one that hung
        self._silent: dict[int, Silence] = {}  # for how long each has sent no heartbeat
        self._loop = asyncio.get_running_loop()
        store.on_applied = self._applied
        kernel.rows(PATH, listed_rows(PATH, self._rows))

    def _applied(self, report: Applied) -> None:
        """Tell the workers what is in the tables; called by the thread that hears it."""
        self._loop.call_soon_threadsafe(self._links.tell_applied, pack_applied(report))

    def follow_rules(self, rights: AccessRights) -> None:
        """Have rules that are written at a worker be applied here."""
        self._kernel.bus.add(TopicFilter(f"{RULES}/+"), RuleFollower(rights.rules))

    async def start(self, doors: Doors) -> None:
        """Start all workers, and wait until they listen. Raises BUSY when one does not.

        ``doors`` serve what they pass on.
        """
        self._socket.on_relay = doors.relayed
        doors.list_streams_of(RemoteRows(self._links, "server"))
        config, shared = self._config, self._config.workers
        mqtt = None
        http = self._keep(config.http.host, shared.http_port, "workers.http_port")
        if shared.mqtt_port is not None:
            host = config.mqtt.network.host
            mqtt = self._keep(host, shared.mqtt_port, "workers.mqtt_port")
        self.ports = Ports(http, mqtt)
        await self._socket.start()
        for index in range(shared.count):
            self._ready[index] = asyncio.Event()
            self._watching.append(asyncio.create_task(self._watch(index), name=f"worker-{index}"))
        waiting = [asyncio.create_task(ready.wait()) for ready in self._ready.values()]
        done, _ = await asyncio.wait(waiting, timeout=START_SECONDS)
        for task in waiting:
            task.cancel()
        if len(done) < len(waiting):
            raise Error(Code.BUSY, "a worker does not start; its messages above say why")

    def _keep(self, host: str, port: int, setting: str) -> int:
        """Bind a port that does not listen: it is kept, and gets no connection. Raises BUSY."""
        try:
            self._kept.append(bind(host, port, shared=True))
        except OSError as error:
            what = f"workers cannot listen on {host}:{port} ({error.strerror})"
            raise Error(
                Code.BUSY, f"{what}; choose another port with --set {setting}=..."
            ) from error
        return int(self._kept[-1].getsockname()[1])

    async def _watch(self, index: int) -> None:
        """Start a worker again and again."""
        loop, ready = self._loop, self._ready[index]
        thread, wait = SingleThread(f"worker-{index}"), RESTART_SECONDS / 2

        def listens() -> None:
            loop.call_soon_threadsafe(ready.set)

        try:
            while not self._stopping:
                code = await loop.run_in_executor(thread, self._live, index, listens)
                wait = RESTART_SECONDS if ready.is_set() else min(2 * wait, RESTART_SECONDS_MAX)
                ready.clear()
                if self._stopping:
                    return
                self.restarts[index] += 1
                log.error("worker %d has ended (%d); it is started in %g s", index, code, wait)
                await asyncio.sleep(wait)
        finally:
            thread.shutdown(wait=False)

    def _live(self, index: int, listens: Callable[[], None]) -> int:
        """Start a worker, call ``listens`` when it does, and return its exit code at its end.

        It runs on a thread of its own, which waits.
        """
        (child_read, write), (read, child_write) = os.pipe(), os.pipe()
        with os.fdopen(write, "wb") as orders, os.fdopen(read, "rb", buffering=0) as answers:
            try:
                process = self._starts.start(
                    f"rowcast-work-{index}", PROGRAM, (child_read, child_write)
                )
            finally:
                os.close(child_read)
                os.close(child_write)
            self._processes[index] = process
            if self._stopping:  # it was not among those that were told
                process.kill()
            node = f"worker{index}/{secrets.token_hex(8)}"
            order = pickle.dumps(
                (self._config, self.ports, str(self._socket.place), node, self._schema)
            )
            try:
                orders.write(order)
                orders.close()
            except OSError:
                log.warning("worker %d has ended before it was told what to do", index)
            self._read_answers(index, process, answers.fileno(), listens)
        return process.wait()

    def _read_answers(
        self, index: int, process: Process, answers: int, listens: Callable[[], None]
    ) -> None:
        """Read what a worker says until it has ended; end it when it says nothing for too long."""
        silence = Silence(self._config.workers.heartbeat_timeout_seconds)
        self._silent[index] = silence
        while True:
            if readable(answers, HEARTBEAT_SECONDS):
                said = os.read(answers, ANSWER_BYTES)
                if not said:
                    return
                silence.received()
                if READY in said:
                    listens()
            elif silence.missed():
                what = "worker %d (process %d) has sent no heartbeat for %d s, so it is ended"
                log.error(what, index, process.pid, silence.seconds)
                self.hangs[index] += 1
                process.kill()
                return

    async def stop(self) -> None:
        """End all workers, which finish what they have begun."""
        self._stopping = True
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        if self._watching:
            _, late = await asyncio.wait(self._watching, timeout=SHUTDOWN_SECONDS_MAX)
            for task in late:
                task.cancel()
        for process in self._processes.values():
            process.kill()
            await asyncio.to_thread(process.wait)
        self._socket.stop()
        for kept in self._kept:
            kept.close()

    def lines(self) -> list[str]:
        """Return the addresses as lines, for the person who started the server."""
        config, ports = self._config, self.ports
        scheme = "https" if config.tls.certificate is not None else "http"
        url = f"{scheme}://{config.http.host}:{ports.http}"
        lines = [f"  {config.workers.count} workers              {url}/"]
        if ports.mqtt is not None:
            lines.append(f"  MQTT at workers        {config.mqtt.network.host}:{ports.mqtt}")
        return lines

    def problem(self) -> str:
        """Return which workers do not serve now, and why; empty if all do."""
        return "; ".join(why for index in self._ready if (why := self._trouble(index)))

    def _trouble(self, index: int) -> str:
        if self._serves(index):
            return ""
        if self._ready[index].is_set():
            return f"worker {index} has sent no heartbeat for {self._silent[index].seconds} s"
        return f"worker {index} is being started"

    def _serves(self, index: int) -> bool:
        return self._ready[index].is_set() and not self._silent[index].is_long

    def _rows(self) -> dict[str, dict[str, object]]:
        return {
            str(index): {
                "pid": process.pid,
                "ready": self._serves(index),
                "restarts": self.restarts[index],
                "hangs": self.hangs[index],
                "silent_seconds": self._silent[index].seconds if index in self._silent else 0,
            }
            for index, process in sorted(self._processes.items())
        }
