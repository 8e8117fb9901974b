"""Measures what features cost: all servers run, and the features take turns, a round each.

Of each message it is the server's CPU time, all threads, and the bytes that the database grew by,
both over bursts; and the time until its reader has it, of messages one at a time.
"""

import base64
import json
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Protocol

import trustme

from bench.costs import FEATURES, PASSWORD, RULES, SERVERS, Feature, Setup
from bench.costs_links import (
    DONE,
    PATIENCE_SECONDS,
    Mqtt,
    Place,
    Reader,
    open_reader,
    open_writer,
)
from bench.proc import BenchError, Process, free_port
from bench.servers import ROOT
from bench.stats import percentile

BURST = 32
"""Messages that are written together, each to a topic of its own."""
SETTLE_SECONDS = 0.05
"""After the last burst: until a bridge has carried it on."""
QUICK_SHARE = 0.1
"""Of single messages: so many were as quick or quicker. The others tell more of the machine."""
PAYLOAD = json.dumps({"name": "Rex", "weight": 23.5, "note": "0123456789" * 3}).encode()
SERVE = "from rowcast.program.cli import main; main()"
HOOK = Path(__file__).parent / "features" / "hook"
MEGA = 1_000_000

Figures = dict[str, float]
"""What was measured of a feature: ``cpu`` and ``latency`` in microseconds, ``disk`` in bytes."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is measured."""

    rounds: int = 7
    bursts: int = 40
    singles: int = 100


class Launched(Protocol):
    """A process."""

    pid: int

    def wait_ready(self, ports: Sequence[int], /) -> None:
        """Return when all ports take connections."""

    def stop(self) -> None:
        """End it and wait for that."""


Launch = Callable[[Sequence[str], Path], Launched]
"""Runs ``rowcast ARGUMENTS``, with what it says in ``server.log`` of a folder."""


def launch_ours(arguments: Sequence[str], folder: Path) -> Process:
    """Run it as a person does."""
    command = [sys.executable, "-c", SERVE, *arguments]
    return Process(command, folder / "server.log", env={"PYTHONPATH": str(ROOT / "app")})


class Running:
    """A server that runs."""

    def __init__(
        self, name: str, setup: Setup, folder: Path, remote: "Running | None", launch: Launch
    ) -> None:
        folder.mkdir()
        self._data, self._users = folder / "data", setup.users
        self._log = folder / "server.log"
        schema, authority = folder / "schema.graphql", folder / "authority.pem"
        schema.write_text(setup.schema)
        # the former name of client_events.enabled, for comparisons with older revisions
        settings = {"mqtt.sys_interval": 0, "events.enabled": "false"} | setup.settings
        tls_port = free_port() if name == "tls" else 0
        if tls_port:
            settings |= _certificate(folder, authority) | {"mqtt.network.securePort": tls_port}
            settings |= {"http.securePort": "off"}
        if remote is not None:
            broker = {"name": "there", "host": "127.0.0.1", "port": remote.place.mqtt_port}
            settings |= {"gateway.brokers": json.dumps([broker | {"out": [{"filter": "bench/#"}]}])}
        self.place = Place(free_port(), free_port(), tls_port, authority)
        ports = [self.place.http_port, self.place.mqtt_port]
        settings |= dict(zip(("http.port", "mqtt.network.port"), ports, strict=True))
        command = ["serve", "--data", str(self._data), "--schema", str(schema)]
        command += ["--resources", str(HOOK if setup.hook else folder / "none")]
        command += [f"--set={key}={value}" for key, value in settings.items()]
        self.process = launch(command, folder)
        self._waits_for = [*ports, *([tls_port] if tls_port else [])]

    def ready(self, setup: Setup) -> None:
        """Wait until it answers; make users and rules."""
        self.process.wait_ready(self._waits_for)
        if setup.users:
            first = {"password": PASSWORD, "roles": ["admin"], "setup_code": self._setup_code()}
            self._put("users/root", first)
            self._put("users/ann", {"password": PASSWORD, "roles": ["member"]})
        for number in range(RULES if setup.rules else 0):
            rule = {"filter": f"home/{number}/#", "effect": "deny", "actions": ["publish"]}
            self._put(f"rules/r{number}", rule)

    def _setup_code(self) -> str:
        """Return what the server says that the first user takes."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (found := re.search(r"setup code (\S+),", self._log.read_text())):
            if time.monotonic() > deadline:
                raise BenchError("the server does not say how the first user is made")
            time.sleep(SETTLE_SECONDS)
        return found[1]

    def _put(self, path: str, value: dict[str, object]) -> None:
        self._ask("PUT", path, json.dumps(value), anonymous=path == "users/root")

    def prove(self, setup: Setup) -> None:
        """Raise unless it has done what it is measured for."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while setup.shows and not json.loads(self._ask("GET", setup.shows)):
            if time.monotonic() > deadline:
                raise BenchError(f"nothing is at $SYS/{setup.shows}")
            time.sleep(SETTLE_SECONDS)

    def _ask(self, method: str, path: str, body: str = "", *, anonymous: bool = False) -> bytes:
        connection = HTTPConnection("127.0.0.1", self.place.http_port, timeout=PATIENCE_SECONDS)
        headers = {"Content-Type": "application/json"} if body else {}
        if self._users and not anonymous:
            token = base64.b64encode(f"root:{PASSWORD}".encode()).decode()
            headers |= {"Authorization": f"Basic {token}"}
        connection.request(method, f"/$SYS/{path}", body or None, headers)
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        if answer.status >= 300:
            raise BenchError(f"{method} {path}: {answer.status} {said.decode()}")
        return said

    def cpu_us(self) -> float:
        """Return the CPU time of all its threads."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1000

    def disk_bytes(self) -> int:
        """Return how much of its database is in use."""
        database = sqlite3.connect(f"file:{self._data / 'rowcast.db'}?mode=ro", uri=True)
        try:
            read = [database.execute(f"pragma {name}").fetchone()[0] for name in _PAGES]
        finally:
            database.close()
        return (read[0] - read[1]) * read[2]


_PAGES = ("page_count", "freelist_count", "page_size")


def _certificate(folder: Path, authority: Path) -> dict[str, object]:
    made = trustme.CA()
    shown, key = folder / "server.pem", folder / "server.key"
    leaf = made.issue_cert("localhost")
    made.cert_pem.write_to_path(authority)
    leaf.cert_chain_pems[0].write_to_path(shown)
    leaf.private_key_pem.write_to_path(key)
    return {"tls.certificate": shown, "tls.privateKey": key}


class Measured:
    """A feature, its two clients, and what each round gave."""

    def __init__(self, feature: Feature, server: Running, closing: ExitStack) -> None:
        self.feature = feature
        self._server = server
        had = feature.had
        self._place = f"{had.topic}/{feature.name}"
        self._reader: Reader = open_reader(server.place, feature.name, had, self._place, closing)
        self._writer: Mqtt = open_writer(server.place, feature.name, had, closing)
        self.rounds: list[Figures] = []

    def round(self, amount: Amount) -> None:
        """Measure once."""
        topics = [f"{self._place}/{number}" for number in range(BURST)]
        self._burst(topics)
        disk, cpu = self._server.disk_bytes(), self._server.cpu_us()
        for _ in range(amount.bursts):
            self._burst(topics)
        time.sleep(SETTLE_SECONDS)
        count = amount.bursts * BURST
        figures = {"cpu": (self._server.cpu_us() - cpu) / count}
        figures["disk"] = (self._server.disk_bytes() - disk) / count
        times: list[float] = []
        for number in range(amount.singles):
            begin = time.perf_counter()
            self._writer.publish(topics[number % BURST :][:1], PAYLOAD, self.feature.had)
            self._reader.take(1)
            times.append(time.perf_counter() - begin)
            self._acknowledged(1)
        self.rounds.append(figures | {"latency": percentile(sorted(times), QUICK_SHARE) * MEGA})

    def _burst(self, topics: Sequence[str]) -> None:
        self._writer.publish(topics, PAYLOAD, self.feature.had)
        self._acknowledged(len(topics))  # first: a refusal says why
        self._reader.take(len(topics))

    def _acknowledged(self, count: int) -> None:
        if self.feature.had.qos:
            self._writer.take(count, DONE)

    @property
    def figures(self) -> Figures:
        """The least of all rounds, in which the machine did least besides; of disk the median."""
        figures = {name: min(item[name] for item in self.rounds) for name in ("cpu", "latency")}
        return figures | {"disk": median(item["disk"] for item in self.rounds)}


def measure(folder: Path, amount: Amount, launch: Launch = launch_ours) -> dict[str, Figures]:
    """Return the figures of every feature, by name."""
    with ExitStack() as closing:
        servers: dict[str, Running] = {}
        for name, setup in SERVERS.items():
            remote = servers["plain"] if setup.bridge else None
            servers[name] = Running(name, setup, folder / name, remote, launch)
            closing.callback(servers[name].process.stop)
        for name, setup in SERVERS.items():
            servers[name].ready(setup)
        subjects = [Measured(item, servers[item.server], closing) for item in FEATURES]
        for _ in range(amount.rounds):
            for subject in subjects:
                with _named(subject.feature):
                    subject.round(amount)
        for name, setup in SERVERS.items():
            servers[name].prove(setup)
        return {item.feature.name: item.figures for item in subjects}


@contextmanager
def _named(feature: Feature) -> Iterator[None]:
    try:
        yield
    except (OSError, BenchError) as error:
        raise BenchError(f"{feature.name}: {error}") from error
