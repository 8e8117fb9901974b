"""One client that is given all retained messages, and what the others notice of it (E21).

A publisher sends at a fixed rate to a subscriber; each message is timed from when it was due. That
is measured alone, and again while a client in a process of its own subscribes to every retained
message, over and over. Said are the quantiles of both, and whether the client got all of them.
"""

import multiprocessing
import select
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import frames
from bench.links import open_mqtt, receive_exactly
from bench.proc import Placement, Process, free_port

STAMP = struct.Struct("<d")
PROBES_PER_SECOND = 400
FILL_WINDOW = 500
RETAINED = 100_000
ROUNDS = 3
SECONDS = 10.0
"""Of a round alone, and beside the reader."""
RECEIVE_BYTES_MAX = 1 << 18


def start_server(directory: Path, settings: list[str], place: Placement) -> tuple[Process, int]:
    """Start this checkout's server; return it and where it speaks MQTT."""
    schema = directory / "schema.graphql"
    schema.write_text("type Unused @table @export\n")
    port = free_port()
    command: list[str | Path] = [
        sys.executable,
        "-c",
        "from rowcast.program.cli import main; main()",
    ]
    command += ["serve", "--http-port", "0", "--mqtt-port", str(port), "--schema", schema]
    command += ["--data", directory / "data"]
    command += [f"--set={setting}" for setting in settings]
    root = Path(__file__).resolve().parents[1]
    env = {"PYTHONPATH": str(root / "app")}
    process = Process(command, directory / "server.log", place.servers, env)
    process.wait_ready([port])
    return process, port


def topic(number: int) -> str:
    """Return one of a million topics of the same length: three levels, a thousand in the middle."""
    return f"r/{number % 1000:03}/{number:06}"


def fill(port: int, count: int, topics: Callable[[int], str] = topic) -> float:
    """Retain so many messages with QoS 1; return the rate."""
    sock = open_mqtt(port, "filler")
    begin = time.perf_counter()
    owed = 0
    for start in range(0, count, FILL_WINDOW):
        some = range(start, min(start + FILL_WINDOW, count))
        sock.sendall(
            b"".join(
                frames.publish(topics(n), b"%016d" % n, 1, n - start + 1, retain=True) for n in some
            )
        )
        owed += len(some)
        receive_exactly(sock, owed * frames.ACK_SIZE)
        owed = 0
    sock.close()
    return count / (time.perf_counter() - begin)


def read_all(
    port: int, count: int, qos: int, until: float, results: "multiprocessing.Queue"
) -> None:
    """Subscribe to all, again and again, and report how many came and in how many seconds."""
    sample = len(frames.publish(topic(0), b"%016d" % 0, qos, 1, retain=True))
    turn = 0
    while time.time() < until:
        turn += 1
        begin = time.perf_counter()
        sock = open_mqtt(port, f"reader{turn}", "r/#", qos)
        size, wanted = 0, count * sample
        first, carry = 0.0, b""
        while size < wanted:
            data = sock.recv(RECEIVE_BYTES_MAX)
            if not data:
                break
            first = first or time.perf_counter() - begin
            size += len(data)
            if qos:
                carry += data
                whole = len(carry) // sample
                at = frames.packet_id_at(carry, 2)
                ids = [
                    int.from_bytes(carry[k : k + 2], "big")
                    for k in range(at, whole * sample, sample)
                ]
                sock.sendall(frames.acks(frames.PUBACK, ids))
                carry = carry[whole * sample :]
        results.put((size // sample, first, time.perf_counter() - begin))
        sock.close()


def probe(port: int, seconds: float) -> list[float]:
    """Return the latencies of messages that are due at a fixed rate."""
    sub = open_mqtt(port, "probe-sub", "probe/#")
    pub = open_mqtt(port, "probe-pub")
    head = frames.publish("probe/1", bytes(STAMP.size))[: -STAMP.size]
    stride = len(head) + STAMP.size
    latencies: list[float] = []
    carry, sent = b"", 0
    begin = due = time.perf_counter()
    while (now := time.perf_counter()) < begin + seconds or len(latencies) < sent:
        while due <= now and due < begin + seconds:
            pub.send(head + STAMP.pack(due))
            sent += 1
            due += 1 / PROBES_PER_SECOND
        wait = max(0.0, due - time.perf_counter()) if now < begin + seconds else 1.0
        if select.select([sub], [], [], wait)[0]:
            carry += sub.recv(RECEIVE_BYTES_MAX)
            now = time.perf_counter()
            whole = len(carry) // stride
            ends = range(stride, whole * stride + 1, stride)
            latencies += [now - STAMP.unpack_from(carry, at - STAMP.size)[0] for at in ends]
            carry = carry[whole * stride :]
    sub.close()
    pub.close()
    return latencies


def quantiles(latencies: list[float]) -> tuple[float, ...]:
    """Return p50, p99, p99.9 and the greatest, in milliseconds."""
    ordered = sorted(latencies)
    last = len(ordered) - 1
    return tuple(1_000 * ordered[min(last, int(q * len(ordered)))] for q in (0.5, 0.99, 0.999, 1))


def measure(directory: Path, settings: list[str], place: Placement) -> None:
    """Measure in interleaved rounds, with QoS 0, and print what came of it."""
    server, port = start_server(directory, settings, place)
    try:
        print(
            f"{RETAINED:,} retained at {fill(port, RETAINED):,.0f}/s, settings {settings or 'none'}"
        )
        ratios = []
        probe(port, 1)
        for _ in range(ROUNDS):
            alone = quantiles(probe(port, SECONDS))
            results: multiprocessing.Queue = multiprocessing.Queue()
            reader = multiprocessing.Process(
                target=read_all, args=(port, RETAINED, 0, time.time() + SECONDS, results)
            )
            reader.start()
            beside = quantiles(probe(port, SECONDS))
            reader.join()
            got = [results.get() for _ in range(results.qsize())]
            show = "  ".join(f"{value:7.2f}" for value in (*alone, *beside))
            times = ", ".join(f"{n:,} in {t:.2f} s (first {f * 1e3:.1f} ms)" for n, f, t in got)
            print(f"  p50 p99 p99.9 max alone, beside (ms): {show}  | reader: {times}")
            ratios.append(beside[1] / alone[1])
        print(f"  p99 beside / alone: {sorted(ratios)[len(ratios) // 2]:.2f} (median of {ROUNDS})")
    finally:
        server.stop()
