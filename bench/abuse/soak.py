"""The command of `scripts/soak`: 200 clients of all kinds, and whether the memory stays bounded.

Topics and keys are from a fixed set, so what the server has to remember is bounded too: what still
grows at the end is a leak, or something whose bound was not reached yet.
"""

import argparse
import asyncio
import itertools
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from bench import frames
from bench.abuse.talk import EVENTS, raise_descriptors, request, unique
from bench.proc import Process, free_port, rss_bytes

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = "type Probe @table @export { id: ID @primaryKey v: Long text: String }\n"
CLIENTS = {
    "plain": 40, "sure": 40, "kept": 20, "put": 10, "reader": 50, "durable": 20, "events": 10,
    "short": 10,
}  # fmt: skip
"""How many there are of each kind."""
WRITERS = ("plain", "sure", "kept", "put")
KEYS = 5_000
SAMPLE_SECONDS = 10.0
SETTLED_SECONDS = 180.0
GAUGE = '''
import collections, ctypes, gc, json, sys, threading, time
from pathlib import Path
from rowcast import Resource

class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]

C = ctypes.CDLL(None)
C.mallinfo2.restype = Mallinfo

def types():
    found = collections.Counter()
    for item in gc.get_objects():
        found[f"{type(item).__module__}.{type(item).__qualname__}"] += 1
    return found

def watch():
    begun, first = time.monotonic(), None
    with Path(FILE).open("w") as out:
        while True:
            time.sleep(10)
            info = C.mallinfo2()
            facts = {"s": round(time.monotonic() - begun), "blocks": sys.getallocatedblocks(),
                     "malloc_used": info.uordblks + info.hblkhd, "malloc_free": info.fordblks}
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith(("RssAnon", "RssFile")):
                    facts[line.split(":")[0]] = int(line.split()[1]) * 1024
            if facts["s"] >= 180 and facts["s"] % 60 < 10:
                now = types()
                first = first or now
                facts["grown"] = [(k, first[k], n) for k, n in now.most_common(400)
                                  if n > 1.1 * first[k] + 50][:60]
            print(json.dumps(facts), file=out, flush=True)

threading.Thread(target=watch, daemon=True).start()

class Gauge(Resource):
    """Only there to be loaded."""
'''
"""A resource that counts from within: what malloc has given out, and objects by their type."""


class Crowd:
    """All clients, and what they wrote and heard."""

    def __init__(self, mqtt_port: int, http_port: int, rate: float) -> None:
        self._mqtt_port = mqtt_port
        self._http_port = http_port
        self._pause = sum(CLIENTS[kind] for kind in WRITERS) / rate
        """Seconds between two writes of one writer."""
        self.written = self.heard = self.lost = 0

    async def run(self) -> None:
        """Be all of them until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind, count in CLIENTS.items():
                for number in range(count):
                    group.create_task(self._again(getattr(self, f"_{kind}"), number))

    async def _again(self, client: Callable[[int], Awaitable[None]], number: int) -> None:
        await asyncio.sleep(random.random() * 3)
        while True:
            try:
                await client(number)
            except (OSError, EOFError):
                self.lost += 1
                await asyncio.sleep(1)

    @asynccontextmanager
    async def _mqtt(
        self, client_id: str, *, clean: bool = True
    ) -> AsyncIterator[asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._mqtt_port)
        writer.write(frames.connect(client_id, 0, clean=clean))
        listening = asyncio.create_task(self._listen(reader, writer))
        try:
            yield writer
            writer.write(frames.disconnect())
            await writer.drain()
        finally:
            listening.cancel()
            writer.close()

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rest = b""
        while data := await reader.read(65_536):
            rest += data
            end, acknowledged = 0, []
            for start, body, end in frames.split(rest, len(rest)):  # noqa: B007
                if rest[start] & 0xF0 == frames.PUBLISH:
                    self.heard += 1
                    if rest[start] & 0x06:
                        at = frames.packet_id_at(rest, body)
                        acknowledged.append(int.from_bytes(rest[at : at + 2], "big"))
            rest = rest[end:]
            if acknowledged:
                writer.write(frames.acks(frames.PUBACK, acknowledged))
        writer.close()

    async def _write(
        self, client_id: str, qos: int, topic: Callable[[], str], **more: bool
    ) -> None:
        async with self._mqtt(client_id) as writer:
            for number in itertools.count():
                payload = b'{"v": 1, "text": "%s"}' % (b"x" * random.randrange(50, 500))
                packet_id = number % 60_000 + 1 if qos else 0
                writer.write(frames.publish(topic(), payload, qos, packet_id, **more))
                await writer.drain()
                if writer.is_closing():
                    raise ConnectionResetError
                self.written += 1
                await asyncio.sleep(self._pause)

    async def _plain(self, number: int) -> None:
        await self._write(f"plain{number}", 0, lambda: f"soak/plain/{number}")

    async def _sure(self, number: int) -> None:
        await self._write(f"sure{number}", 1, lambda: f"soak/sure/{number}")

    async def _kept(self, number: int) -> None:
        def topic() -> str:
            return f"soak/kept/{random.randrange(KEYS)}"

        await self._write(f"kept{number}", number % 2, topic, retain=True)

    async def _put(self, _number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._http_port)
        try:
            while True:
                body = b'{"v": 1, "text": "%s"}' % (b"x" * random.randrange(50, 500))
                path = f"/Probe/{random.randrange(KEYS)}"
                writer.write(request("PUT", path, body, "application/json"))
                head = await reader.readuntil(b"\r\n\r\n")
                for line in head.lower().split(b"\r\n"):
                    if line.startswith(b"content-length:"):
                        await reader.readexactly(int(line.split(b":")[1]))
                self.written += 1
                await asyncio.sleep(self._pause)
        finally:
            writer.close()

    async def _reader(self, number: int) -> None:
        wanted = [f"soak/+/{number}"] if number % 10 else ["soak/#", "Probe/+"]
        async with self._mqtt(f"reader{number}") as writer:
            writer.write(frames.subscribe_all(wanted, number % 2))
            await writer.wait_closed()
        raise ConnectionResetError

    async def _durable(self, number: int) -> None:
        async with self._mqtt(f"durable{number}", clean=False) as writer:
            writer.write(frames.subscribe(f"soak/sure/{number}", 1))
            await asyncio.sleep(random.uniform(5, 20))
        await asyncio.sleep(random.uniform(1, 10))

    async def _short(self, _number: int) -> None:
        """Come under a name of its own, ask for retained messages, say something, go."""
        async with self._mqtt(f"short-{unique()}") as writer:
            writer.write(frames.subscribe(f"soak/kept/{random.randrange(KEYS)}", 1))
            writer.write(frames.publish("soak/short", b"here", 1, 1))
            await asyncio.sleep(random.uniform(0.5, 3))

    async def _events(self, _number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._http_port)
        writer.write(EVENTS)
        try:
            while data := await reader.read(65_536):
                self.heard += data.count(b"\ndata:")
        finally:
            writer.close()
        raise ConnectionResetError


async def soak(crowd: Crowd, process: Process, seconds: float) -> list[tuple[int, int]]:
    """Let all be there for some time; print and return seconds and resident bytes."""
    samples: list[tuple[int, int]] = []
    running = asyncio.create_task(crowd.run())
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds and not running.done():
        samples.append((round(passed), rss_bytes(process.pid)))
        second, rss = samples[-1]
        print(
            f"{second:5} s {rss / 1e6:7.1f} MB, written {crowd.written}, heard {crowd.heard}, "
            f"connections lost {crowd.lost}",
            flush=True,
        )
        await asyncio.sleep(SAMPLE_SECONDS)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return samples


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--rate", type=float, default=500, help="messages a second in all")
    parser.add_argument("--set", action="append", default=[], help="a server's setting")
    parser.add_argument("--types", default="", help="a file for objects by type, each minute")
    given = parser.parse_args()
    raise_descriptors()
    with tempfile.TemporaryDirectory(prefix="rowcast-soak-") as name:
        folder = Path(name)
        (folder / "schema.graphql").write_text(SCHEMA)
        ports = free_port(), free_port()
        command: list[str | Path] = [ROOT / ".venv/bin/rowcast", "serve", "--data", folder / "data"]
        command += ["--schema", folder / "schema.graphql"]
        command += ["--mqtt-port", str(ports[0]), "--http-port", str(ports[1])]
        command += [f"--set={setting}" for setting in given.set]
        if given.types:
            (folder / "resources").mkdir()
            gauge = f"FILE = {str(Path(given.types).resolve())!r}\n{GAUGE}"
            (folder / "resources" / "Gauge.py").write_text(gauge)
            command += ["--resources", folder / "resources"]
        process = Process(command, folder / "server.log")
        try:
            process.wait_ready(ports)
            crowd = Crowd(*ports, given.rate)
            samples = asyncio.run(soak(crowd, process, given.minutes * 60))
        finally:
            process.stop()
    settled = [rss for second, rss in samples if second >= SETTLED_SECONDS]
    if settled:
        print(f"after minute 3: {settled[0] / 1e6:.1f} MB, at the end: {settled[-1] / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
