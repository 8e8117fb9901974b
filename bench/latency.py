"""MQTT latency: one message at a time, and many publishers at a fixed rate.

Both use blocking sockets, because nothing is faster for one message. At a fixed rate a message is
timed from when it was due, so a late server is charged for its lateness (no coordinated omission).
"""

import select
import struct
import time
from typing import Any

from bench import frames
from bench.links import open_mqtt, receive_exactly
from bench.meter import Meter

STAMP = struct.Struct("<d")
DRAIN_SECONDS = 1.0
RECEIVE_BYTES_MAX = 1 << 16


def one_at_a_time(spec: dict[str, Any]) -> dict[str, float]:
    """Send a message when the last one was delivered (and with QoS 1 acknowledged)."""
    qos = spec["qos"]
    frame = frames.publish("bench/00000", b"x" * spec["payload"], qos, 1)
    packet_id = frames.packet_id_at(frame, 2)
    sub = open_mqtt(spec["mqtt_port"], "sub", "bench/00000", qos)
    pub = open_mqtt(spec["mqtt_port"], "pub")
    meter = Meter.of(spec)
    meter.start()
    count, now = 0, time.perf_counter()
    while not meter.passed(now, count):
        start = time.perf_counter()
        pub.send(frame)
        delivered = receive_exactly(sub, len(frame))
        if qos:
            sub.send(b"\x40\x02" + delivered[packet_id : packet_id + 2])
            receive_exactly(pub, frames.ACK_SIZE)
        now = time.perf_counter()
        meter.latencies.append(now - start)
        count += 1
    sub.close()
    pub.close()
    return meter.figures()


class Paced:
    """Publishers in turn at a fixed rate, one subscriber."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.gap_seconds = 1 / spec["rate"]
        self.sub = open_mqtt(spec["mqtt_port"], "sub", "bench/#")
        self.pubs = [open_mqtt(spec["mqtt_port"], f"pub{n}") for n in range(spec["pubs"])]
        payload = bytes(spec["payload"] - STAMP.size)
        self.heads = [
            frames.publish(f"bench/{n:05}", payload + bytes(STAMP.size))[: -STAMP.size]
            for n in range(spec["pubs"])
        ]
        self.stride = len(self.heads[0]) + STAMP.size
        self.meter = Meter.of(spec)
        self.carry = b""
        self.delivered = self.published = 0

    def run(self) -> dict[str, float]:
        """Publish on schedule for the measured time and return the figures."""
        self.meter.start()
        due = time.perf_counter() + self.gap_seconds
        while not self.meter.passed(now := time.perf_counter(), self.delivered):
            while due <= now:
                self.publish(due)
                due += self.gap_seconds
            self.receive(max(0.0, due - time.perf_counter()))
        figures = self.meter.figures()
        while self.delivered < self.published and self.receive(DRAIN_SECONDS):
            pass
        for sock in (self.sub, *self.pubs):
            sock.close()
        lost = self.published - self.delivered
        return {**figures, "lost": lost, "lost_share": lost / max(1, self.published)}

    def publish(self, due: float) -> None:
        """Send the next message, stamped with when it was due."""
        turn = self.published % len(self.pubs)
        self.pubs[turn].send(self.heads[turn] + STAMP.pack(due))
        self.published += 1

    def receive(self, timeout_seconds: float) -> bool:
        """Take what has arrived; False when nothing did."""
        if not select.select([self.sub], [], [], timeout_seconds)[0]:
            return False
        data = self.carry + self.sub.recv(RECEIVE_BYTES_MAX)
        now = time.perf_counter()
        whole = len(data) // self.stride
        for end in range(self.stride, whole * self.stride + 1, self.stride):
            self.meter.latencies.append(now - STAMP.unpack_from(data, end - STAMP.size)[0])
        self.carry = data[whole * self.stride :]
        self.delivered += whole
        return True
