"""Starts the command `rowcast` again and again without importing it again: that takes a second.

A process of our own, `python starter.py FD`, imports what `rowcast serve` imports and then only
forks. What it starts is a whole program: a process that a signal ends, with its own environment,
files and exit. What a person starts is proved by `tests/e2e/test_e2e_program.py`, without this.
"""

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

MESSAGE_BYTES_MAX = 131_072
"""One request: the arguments, the folder and the environment, which is most of it."""
DESCRIPTORS = 4
"""With each request: standard input, output and error of the program, and where its end is told."""
STANDARD = range(3)
DESCRIPTORS_MAX = 1024
"""More than this process ever has open."""
EXIT_BYTES = 4
LATE_IMPORTS = (
    "rowcast.program.main",
    "rowcast.program.node",
    "rowcast.program.commands.serving",
    "rowcast.api",
    "anyio._backends._asyncio",
    "httpcore",
    "typer._adapters",
    "uvicorn.lifespan.off",
    "uvicorn.protocols.websockets.websockets_sansio_impl",
)
"""What `rowcast serve` and the clients import when they get there."""
ASKED_FOR = {
    "backup": "rowcast.program.backups",
    "cluster.engine": "rowcast.engines.postgres",
    "cluster.name": "rowcast.engines.nats_group",
    "cluster.peers": "rowcast.engines.jetstream",
    "export": "rowcast_lake.snapshots.export",
    "import": "rowcast_lake.snapshots.importing",
    "log.archive": "rowcast_lake.archive.log_files",
    "log.archive_location": "rowcast_lake.archive.store_place",
    "restore": "rowcast.program.backups",
    "workers.count": "rowcast.program.worker",
}
"""What is imported for a setting, or by a command that runs."""
SOME_SCHEMA = "type Dog @table @export { id: ID @primaryKey  name: String }"
"""With the first one the standard directives are parsed."""


# -- in tests --------------------------------------------------------------------------------------


class Started:
    """A process, with the part of subprocess.Popen that tests use."""

    def __init__(self, pid: int, ended: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = ended

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while it runs."""
        if self.returncode is None and self._has_ended(0):
            told = os.read(self._ended, EXIT_BYTES)
            os.close(self._ended)
            self.returncode = int.from_bytes(told, "big", signed=True)
        return self.returncode

    def _has_ended(self, seconds: float | None) -> bool:
        """Wait for so long at most; not by ``select``, which takes no descriptor beyond 1023."""
        told = select.poll()
        told.register(self._ended, select.POLLIN)
        return bool(told.poll(None if seconds is None else seconds * 1000))

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return the exit code."""
        if self.returncode is None:
            self._has_ended(timeout)
        if self.poll() is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


class Starter:
    """The process that forks, started with the first request, ended with this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        files: Sequence[IO[Any]],
    ) -> Started:
        """Run ``rowcast ARGUMENTS``; ``files`` are its standard input, output and error."""
        request = {"arguments": arguments, "folder": str(folder), "environment": environment}
        ended, tells = os.pipe()
        with self._lock:
            requests = self._requests or self._begin()
            descriptors = [*(file.fileno() for file in files), tells]
            socket.send_fds(requests, [json.dumps(request, default=dict).encode()], descriptors)
            os.close(tells)
            answer = requests.recv(MESSAGE_BYTES_MAX)
        assert answer, "the process that starts servers has ended"
        return Started(int(answer), ended)

    def _begin(self) -> socket.socket:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            command = [sys.executable, __file__, str(number)]
            self._process = subprocess.Popen(command, pass_fds=[number])
        return self._requests

    def end(self) -> None:
        """End it; what it started goes on."""
        if self._requests is not None and self._process is not None:
            self._requests.close()
            self._process.wait()
            self._requests = self._process = None


# -- in the process that forks ---------------------------------------------------------------------


def fork_on_request(requests: socket.socket) -> None:
    """Answer each request with the number of a new process; return in that, or exit at the end."""
    running: dict[int, tuple[int, int]] = {}
    while True:
        for ready in select.select([requests, *running], (), ())[0]:
            if ready is not requests:
                pid, tells = running.pop(ready)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                os.write(tells, code.to_bytes(EXIT_BYTES, "big", signed=True))
                os.close(tells)
                os.close(ready)
                continue
            message, files, *_ = socket.recv_fds(requests, MESSAGE_BYTES_MAX, DESCRIPTORS)
            if not message:
                sys.exit()
            request = json.loads(message)
            import_for(request["arguments"])
            pid = os.fork()
            if pid == 0:
                become(request, files)
                return
            running[os.pidfd_open(pid)] = pid, files.pop()
            for file in files:
                os.close(file)
            requests.send(str(pid).encode())


def import_for(arguments: Sequence[str]) -> None:
    """Import and make what a command begins with, so that the next one like it has that, too."""
    words = [word.removeprefix("--set=").partition("=")[0] for word in arguments]
    cli = importlib.import_module("rowcast.program.cli")
    for name in words[1:2]:
        if name in cli.COMMANDS:
            cli.load_command(name)
    for name in ASKED_FOR.keys() & set(words):
        importlib.import_module(ASKED_FOR[name])
    gc.freeze()  # else the first collection of each fork copies all memory


def become(request: dict[str, Any], files: Sequence[int]) -> None:
    """Make this process what a shell would have made."""
    for number in STANDARD:
        os.dup2(files[number], number)
    os.closerange(len(STANDARD), DESCRIPTORS_MAX)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["arguments"]
    sys.path[0] = str(Path(sys.argv[0]).parent)


def prepare() -> None:
    """Import all, and do what each server does in the same way once and for all its life."""
    for name in LATE_IMPORTS:
        importlib.import_module(name)
    importlib.import_module("rowcast.schema").parse_schema(SOME_SCHEMA)
    importlib.import_module("rowcast.store.sql_tables").create_own_statements()
    importlib.import_module("rowcast.program.process").loop_factory()  # which imports uvloop
    cli = importlib.import_module("rowcast.program.cli")
    cli.load_command = cache(cli.load_command)
    cli.load_command("serve").make_context("serve", ["--data", "x"])


def run_to_the_end(run: Callable[[], object]) -> None:
    """Run a command, and end as Python does, except that no object is freed at the end.

    That would touch, and so copy, all memory that a fork shares: a quarter of the CPU time of a
    start and a stop. What a person starts ends whole.
    """
    code: object = 0
    try:
        run()
    except SystemExit as end:
        code = end.code or 0
    if not isinstance(code, int):
        sys.exit(str(code))
    threading._shutdown()  # waits for threads, as Python does first
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    """Prepare, then fork; in each fork be the command."""
    gc.disable()  # what an import makes stays: looking for garbage takes a third of the time
    run = importlib.import_module("rowcast.program.cli").main
    prepare()
    gc.freeze()  # else the first collection of each fork copies all memory
    given = int(sys.argv[1])  # who gave it may have a thousand others, which select does not take
    with socket.socket(fileno=os.dup(given)) as requests:
        os.close(given)
        fork_on_request(requests)
        requests.detach()
    gc.enable()
    run_to_the_end(run)


if __name__ == "__main__":
    main()
