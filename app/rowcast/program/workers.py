"""Worker processes of one server: started, watched and ended by the process that owns the log.

A worker (``worker.py``) is the same program with the log behind a socket. It is started again when
it has ended; it ends itself when this process has gone.
"""

import asyncio
import logging
import pickle
import secrets
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Final

from rowcast.cluster.messages import pack_applied
from rowcast.cluster.sequencer_links import SequencerLinks
from rowcast.cluster.sockets import SequencerSocket
from rowcast.cluster.unlogged import UnloggedEvents
from rowcast.core.errors import Code, Error
from rowcast.core.limits import SHUTDOWN_SECONDS_MAX
from rowcast.core.topics import RULES, TopicFilter
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.rights.feature import AccessRights
from rowcast.journal.applying import Applied
from rowcast.journal.journaled_store import JournaledStore
from rowcast.kernel.kernel import Kernel
from rowcast.kernel.registry import Registry
from rowcast.kernel.rows.figure_rows import listed_rows
from rowcast.kernel.sequencing import SequencingCommitter
from rowcast.net.listener import bind
from rowcast.program.config import Config
from rowcast.program.rule_follower import RuleFollower
from rowcast.schema.schema import Schema

log = logging.getLogger("rowcast.workers")

RESTART_SECONDS: Final = 1.0
"""Before a worker that has ended is started again, so that one that fails at once costs little."""
START_SECONDS: Final = 60.0
"""Until a worker listens: it imports the server, on a busy machine."""
SOCKET: Final = "workers.sock"
PATH: Final = "$SYS/workers"
READY: Final = b"ready"
_PACKAGES: Final = str(Path(__file__).parents[2])
_START: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from rowcast.program.worker import main; main()"
)
"""A worker runs the code that this process runs, wherever that was imported from."""


def check_workers(config: Config, registry: Registry, hooks: Hooks) -> None:
    """Raise INVALID for what a server with workers would do wrong."""
    problem = of_one_process(registry, hooks)
    if not (problem or _offers_http(config)):
        problem = "http.port is off, and what workers refuse is offered there"
    elif not (problem or config.database_url.startswith("sqlite:")):
        problem = "store.url names no SQLite file, which workers read"
    if problem:
        raise Error(
            Code.INVALID, f"workers cannot be started: {problem}; leave --workers out, or that"
        )


def of_one_process(registry: Registry, hooks: Hooks) -> str:
    """Return what of a project has state in one process; empty if nothing has."""
    classes = [entry.path for entry in registry.entries if entry.resource is not None]
    if classes:
        return f"there is a resource class at {classes[0]!r}, which has one state in one process"
    return "there are hooks, which have one state in one process" if hooks.registered else ""


def _offers_http(config: Config) -> bool:
    """Whether the server itself has a port of HTTP: the secure one needs a certificate."""
    secure = config.tls.certificate is not None and config.http.secure_port is not None
    return secure or config.http.port is not None


class Workers:
    """All worker processes of one server."""

    def __init__(
        self, config: Config, kernel: Kernel, store: JournaledStore, schema: Schema
    ) -> None:
        self._config = config
        self._tables = {table.name: table for table in schema.tables}
        committer = kernel.committer
        assert isinstance(committer, SequencingCommitter)  # noqa: S101 - ``main.py`` has made it
        self._kernel = kernel
        self._links = SequencerLinks(
            committer, store, store.log, self._tables.get, schema=schema.text
        )
        self._socket = SequencerSocket(config.data / SOCKET, self._links)
        self._unlogged = UnloggedEvents(committer, self._links.pass_on)
        self._links.on_events.append(self._unlogged.take)
        self._watching: list[asyncio.Task[None]] = []
        self._processes: dict[int, Process] = {}
        self._ready: dict[int, asyncio.Event] = {}
        self.restarts = [0] * config.workers.count
        self._stopping = False
        loop = asyncio.get_running_loop()

        def applied(report: Applied) -> None:
            loop.call_soon_threadsafe(self._links.tell_applied, pack_applied(report))

        store.on_applied = applied
        kernel.rows(PATH, listed_rows(PATH, self._rows))

    def follow_rules(self, rights: AccessRights) -> None:
        """Have rules that are written at a worker be applied here."""
        self._kernel.bus.add(TopicFilter(f"{RULES}/+"), RuleFollower(rights.rules))

    async def start(self) -> None:
        """Start all workers, and wait until they listen. Raises BUSY when one does not."""
        config, shared = self._config, self._config.workers
        host = config.http.host
        try:  # it is bound and does not listen, so it keeps the port and gets no connection
            self._kept = bind(host, shared.http_port, shared=True)
        except OSError as error:
            what = f"workers cannot listen on {host}:{shared.http_port} ({error.strerror})"
            raise Error(
                Code.BUSY, f"{what}; choose another port with --set workers.http_port=..."
            ) from error
        self.port = int(self._kept.getsockname()[1])
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

    async def _watch(self, index: int) -> None:
        """Start a worker again and again."""
        while not self._stopping:
            process = await self._spawn(index)
            code = await process.wait()
            self._ready[index].clear()
            if self._stopping:
                return
            self.restarts[index] += 1
            log.error("worker %d has ended (%d) and is started again", index, code)
            await asyncio.sleep(RESTART_SECONDS)

    async def _spawn(self, index: int) -> Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _START, _PACKAGES, stdin=PIPE, stdout=PIPE
        )
        self._processes[index] = process
        node = f"worker{index}/{secrets.token_hex(8)}"
        order = pickle.dumps((self._config, self.port, str(self._socket.place), node))
        assert process.stdin is not None  # noqa: S101 - a pipe, as asked for
        assert process.stdout is not None  # noqa: S101 - likewise
        try:
            process.stdin.write(order)
            await process.stdin.drain()
            process.stdin.close()
            if (await process.stdout.readline()).strip() == READY:
                self._ready[index].set()
        except OSError:
            log.warning("worker %d has ended before it was told what to do", index)
        return process

    async def stop(self) -> None:
        """End all workers, which finish what they have begun."""
        self._stopping = True
        for process in self._processes.values():
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
        if self._watching:
            _, late = await asyncio.wait(self._watching, timeout=SHUTDOWN_SECONDS_MAX)
            for task in late:
                task.cancel()
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()
                await process.wait()
        self._socket.stop()
        if isinstance(getattr(self, "_kept", None), socket.socket):
            self._kept.close()

    def lines(self) -> list[str]:
        """Return the address as a line, for the person who started the server."""
        scheme = "https" if self._config.tls.certificate is not None else "http"
        url = f"{scheme}://{self._config.http.host}:{self.port}"
        return [f"  tables, by {self._config.workers.count} workers   {url}/"]

    def _rows(self) -> dict[str, dict[str, object]]:
        return {
            str(index): {
                "pid": process.pid,
                "ready": self._ready[index].is_set(),
                "restarts": self.restarts[index],
            }
            for index, process in sorted(self._processes.items())
        }
