"""MQTT throughput: a closed loop by window.

At most `window` messages are outstanding in all, and at most `window // pubs` for each publisher of
QoS 1 or 2. Outstanding is what was published and not yet delivered to every subscriber and (QoS 1
and 2) acknowledged. So the figure is what a server sustains without loss: a server that drops shows
as lost messages, not as speed. What is lost stays outstanding, so a window that loses is a smaller
window: the table says so. Where publishers wait for their own acknowledgement only (`lockstep`),
deliveries do not hold them back.
"""

import time
from collections import deque
from typing import Any

from bench import frames
from bench.links import Link, Poller, open_mqtt, receive_exactly
from bench.meter import Meter
from bench.proc import BenchError

TURN_SECONDS = 0.1
STALL_SECONDS = 2.0
UNLIMITED = 1 << 30
FILTERS_EACH, FILTERS_AT_ONCE = 10_000, 1_000
"""Filters of one client that only holds them, and of one of its SUBSCRIBEs."""
FIRST_ACK = frames.acks(frames.PUBACK, [1])


class Subscriber(Link):
    """Counts messages and acknowledges them in bulk."""

    def __init__(self, flow: "Flow", sock: Any, sample: bytes) -> None:
        super().__init__(flow.poller, sock)
        self.flow = flow
        self.counter = frames.Counter(sample, flow.sub_qos)

    def read(self) -> None:
        size = self.fill()
        count, used, acks = self.counter.count(self.poller.buffer, size)
        self.flow.delivered += count
        self.keep(used, size)
        if acks:
            self.send(acks)


class Holder(Link):
    """Has many filters that select nothing of what is published, but lie beside it."""

    def __init__(self, flow: "Flow", first: int) -> None:
        place = flow.spec.get("place", "bench")
        sock = open_mqtt(flow.spec["mqtt_port"], f"holder{first}")
        for start in range(first, first + FILTERS_EACH, FILTERS_AT_ONCE):
            wanted = [
                f"{place}/{number:05}/+/x" for number in range(start, start + FILTERS_AT_ONCE)
            ]
            sock.sendall(frames.subscribe_all(wanted, 0))
            answer = receive_exactly(sock, FILTERS_AT_ONCE + frames.SUBACK_SIZE)  # one length more
            if answer[0] != 0x90 or any(answer[5:]):
                raise BenchError("the server refused a filter")
        super().__init__(flow.poller, sock)

    def read(self) -> None:
        raise BenchError("a client received what it did not subscribe to")


class Publisher(Link):
    """Sends runs of its ring and counts what is acknowledged."""

    def __init__(self, flow: "Flow", sock: Any, ring: frames.Ring) -> None:
        super().__init__(flow.poller, sock)
        self.flow, self.ring = flow, ring
        self.inflight = 0
        self.waiting = False

    def room(self) -> int:
        """Return how many messages may go out now."""
        if self.pending:
            return 0
        return self.flow.window_each - self.inflight if self.flow.qos else UNLIMITED

    def publish(self, count: int) -> None:
        """Send the next `count` messages in one write."""
        self.inflight += count
        self.send(self.ring.take(count))

    def flush(self) -> None:
        super().flush()
        self.offer()

    def offer(self) -> None:
        """Take a place in the queue of those that can publish."""
        if self.waiting and self.room() >= self.flow.batch_min:
            self.waiting = False
            self.flow.free.append(self)

    def read(self) -> None:
        size = self.fill()
        used = size - size % frames.ACK_SIZE
        data = self.poller.buffer
        acked = data[0:used:4].count(frames.PUBACK if self.flow.qos == 1 else frames.PUBCOMP)
        if self.flow.qos == 2:
            self.release(data, used)
        self.keep(used, size)
        self.inflight -= acked
        self.flow.acked += acked
        self.offer()

    def release(self, data: bytearray, used: int) -> None:
        """Answer each PUBREC with a PUBREL."""
        received = [
            bytes([frames.PUBREL, 2]) + data[at + 2 : at + 4]
            for at in range(0, used, 4)
            if data[at] == frames.PUBREC
        ]
        if received:
            self.send(b"".join(received))


class Lockstep(Link):
    """A publisher that sends its next message at once when the last one is acknowledged."""

    def __init__(self, flow: "Flow", sock: Any, frame: bytes) -> None:
        super().__init__(flow.poller, sock)
        self.flow, self.frame = flow, frame
        self.sent_at = 0.0

    def publish(self) -> None:
        """Send one message."""
        self.flow.published += 1
        self.sent_at = time.perf_counter()
        self.sock.send(self.frame)

    def read(self) -> None:
        data = self.sock.recv(2 * frames.ACK_SIZE)
        if data != FIRST_ACK:
            raise BenchError(f"a publisher received {data.hex() or 'the end of its connection'}")
        self.flow.acked += 1
        self.flow.meter.latencies.append(time.perf_counter() - self.sent_at)
        if self.flow.open:
            self.publish()


class Flow:
    """Publishers, subscribers and the window between them."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.qos: int = spec["qos"]
        self.sub_qos: int = spec.get("sub_qos", self.qos)
        self.window: int = spec["window"]
        self.window_each = max(1, self.window // spec["pubs"])
        self.batch_max: int = min(spec.get("batch", self.window_each), self.window_each)
        self.batch_min = max(1, self.batch_max // 20) if spec["pubs"] == 1 else self.batch_max
        self.lockstep: bool = spec.get("lockstep", False)
        self.copies = 1 if spec.get("share") else max(1, spec["subs"])
        self.open = True
        self.poller = Poller()
        self.free: deque[Publisher] = deque()
        self.published = self.delivered = self.acked = self.lost = 0
        self.meter = Meter.of(spec)

    def run(self) -> dict[str, float]:
        """Connect, publish for the measured time, let the rest arrive, and return the figures."""
        self.connect()
        self.meter.start()
        last = time.perf_counter()
        while not self.meter.passed(now := time.perf_counter(), self.progress()):
            if not self.lockstep:
                self.publish()
            if self.poller.turn(TURN_SECONDS):
                last = now
            elif now - last > STALL_SECONDS:
                self.write_off()
        self.drain()
        self.poller.close()
        share = self.lost / max(1, self.published)
        return {**self.meter.figures(), "lost": self.lost, "lost_share": share}

    def connect(self) -> None:
        """Open all connections, subscribers first."""
        spec = self.spec
        rings = [make_ring(spec, number, self.batch_max) for number in range(spec["pubs"])]
        place = spec.get("place", "bench")
        many = spec["pubs"] > 1 or spec.get("spread")
        topic_filter = spec.get("share", "") + (f"{place}/#" if many else f"{place}/00000")
        sample = bytes(rings[0].take(1)) if self.qos == self.sub_qos else b""
        rings[0].position = 0
        for number in range(0, spec.get("filters", 0), FILTERS_EACH):
            Holder(self, number)
        clean = not spec.get("durable", False)
        for number in range(spec["subs"]):
            sock = open_mqtt(
                spec["mqtt_port"], f"sub{number}", topic_filter, self.sub_qos, clean=clean
            )
            Subscriber(self, sock, sample)
        for number, ring in enumerate(rings):
            sock = open_mqtt(spec["mqtt_port"], f"pub{number}")
            if self.lockstep:
                Lockstep(self, sock, bytes(ring.take(1))).publish()
            else:
                self.free.append(Publisher(self, sock, ring))

    def progress(self) -> int:
        """Return the count whose rate is the figure: deliveries, else acknowledgements."""
        return self.delivered if self.spec["subs"] else self.acked

    def outstanding(self) -> int:
        """Return how many messages are on their way."""
        done = self.delivered // self.copies if self.spec["subs"] else self.acked
        return self.published - (min(done, self.acked) if self.qos else done)

    def publish(self) -> None:
        """Fill the window."""
        allowance = self.window - self.outstanding()
        while allowance >= self.batch_min and self.free:
            publisher = self.free.popleft()
            count = min(allowance, self.batch_max, publisher.room())
            publisher.publish(count)
            self.published += count
            allowance -= count
            publisher.waiting = True
            publisher.offer()

    def write_off(self) -> None:
        """Count what does not come any more as lost, so that the loop goes on."""
        missing = self.outstanding()
        self.lost += missing
        self.published -= missing

    def drain(self) -> None:
        """Wait for what is on its way."""
        self.open = False
        last = time.perf_counter()
        while self.outstanding() and time.perf_counter() - last < STALL_SECONDS:
            if self.poller.turn(TURN_SECONDS):
                last = time.perf_counter()
        self.lost += self.outstanding()


def make_ring(spec: dict[str, Any], publisher: int, batch_max: int) -> frames.Ring:
    """Return a publisher's frames: twice its window, so no packet id is in use twice."""
    if spec.get("topics"):
        return retained_ring(spec, publisher)
    count = 2 * max(batch_max, spec["window"] // spec["pubs"])
    payload = (b"0123456789abcdef" * (spec["payload"] // 16 + 1))[: spec["payload"]]
    place, spread = spec.get("place", "bench"), spec.get("spread", 0)
    topics = [f"{place}/{number:05}" for number in range(publisher, publisher + max(1, spread))]
    return frames.Ring(
        [
            frames.publish(topics[number % len(topics)], payload, spec["qos"], number + 1)
            for number in range(max(count, spread))
        ]
    )


def retained_ring(spec: dict[str, Any], publisher: int) -> frames.Ring:
    """Return retained upserts of a publisher's share of the topics, each with two values."""
    share = spec["topics"] // spec["pubs"]
    first = 10_000 + publisher * share
    return frames.Ring(
        [
            frames.publish(
                f"Sensor/{first + number % share}", reading(number), 1, number + 1, retain=True
            )
            for number in range(2 * share)
        ]
    )


def reading(number: int) -> bytes:
    """Return a JSON record of a Sensor, 64 bytes long."""
    return b'{"v":%d.25,"t":%d,"p":"%s"}' % (
        1000 + number % 1000,
        1_700_000_000_000 + number,
        b"abcdefghijklmnopqrstuvw",
    )
