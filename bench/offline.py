"""Sessions that are away (D28): what is published meanwhile, and how they get it.

Each session has the same filter, QoS 1. What is measured, in this order: memory of a session that
is away, the rate of publishing what all of them want, disk and memory that each of these messages
adds, and then all come back at once and read.

Where the server's database can be read, the disk is measured with none, a tenth and all of the
sessions: its pages in use, as a reader sees them, so that neither the journal nor free pages count.
"""

import sqlite3
import time
from contextlib import closing
from typing import Any

from bench import frames
from bench.crowd import Crowd, Leaver, Newcomer, Visitor
from bench.links import open_mqtt, receive_exactly
from bench.proc import BenchError, cpu_seconds, peak_rss_bytes, rss_bytes

SETTLE_SECONDS = 1.0
STALL_SECONDS = 5.0
WINDOW = 100
TOPIC, STAGE = "bench/all", "bench/few"


class Returner(Visitor):
    """A client that is back: it reads and acknowledges all that waited for it."""

    def __init__(self, load: "Offline", client_id: str) -> None:
        super().__init__(load.crowd, client_id, clean=False)
        self.load = load
        self.counter = frames.Counter(frames.publish(TOPIC, load.payload, 1, 1), 1)

    def welcome(self) -> None:
        if not self.present:
            raise BenchError("a session was not there any more")
        super().welcome()

    def take(self, start: int, size: int) -> None:
        data = self.poller.buffer
        if start:
            data[: size - start] = data[start:size]
        count, used, acks = self.counter.count(data, size - start)
        self.keep(used, size - start)
        self.load.delivered += count
        if acks:
            self.send(acks)


class Offline:
    """The sessions, the publisher, and the way back."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.pid: int = spec["pid"]
        self.sessions: int = spec["sessions"]
        self.messages: int = spec["messages"]
        self.payload = b"0123456789abcdef" * (spec["payload"] // 16)
        self.crowd = Crowd(spec["mqtt_port"])
        self.delivered = 0

    def run(self) -> dict[str, float]:
        """Do it all and return the figures."""
        few = self.sessions // 10
        figures = {"sessions": self.sessions, "messages": self.messages, "few": few}
        if self.spec["data"]:
            figures["disk_bytes_none"] = self.publish(STAGE)["disk_bytes"]
            self.crowd.come(lambda n: Newcomer(self.crowd, f"f{n}", STAGE, 1), few)
            figures["disk_bytes_few"] = self.publish(STAGE)["disk_bytes"]
            self.crowd.come(lambda n: Leaver(self.crowd, f"f{n}"), few)
        time.sleep(SETTLE_SECONDS)
        memory, start = rss_bytes(self.pid), time.perf_counter()
        self.crowd.come(lambda n: Newcomer(self.crowd, f"c{n}", TOPIC, 1), self.sessions)
        figures["made_rate"] = self.sessions / (time.perf_counter() - start)
        time.sleep(SETTLE_SECONDS)
        figures["session_bytes"] = (rss_bytes(self.pid) - memory) / self.sessions
        figures |= self.publish(TOPIC)
        figures |= self.come_back()
        self.crowd.close()
        return figures

    def publish(self, topic: str) -> dict[str, float]:
        """Publish the messages of a stage, some unanswered at a time."""
        before, memory, cpu = self.disk_bytes(), rss_bytes(self.pid), cpu_seconds(self.pid)
        ring = frames.Ring([frames.publish(topic, self.payload, 1, n + 1) for n in range(WINDOW)])
        sock = open_mqtt(self.spec["mqtt_port"], "publisher")
        start = time.perf_counter()
        for _ in range(self.messages // WINDOW):
            sock.sendall(ring.take(WINDOW))
            receive_exactly(sock, WINDOW * frames.ACK_SIZE)
        elapsed = time.perf_counter() - start
        sock.close()
        cpu = cpu_seconds(self.pid) - cpu
        time.sleep(SETTLE_SECONDS)
        return {
            "publish_rate": self.messages / elapsed,
            "publish_us": cpu * 1e6 / self.messages,
            "disk_bytes": (self.disk_bytes() - before) / self.messages,
            "memory_bytes": (rss_bytes(self.pid) - memory) / self.messages,
        }

    def disk_bytes(self) -> int:
        """Return what of the server's database is in use; 0 where there is none to look at."""
        if not self.spec["data"]:
            return 0
        uri = f"file:{self.spec['data']}/rowcast.db?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as database:
            pages, free, size = (
                database.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        return int((pages - free) * size)

    def come_back(self) -> dict[str, float]:
        """Let all sessions' clients come back and read what waits for them."""
        wanted = self.sessions * self.messages
        cpu, start = cpu_seconds(self.pid), time.perf_counter()
        self.crowd.come(lambda n: Returner(self, f"c{n}"), self.sessions)
        last = time.perf_counter()
        while self.delivered < wanted and self.crowd.poller.turn(STALL_SECONDS):
            last = time.perf_counter()
        elapsed = last - start
        if self.delivered > wanted:
            raise BenchError(f"{self.delivered - wanted} messages came twice")
        return {
            "rate": self.delivered / elapsed,
            "lost": wanted - self.delivered,
            "lost_share": (wanted - self.delivered) / wanted,
            "server_us": (cpu_seconds(self.pid) - cpu) * 1e6 / self.delivered,
            "seconds": elapsed,
            "peak_bytes": float(peak_rss_bytes(self.pid)),
        }
