"""What is measured: one server, three nodes, a server with workers, and three servers of NATS."""

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from bench.proc import POLL_SECONDS, BenchError, Placement, Process, accepts, free_port
from bench.servers import ROOT, SCHEMA
from rowcast.engines.nats_connection import Connection
from rowcast.engines.nats_server import NatsServer, ServerSettings

NODES = "abc"
SETTLE_SECONDS = 120.0
"""For three nodes and their engines to start, on a machine that does other things too."""
STORE_BYTES = 4 << 30
NO_SETTINGS: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True)
class Place:
    """One process, and where it listens."""

    process: Process
    http_port: int
    mqtt_port: int


def start(directory: Path, cores: frozenset[int], settings: Mapping[str, object]) -> Place:
    """Start a server, and wait until its ports are open."""
    directory.mkdir(parents=True)
    schema = directory / "schema.graphql"
    schema.write_text(SCHEMA)
    given = {"http.port": free_port(), "mqtt.network.port": free_port(), **settings}
    command: list[str | Path] = [ROOT / ".venv/bin/rowcast", "serve", "--schema", schema]
    command += ["--data", directory / "data"]
    command += [f"--set={name}={value}" for name, value in given.items()]
    process = Process(command, directory / "server.log", cores)
    return Place(process, int(str(given["http.port"])), int(str(given["mqtt.network.port"])))


@contextmanager
def one(
    directory: Path, place: Placement, settings: Mapping[str, object] = NO_SETTINGS
) -> Iterator[Place]:
    """Run a server of its own; it listens at all ports that ``settings`` name."""
    found = start(directory, place.servers, settings)
    ports = [int(str(value)) for name, value in settings.items() if name.lower().endswith("port")]
    try:
        found.process.wait_ready([found.http_port, found.mqtt_port, *ports], SETTLE_SECONDS)
        yield found
    finally:
        found.process.stop()


@contextmanager
def three(directory: Path, place: Placement) -> Iterator[list[Place]]:
    """Run three nodes, each with its server of NATS; the first one is the sequencer."""
    peers = ",".join(f"{name}=127.0.0.1:{route_port()}" for name in NODES)
    shared = {"cluster.name": "bench", "cluster.peers": peers}
    shared["cluster.secret"] = secrets.token_hex(16)
    with ExitStack() as stack:
        found = []
        for name in NODES:
            settings = {**shared, "cluster.node": name}
            found.append(start(directory / name, place.servers, settings))
            stack.callback(found[-1].process.stop)
        yield settled(found)


def route_port() -> int:
    """Return a port that is free, and the next one as well."""
    while True:
        port = free_port()
        if not accepts(port + 1):
            return port


def settled(places: list[Place]) -> list[Place]:
    """Wait until all are ready; return the sequencer first, then the followers."""
    limit = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < limit:
        roles = [role_of(place) for place in places]
        if sorted(roles) == ["follower", "follower", "sequencer"]:
            return sorted(places, key=lambda place: roles[places.index(place)], reverse=True)
        time.sleep(POLL_SECONDS)
    raise BenchError(f"three nodes are not ready: {places[0].process.said()}")


def role_of(place: Place) -> str:
    """Return the role of a node, empty while it is not ready."""
    if place.process.child.poll() is not None:
        raise BenchError(f"a node has ended: {place.process.said()}")
    base = f"http://127.0.0.1:{place.http_port}"
    try:
        with urlopen(f"{base}/health/ready", timeout=POLL_SECONDS * 100):
            pass
        with urlopen(f"{base}/$SYS/cluster/nodes/", timeout=POLL_SECONDS * 100) as answer:
            rows = json.load(answer)
    except (HTTPError, URLError, OSError):
        return ""
    address = {row["node"]: row["role"] for row in rows}
    return str(address.get(place.process.log.parent.name, ""))


@contextmanager
def nats(directory: Path) -> Iterator[list[Connection]]:
    """Run three servers of NATS that sync what they acknowledge, as nodes configure theirs."""
    peers = {name: f"127.0.0.1:{free_port()}" for name in NODES}
    secret = secrets.token_hex(16)
    with ExitStack() as stack:
        found = []
        for name in NODES:
            settings = ServerSettings("bare", name, peers, secret, directory / name, STORE_BYTES)
            server = NatsServer(settings)
            stack.callback(server.stop)
            found.append(server.start())
        yield found
