"""The whole program for tests: as a process with files of its own, or within the test's loop.

A process listens on free ports, keeps its data in the test's folder, and is ended by its own id.
Nothing waits for time to pass: `wait_until` asks again and again, with a deadline.
"""

import asyncio
import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Self, TypeVar

import httpx

from http_clients import blocking_client
from starter import Started, Starter

if TYPE_CHECKING:
    from rowcast.core.clock import WallClock
    from rowcast.kernel.feature import Feature
    from rowcast.program.features import Plug
    from rowcast.program.main import Application
    from rowcast.program.parts import Parts

IN_USE = "(Address already in use)"
PATIENCE_SECONDS = 120.0
"""The one deadline of these tests: far beyond what a busy machine with two cores needs."""
PROMPT_SECONDS = 15.0
"""What is done at once is done within it; no time limit of the server ends anything so early."""
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.01, 0.25
"""Between two looks at a condition, a tenth of the time that it was waited for: a look may cost six
requests to a cluster."""
ROWCAST = Path(sys.executable).parent / "rowcast"
STARTER = Starter()
SCHEMA = """
type Dog @table @export {
  id: ID @primaryKey
  name: String!
  age: Int
}
type Counter @table @export {
  id: ID @primaryKey
  n: Long!
}
type MyResource @table @export(name: "my-resource")
"""
RESOURCES = Path(__file__).parent.parent / "resources"

T = TypeVar("T")


def _children(pid: int) -> list[int]:
    """Return the child processes of a process, and theirs (proc(5), children)."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return [*children, *(below for child in children for below in _children(child))]


class TooLate(AssertionError):  # noqa: N818 - a failed expectation
    """What was waited for did not happen."""


def wait_until(condition: Callable[[], T], what: str) -> T:
    """Return what the condition returns as soon as that is true; fail after PATIENCE_SECONDS."""
    begun = time.monotonic()
    while not (answer := condition()):
        waited = time.monotonic() - begun
        if waited > PATIENCE_SECONDS:
            raise TooLate(f"not within {PATIENCE_SECONDS} s: {what}")
        select.select((), (), (), min(max(waited / 10, PAUSE_SECONDS), PAUSE_SECONDS_MAX))
    return answer


def environment() -> dict[str, str]:
    """Return the environment without settings of Rowcast that this shell may have."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ROWCAST_")}


def rowcast(
    *arguments: object,
    folder: Path | None = None,
    stdin: str = "",
    patience: float = PATIENCE_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, or kill it and raise subprocess.TimeoutExpired."""
    command = [str(x) for x in (ROWCAST, *arguments)]
    with TemporaryFile("w+") as given, TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        given.write(stdin)
        given.seek(0)
        process = STARTER.start(command, folder or Path.cwd(), environment(), (given, out, err))
        try:
            code = process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE_SECONDS)
            raise
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(command, code, out.read(), err.read())


class Server:
    """`rowcast serve` as a process; after `stop` or `kill` it may be started again."""

    def __init__(
        self,
        folder: Path,
        schema: str = SCHEMA,
        resources: Path = RESOURCES,
        settings: Mapping[str, object] | None = None,
        wrapper: Sequence[object] = (),
        anew: bool = False,
    ) -> None:
        self.folder = folder
        self.resources = resources
        self.settings = {"http.port": 0, "mqtt.network.port": 0} | dict(settings or {})
        self.wrapper = wrapper
        """A command that runs the server's, such as one that sets a limit."""
        self.anew = anew or bool(wrapper)
        """Started as a person starts it, not by `starter`, which has imported it already."""
        self.schema_file = folder / "schema.graphql"
        self.schema_file.write_text(schema)
        self.log_file = folder / "server.log"
        self.process: subprocess.Popen[bytes] | Started | None = None
        self._has_ports = False
        """Whether it was started before; later starts take the same ports."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:  # else it would go on beside all other tests
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.kill()

    @property
    def command(self) -> list[str]:
        """What is run."""
        settings = [f"--set={name}={value}" for name, value in self.settings.items()]
        options = ["--schema", self.schema_file, "--resources", self.resources]
        options += ["--data", self.folder / "data"]
        return [str(x) for x in (*self.wrapper, ROWCAST, "serve", *options, *settings)]

    def start(self) -> None:
        """Start it and wait until it is ready; later starts take the ports of the first."""
        self.launch()
        http, mqtt = wait_until(self._ports, "the server says where it listens")
        self.settings |= {"http.port": http, "mqtt.network.port": mqtt}
        self._has_ports = True

    def launch(self) -> None:
        """Start it and wait for nothing."""
        nothing = Path(os.devnull)
        with self.log_file.open("wb") as log, nothing.open("rb") as stdin:
            if self.anew:
                self.process = subprocess.Popen(
                    self.command, stderr=log, stdout=log, cwd=self.folder, env=environment()
                )
            else:
                files = (stdin, log, log)
                self.process = STARTER.start(self.command, self.folder, environment(), files)

    def _ports(self) -> tuple[int, int] | None:
        text = self.log
        found = re.search(
            r"//127\.0\.0\.1:(\d+)/ .*  MQTT +127\.0\.0\.1:(\d+) .*data ", text, re.DOTALL
        )
        if found:
            return int(found[1]), int(found[2])
        if self.process is None or self.process.poll() is not None:
            if not (self._has_ports and IN_USE in text):
                raise AssertionError(f"the server ended:\n{text}")
            self.launch()  # the system gave its port to a client meanwhile, for a moment
        return None

    def stop(self) -> int:
        """Ask it to stop (SIGTERM), wait, and return its exit code."""
        return self._end("terminate")

    def kill(self, *, children: bool = False) -> int:
        """End it at once (SIGKILL); with its ``children``, such as the applier of its log."""
        ended = self.children if children else ()
        code = self._end("kill")
        for pid in ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return code

    @property
    def children(self) -> list[int]:
        """The child processes of the server, such as the applier of its log."""
        return _children(self.running.pid)

    @property
    def applier(self) -> int:
        """The applier of its log: a child of the process that forks, without children itself."""
        (found,) = [pid for pid in self.children if not _children(pid)]
        return found

    def _end(self, how: str) -> int:
        process = self.running
        getattr(process, how)()
        try:
            return process.wait(PATIENCE_SECONDS)
        finally:
            self.process = None

    @property
    def running(self) -> "subprocess.Popen[bytes] | Started":
        """The process."""
        if self.process is None:
            raise AssertionError("the server was not started")
        return self.process

    @property
    def log(self) -> str:
        """What it has written since its start."""
        return self.log_file.read_text(errors="replace")

    @property
    def setup_code(self) -> str:
        """What the first user is made with, as long as there is none."""
        return re.findall(r"setup code (\S+),", self.log)[-1]

    @property
    def http_port(self) -> int:
        """Where it speaks HTTP."""
        return int(str(self.settings["http.port"]))

    @property
    def mqtt_port(self) -> int:
        """Where it speaks MQTT."""
        return int(str(self.settings["mqtt.network.port"]))

    @property
    def url(self) -> str:
        """Where it is for a browser, without the last slash."""
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def sockets(self) -> int:
        """How many sockets the process holds open."""
        return sum(_is_socket(path) for path in Path(f"/proc/{self.running.pid}/fd").iterdir())

    def request(self, method: str, path: str, **options: object) -> httpx.Response:
        """Ask once, on a connection of its own."""
        with self.client() as client:
            return client.request(method, path, **options)

    def client(self) -> httpx.Client:
        """Return an HTTP client for it."""
        return blocking_client(base_url=self.url, timeout=PATIENCE_SECONDS)


def _is_socket(path: Path) -> bool:
    try:
        return path.readlink().name.startswith("socket:")
    except OSError:  # closed meanwhile
        return False


def features_without(*names: str) -> "list[Plug]":
    """Return the features of every server but for these."""
    from rowcast.program.features import FEATURES, plugs_of

    known = {plug.name for plug in FEATURES}
    assert set(names) <= known
    return plugs_of(known - set(names))


def features_with(name: str, make: "Callable[[Parts], Feature | None]") -> "list[Plug]":
    """Return the features of every server, of which one is made in another way."""
    from rowcast.program.features import FEATURES, Plug

    assert name in {plug.name for plug in FEATURES}
    return [Plug(name, make) if plug.name == name else plug for plug in FEATURES]


@asynccontextmanager
async def application(
    folder: Path,
    schema: str = SCHEMA,
    settings: Mapping[str, object] | None = None,
    features: "Sequence[Plug] | None" = None,
    *,
    apart: bool = False,
    now: "WallClock | None" = None,
) -> AsyncIterator["Application"]:
    """Run the whole program within this loop; ``features`` None are those of every server.

    ``apart``: with its applier in a process of its own, as after a restart of it. ``now`` is its
    clock, that of the machine by default.
    """
    from rowcast.net.fork_server import Interpreters
    from rowcast.program.config import load_config
    from rowcast.program.features import FEATURES
    from rowcast.program.main import Application

    file = folder / "schema.graphql"
    file.write_text(schema)
    given = {"schema": file, "resources": RESOURCES, "data": folder / "data", "http.port": 0}
    given |= {"mqtt.network.port": 0} | dict(settings or {})
    plugs = features if features is not None else FEATURES
    processes = Interpreters() if apart else None
    running = Application(load_config(None, {}, given), now, features=plugs, processes=processes)
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds: what another process or thread does has no event to wait for."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():
            await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=0.005)
