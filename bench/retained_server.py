"""A million retained messages in a running server, and in Mosquitto: memory, subscribing, starting.

The topics are those of the tree with a wide middle. Said are the rate of publishing, the memory
that is resident afterwards, the time from SUBSCRIBE to the first and the last message, and how long
a restart takes until the port answers.
"""

import time
from pathlib import Path

from bench import frames, retained_flow
from bench.links import open_mqtt
from bench.proc import Placement, peak_rss_bytes, rss_bytes
from bench.retained_index import middle
from bench.servers import mosquitto_binary, start_mosquitto

QUIET_SECONDS = 5.0
FILTERS = {"a/+/c": 1, "a/+/c/#": 10, "a/0010/#": 0}
"""Filters, and how many messages of each branch they select; 0: the thousand of one branch."""


def wanted(text: str, count: int) -> int:
    """Return how many messages a filter selects."""
    each = FILTERS[text]
    return each * (count // 1_000) if each else 1_000


def subscribe(port: int, text: str, count: int) -> tuple[float, float]:
    """Return milliseconds from SUBSCRIBE to the first message and to the last."""
    sock = open_mqtt(port, f"asks-{time.time_ns()}")
    sock.settimeout(QUIET_SECONDS * 60)
    begin = time.perf_counter()
    sock.sendall(frames.subscribe(text, 0))
    data, first, seen = bytearray(), 0.0, -1  # the first frame is SUBACK
    while seen < count:
        more = sock.recv(retained_flow.RECEIVE_BYTES_MAX)
        if not more:
            raise ConnectionError(f"closed after {seen} of {count} messages of {text}")
        data += more
        whole = [end for _, _, end in frames.split(data, len(data))]
        seen += len(whole)
        del data[: whole[-1] if whole else 0]
        if seen > 0:
            first = first or time.perf_counter() - begin
    done = time.perf_counter() - begin
    sock.close()
    return first * 1e3, done * 1e3


def ask(name: str, port: int, pid: int, count: int) -> None:
    """Print what a filled server says and takes."""
    print(f"  {name}: {rss_bytes(pid) / 1e6:.0f} MB resident", end="")
    for text in FILTERS:
        first, done = min(subscribe(port, text, wanted(text, count)) for _ in range(3))
        print(f"; {text} ({wanted(text, count):,}) first {first:.1f} ms, all {done:.1f} ms", end="")
    print()


def measure(directory: Path, count: int, place: Placement) -> None:
    """Fill both servers, ask them, and start ours again."""
    print(f"\n{count:,} retained messages over MQTT (QoS 1)")
    unpaced = ["retainer.delivery_rate=0"]
    begin = time.perf_counter()
    server, port = retained_flow.start_server(directory, unpaced, place)
    empty = time.perf_counter() - begin
    try:
        rate = retained_flow.fill(port, count, middle)
        print(f"  ours: filled at {rate:,.0f}/s")
        ask("ours", port, server.pid, count)
    finally:
        server.stop()
    begin = time.perf_counter()
    server, port = retained_flow.start_server(directory, unpaced, place)
    try:
        ready = time.perf_counter() - begin
        before = rss_bytes(server.pid)
        print(f"  ours, started again in {ready:.2f} s; the empty one took {empty:.2f} s")
        ask("ours, started again", port, server.pid, count)
        first, done = subscribe_all(port, count)
        grown = (peak_rss_bytes(server.pid) - before) / 1e6
        print(f"  ours, #: {count:,} in {done:.1f} s, first {first:.1f} ms", end="")
        print(f", most memory {grown:+.1f} MB")
    finally:
        server.stop()
    if not mosquitto_binary():
        print("  mosquitto is not installed")
        return
    (directory / "mosquitto").mkdir()
    peer = start_mosquitto(
        directory / "mosquitto", place.servers, "max_queued_messages 0\nset_tcp_nodelay true\n"
    )
    peer.process.wait_ready([peer.mqtt_port])
    try:
        rate = retained_flow.fill(peer.mqtt_port, count, middle)
        print(f"  mosquitto, memory only: filled at {rate:,.0f}/s")
        ask("mosquitto", peer.mqtt_port, peer.process.pid, count)
    finally:
        peer.process.stop()


def subscribe_all(port: int, count: int) -> tuple[float, float]:
    """Return milliseconds to the first of all messages, and seconds to the last."""
    first, done = subscribe(port, "#", count)
    return first, done / 1e3
