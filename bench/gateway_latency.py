"""Measures what bridges add to a local write, and whether one that is down slows another.

    PYTHONPATH=scripts .venv/bin/python -m bench.gateway_latency [rounds]

Servers that differ only in their bridges run in one process, and write in turns, a block each, so
that whatever else the machine does falls on all of them. The other broker is a Mosquitto; "down" is
a port where nobody listens. The times are those of a writer, until its write is committed.
"""

import asyncio
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from bench.proc import Placement
from bench.servers import start_mosquitto
from bench.stats import percentile
from rowcast.core.callers import SERVER
from rowcast.core.events import MESSAGE, Event
from rowcast.features.bridges.bridge import Bridge
from rowcast.features.bridges.link import Link
from rowcast.features.bridges.remote import Remote
from rowcast.program.config import Config
from rowcast.program.main import Application

BLOCK_WRITES = 50
PAYLOAD = b"x" * 64
PATIENCE_SECONDS = 30
LOOK_SECONDS = 0.002


class Subject:
    """One server, and the times that it took."""

    def __init__(self, name: str, folder: Path, ports: dict[str, int]) -> None:
        self.name = name
        self.topic = f"bench/{name}"
        self.writes: list[float] = []
        self.single: list[float] = []
        """Times of writes that came when the bridge had done the one before."""
        self.arrivals: list[float] = []
        folder.mkdir()
        (folder / "none.graphql").write_text("type Dog @table {\n  id: ID @primaryKey\n}\n")
        brokers = [
            {"name": broker, "host": "127.0.0.1", "port": port, "reconnect_interval_ms": 500,
             "client_id": f"{broker} of {name}", "out": [{"filter": "bench/#"}]}
            for broker, port in ports.items()
        ]  # fmt: skip
        ports_of_its_own = {"http": {"port": 0}, "mqtt": {"network": {"port": 0}}}
        self.application = Application(
            Config.model_validate(
                {"data": folder, "schema": folder / "none.graphql",
                 "gateway": {"brokers": brokers}} | ports_of_its_own
            )
        )  # fmt: skip

    @property
    def bridge(self) -> Bridge | None:
        """The bridge that works."""
        return self.application.features["bridges"].gateway.bridges.get("there")

    async def write(self) -> None:
        """Write once."""
        begin = time.perf_counter()
        event = Event(self.topic, MESSAGE, PAYLOAD, qos=1)
        await self.application.kernel.write(event, SERVER)
        self.writes.append(time.perf_counter() - begin)

    async def settled(self) -> None:
        """Wait until the bridge that works has delivered all."""
        bridge = self.bridge
        await asyncio.sleep(LOOK_SECONDS)  # so that all come from a rest
        async with asyncio.timeout(PATIENCE_SECONDS):
            while bridge and not bridge.idle:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(LOOK_SECONDS)

    def report(self) -> str:
        """Return its line of the table."""
        parts = []
        for times in (self.single, self.writes, self.arrivals):
            ordered = sorted(times)
            parts += [f"{percentile(ordered, share) * 1000:10.3f}" for share in (0.5, 0.99)]
        return f"{self.name:24}{''.join(parts)}"


class Ear:
    """Who waits at the other broker for the next message."""

    def __init__(self, port: int) -> None:
        self._link = Link(Remote("127.0.0.1", port, client_id="ear"), lambda _why: None)
        self._came = asyncio.Event()

    async def open(self) -> None:
        """Begin to listen."""
        await self._link.open(self._hear, [("bench/#", 1)])

    async def _hear(self, *_: object) -> bool:
        self._came.set()
        return True

    async def arrival(self, write: Callable[[], Awaitable[None]]) -> float:
        """Return how long a write takes until it is heard here."""
        self._came.clear()
        begin = time.perf_counter()
        await write()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._came.wait()
        return time.perf_counter() - begin


def closed_port() -> int:
    """Return a port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def measure(folder: Path, rounds: int, port: int) -> None:
    """Measure all subjects in turns, and print the table."""
    down = {"down": closed_port()}
    kinds: dict[str, dict[str, int]] = {
        "no bridge": {}, "hot": {"there": port}, "cold": down,
        "hot, another is down": {"there": port} | down,
    }  # fmt: skip
    ear = Ear(port)
    await ear.open()
    async with AsyncExitStack() as stack:
        subjects = []
        for name, ports in kinds.items():
            subject = Subject(name, folder / name.replace(" ", "-"), ports)
            await subject.application.start()
            stack.push_async_callback(subject.application.stop)
            await subject.settled()
            subjects.append(subject)
        for count in range(rounds):
            for subject in subjects[count % 4 :] + subjects[: count % 4]:
                for _ in range(BLOCK_WRITES):
                    await subject.write()
                await subject.settled()
                for _ in range(10):
                    await subject.write()
                    subject.single.append(subject.writes.pop())
                    await subject.settled()
        for _ in range(rounds * 5):
            for subject in subjects:
                if subject.bridge:
                    subject.arrivals.append(await ear.arrival(subject.write))
        heads = ("one p50", "p99", "row p50", "p99", "there p50", "p99")
        print(f"{'milliseconds':24}" + "".join(f"{head:>10}" for head in heads))
        for subject in subjects:
            print(subject.report())


def main() -> None:
    """Run as many rounds as the command line says."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory(prefix="rowcast-gateway-") as name:
        (folder := Path(name) / "mosquitto").mkdir()
        peer = start_mosquitto(folder, Placement().servers, "set_tcp_nodelay true\n")
        try:
            peer.process.wait_ready([peer.mqtt_port])
            asyncio.run(measure(Path(name), rounds, peer.mqtt_port))
        finally:
            peer.process.stop()


if __name__ == "__main__":
    main()
