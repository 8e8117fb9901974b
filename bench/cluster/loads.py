"""The loads: durable writes, what a follower is behind, fan-out, and connects over TLS."""

import asyncio
import itertools
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from typing import Any

from nats.aio.client import Client
from nats.js.api import StorageType, StreamConfig
from nats.js.errors import APIError

from bench import frames
from bench.httpload import request, response_end
from bench.links import Link, open_mqtt, open_tcp, receive_exactly
from bench.proc import BenchError
from bench.stats import percentile
from bench.streams import BODY, MARK, Feeder, Streams, open_stream
from rowcast.engines.nats_connection import Connection

WRITERS = 8
IN_FLIGHT = 32
PUBACK_BYTES = 4
TOPICS = 100
"""Records that each writer writes in turn."""
HANDSHAKES = 4
"""Connections over TLS that are opened at the same time."""
STREAM = "bench"
REACH_SECONDS = 30.0
"""For three servers to choose a leader."""
LAG_SECONDS = 10.0
"""For an event to come to a follower; what takes longer is an error."""

Figures = dict[str, float]
_ids = itertools.count()


class Gauge:
    """Counts what is done in the measured time, and the share of a core that this process took."""

    def __init__(self, seconds: float, warmup: float) -> None:
        self.begin = time.perf_counter() + warmup
        self.end = self.begin + seconds
        self.cpu, self.at = time.process_time(), time.perf_counter()

    def counts(self) -> bool:
        """Whether what is done now counts."""
        return self.begin <= time.perf_counter() < self.end

    @property
    def goes_on(self) -> bool:
        """Whether the time is not over."""
        return time.perf_counter() < self.end

    def figures(self, count: int) -> Figures:
        """Return the rate and the generator's share."""
        share = (time.process_time() - self.cpu) / (time.perf_counter() - self.at)
        return {"rate": count / (self.end - self.begin), "generator_share": share}


def in_threads(count: int, work: Any, gauge: Gauge) -> Figures:
    """Run ``work(number)``, which returns how much it did, in threads; raise what it raises."""
    done: list[int] = []
    failures: list[Exception] = []

    def run(number: int) -> None:
        try:
            done.append(work(number))
        except Exception as error:  # noqa: BLE001 - raised below
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return gauge.figures(sum(done))


def writes(ports: Sequence[int], seconds: float, warmup: float) -> Figures:
    """Publish retained records at QoS 1 over MQTT; each PUBACK follows the durable commit."""
    gauge = Gauge(seconds, warmup)

    def work(number: int) -> int:
        count = 0
        with open_mqtt(ports[number % len(ports)], f"w{next(_ids)}") as sock:
            for turn in itertools.count():
                if not gauge.goes_on:
                    break
                sock.sendall(
                    b"".join(record(number, turn * IN_FLIGHT + n) for n in range(IN_FLIGHT))
                )
                receive_exactly(sock, PUBACK_BYTES * IN_FLIGHT)
                count += IN_FLIGHT * gauge.counts()
            sock.sendall(frames.disconnect())
        return count

    return in_threads(WRITERS, work, gauge)


def record(writer: int, number: int) -> bytes:
    """Return a publish of one record."""
    topic, body = f"Sensor/{writer}-{number % TOPICS}", b'{"v":21.5,"t":%d,"p":"x"}' % number
    return frames.publish(topic, body, 1, number % IN_FLIGHT + 1, retain=True)


def nats_writes(servers: Sequence[Connection], seconds: float, warmup: float) -> Figures:
    """Publish as many messages to a stream of three copies; each is acknowledged when synced."""
    return asyncio.run(_nats_writes(servers[0], seconds, warmup))


async def _nats_writes(server: Connection, seconds: float, warmup: float) -> Figures:
    client = Client()
    await client.connect(list(server.servers), user=server.user, password=server.password)
    streams = client.jetstream(timeout=REACH_SECONDS)
    await _stream(streams)
    gauge, counts = Gauge(seconds, warmup), [0]

    async def work(number: int) -> None:
        for turn in itertools.count():
            if not gauge.goes_on:
                return
            await streams.publish(f"{STREAM}.{number}", b'{"v":21.5,"t":%d,"p":"x"}' % turn)
            counts[0] += gauge.counts()

    await asyncio.gather(*(work(number) for number in range(WRITERS * IN_FLIGHT)))
    await client.close()
    return gauge.figures(counts[0])


async def _stream(streams: Any) -> None:
    wanted = StreamConfig(STREAM, subjects=[f"{STREAM}.*"], num_replicas=3)
    wanted.storage = StorageType.FILE
    limit = time.monotonic() + REACH_SECONDS
    while True:
        try:
            await streams.add_stream(wanted)
        except (APIError, TimeoutError):
            if time.monotonic() > limit:
                raise
            await asyncio.sleep(0.2)
        else:
            return


def lag(writer_port: int, reader_port: int, samples: int) -> Figures:
    """Return how long after the answer to a PUT at one node a reader at another one has it.

    One write at a time, so that cores are idle between them.
    """
    path = f"/Sensor/lag-{next(_ids)}"
    writer = open_tcp(writer_port)
    _put(writer, path, b"first")
    reader = open_stream({"protocol": "sse", "http_port": reader_port, "path": f"{path}?start=new"})
    reader.settimeout(LAG_SECONDS)
    waited = []
    with writer, reader:
        for number in range(samples):
            mark = b"zq%dqz" % number
            _put(writer, path, mark)
            answered = time.perf_counter()
            _until(reader, mark)
            waited.append(time.perf_counter() - answered)
    waited.sort()
    return {"p50_ms": percentile(waited, 0.5) * 1e3, "p99_ms": percentile(waited, 0.99) * 1e3}


def _put(sock: socket.socket, path: str, mark: bytes) -> None:
    """Write a record with a mark, and wait for the answer."""
    sock.sendall(request("PUT", path, BODY.replace(MARK, mark)))
    data = b""
    while not response_end(data):
        if not (more := sock.recv(4096)):
            raise BenchError("the server closed a connection")
        data += more


def _until(sock: socket.socket, mark: bytes) -> None:
    """Read until an event with a mark is there."""
    data = b""
    while mark not in data:
        if not (more := sock.recv(65_536)):
            raise BenchError("the server closed a stream")
        data += more


class Publisher(Feeder):
    """Publishes the record by MQTT at QoS 1 when the window lets it."""

    def __init__(self, load: "FanOut", port: int) -> None:
        Link.__init__(self, load.poller, open_mqtt(port, f"p{next(_ids)}"))
        self.load = load

    def read(self) -> None:
        """Take an acknowledgement."""
        size = self.fill()
        if size < PUBACK_BYTES:
            self.keep(0, size)
        else:
            self.load.free.append(self)


class FanOut(Streams):
    """Subscribers of MQTT at several nodes, and publishers at the first of them."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(spec)
        self.request = frames.publish("Sensor/1", BODY, 1, 1, retain=True)

    def open_reader(self, number: int) -> socket.socket:
        """Return a subscriber: at each node one, in turn."""
        ports = self.spec["ports"]
        return open_mqtt(ports[number % len(ports)], f"s{next(_ids)}", "Sensor/1", 0)

    def open_feeder(self) -> Publisher:
        """Return a publisher."""
        return Publisher(self, self.spec["ports"][0])


def connects(port: int, seconds: float, warmup: float) -> Figures:
    """Connect over TLS, list a table, and close; no session is resumed."""
    gauge = Gauge(seconds, warmup)
    get = request("GET", "/Sensor/")

    def work(_: int) -> int:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        count = 0
        while gauge.goes_on:
            with context.wrap_socket(open_tcp(port)) as sock:
                sock.sendall(get)
                if not sock.recv(4096).startswith(b"HTTP/1.1 200"):
                    raise BenchError("the server refused a GET over TLS")
            count += gauge.counts()
        return count

    return in_threads(HANDSHAKES, work, gauge)
