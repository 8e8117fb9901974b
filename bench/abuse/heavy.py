"""Many bytes: packets as large as may be, as fast as they are taken, and values of many parts."""

import socket
import threading
import time
from contextlib import suppress

from bench import frames
from bench.abuse.talk import connected, drop, request
from bench.abuse.victim import Target

LARGE_BYTES = 1_900_000
MIDDLE_BYTES = 65_000
FLOODERS = 4
MAPS = 120
MEMBERS = 99_999
"""One less than a value may have."""
MAPS_PER_SECOND = 4
ANSWER_SECONDS = 60.0


def few_large(target: Target, until: float) -> str:
    """One client of QoS 0 that sends packets of 1.9 MB."""
    return _flood(target, until, 1, LARGE_BYTES)


def many_middle(target: Target, until: float) -> str:
    """Four clients of QoS 0 that send packets of 65 KB."""
    return _flood(target, until, FLOODERS, MIDDLE_BYTES)


def _flood(target: Target, until: float, clients: int, size: int) -> str:
    counts = [0] * clients

    def one(number: int) -> None:
        packet = frames.publish(f"heavy/{number}", bytes(size))
        counts[number] = _pour(target.mqtt_port, f"heavy{number}", packet, until)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = sum(counts)
    return f"{clients} clients, {taken // size} packets of {size} bytes taken"


def _pour(port: int, name: str, packet: bytes, until: float) -> int:
    """Send a packet again and again, as fast as it is taken; return how many bytes were."""
    sock = connected(port, frames.connect(name, 600))
    sock.setblocking(True)
    sock.settimeout(0.2)
    view, at, total = memoryview(packet), 0, 0
    while time.time() < until:
        try:
            sent = sock.send(view[at:])
        except TimeoutError:
            continue
        except OSError:
            break
        at = (at + sent) % len(packet)
        total += sent
    drop(sock)
    return total


def maps(target: Target, until: float) -> str:
    """Maps of many members, written and read back in another format, so that they are decoded."""
    body = b"{" + b",".join(b'"k%d":%d' % (n, n) for n in range(MEMBERS)) + b"}"
    answers: dict[str, int] = {}
    due = time.time()
    for number in range(MAPS):
        if due >= until:
            break
        time.sleep(max(0.0, due - time.time()))
        for said in (
            request("PUT", f"/Free/map{number}", body, "application/json"),
            request("GET", f"/Free/map{number}", b"", "text/plain", "Accept: application/cbor\r\n"),
        ):
            answer = _whole_answer(target.http_port, said)
            answers[answer] = answers.get(answer, 0) + 1
        due += 1 / MAPS_PER_SECOND
    told = ", ".join(f"{name} {n}" for name, n in sorted(answers.items()))
    time.sleep(max(0.0, until - time.time()))
    return f"maps of {MEMBERS} members: {told}"


def _whole_answer(port: int, said: bytes) -> str:
    """Say something, read all that comes back; return its status."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS) as sock:
        sock.sendall(said.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        first = sock.recv(1 << 18)
        while sock.recv(1 << 18):
            pass
        return first[9:12].decode()
    return "cut"


def many_small(target: Target, until: float) -> str:
    """One client of QoS 0 that sends packets of 20 bytes as fast as they are taken."""
    packet = frames.publish("heavy/0", bytes(20)) * 1_000
    taken = _pour(target.mqtt_port, "heavy0", packet, until) * 1_000 // len(packet)
    return f"{taken} packets of 20 bytes taken"
