"""Small payloads that are much when they are read, requests that cost much, and what inflates."""

import gzip
import struct
import time
import zlib
from contextlib import suppress
from urllib.parse import quote

from bench import frames
from bench.abuse.talk import (
    EVENTS,
    connected,
    drop,
    frame,
    heard,
    many,
    reading,
    request,
    websocket,
)
from bench.abuse.victim import Target

SIZE = 2_000_000
PER_SECOND = 2
DOORS = ("http", "mqtt", "ws")
ROWS = 5_000
READERS = 30
JSON, CBOR, MSGPACK = "application/json", "application/cbor", "application/x-msgpack"
NDJSON, CBOR_SEQ = "application/x-ndjson", "application/cbor-seq"
COUNT = struct.pack(">I", SIZE)
PAYLOADS = {
    JSON: (
        b"[" * SIZE,
        b"[" + b"[]," * (SIZE // 3) + b"0]",
        b"{" + b",".join(b'"%x":[]' % n for n in range(SIZE // 12)) + b"}",
        b"{" + b'"a":0,' * (SIZE // 6) + b'"b":0}',
        b"9" * SIZE,
        b'["' + b"x" * SIZE + b'"]',
        b"[" + b'{"$decimal":"1"},' * (SIZE // 17) + b"0]",
        b'{"v":"' + b"\\u0041" * (SIZE // 6) + b'"}',
    ),
    CBOR: (
        b"\x81" * SIZE,
        b"\x9b" + b"\xff" * 8,
        b"\xbb" + b"\xff" * 8 + b"\x61a\x00" * 1000,
        b"\x9f" + b"\x80" * SIZE + b"\xff",
        b"\x9f" + b"\xc4\x82\x01\x01" * (SIZE // 4) + b"\xff",
        b"\x9f" + b"\xc1\x01" * (SIZE // 2) + b"\xff",
        b"\xc2\x5a" + COUNT + b"\xff" * SIZE,
        b"\xbf" + b"\x61a\x00" * (SIZE // 3) + b"\xff",
    ),
    MSGPACK: (
        b"\x91" * SIZE,
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff" + b"\xa1a\x00" * 1000,
        b"\xdd" + COUNT + b"\x90" * SIZE,
        b"\xdd" + COUNT + b"\x80" * SIZE,
    ),
    NDJSON: (b"0\n" * (SIZE // 2), b"\n" * SIZE),
    CBOR_SEQ: (b"\x00" * SIZE,),
}
LARGEST = {
    JSON: b"[" + b'{"$date":"2026-01-02T03:04:05Z"},' * 49_000 + b"0]",
    CBOR: b"\x9f" + b"\xc4\x82\x01\x01" * 24_900 + b"\xff",
    MSGPACK: b"\xdd" + struct.pack(">I", 99_000) + b"\x90" * 99_000,
}
"""What is just below the bounds, so that it is read and kept."""


def refused_bodies(target: Target, until: float) -> str:
    """Body bombs in each format over HTTP and MQTT."""
    return _throw(
        target, until, [(kind, one) for kind, all_of in PAYLOADS.items() for one in all_of]
    )


def kept_bodies(target: Target, until: float) -> str:
    """Bodies just below every bound, in each format, over HTTP and MQTT."""
    return _throw(target, until, list(LARGEST.items()))


def _throw(target: Target, until: float, payloads: list) -> str:
    publisher = connected(target.mqtt_port, frames.connect("bombs", 600))
    publisher.setblocking(True)
    publisher.settimeout(20)
    publisher.recv(64)
    count, answers, due = 0, {}, time.time()
    slowest = 0.0
    while due < until:
        media_type, payload = payloads[count // 2 % len(payloads)]
        time.sleep(max(0.0, due - time.time()))
        begun = time.time()
        if count % 2:
            publisher.sendall(frames.publish("Free/bomb", payload, 1, 1, retain=True))
            answer = publisher.recv(64)[:1].hex()
        else:
            answer = _put(target, media_type, payload)
        slowest = max(slowest, time.time() - begun)
        answers[answer] = answers.get(answer, 0) + 1
        count += 1
        due += 1 / PER_SECOND
    publisher.close()
    told = ", ".join(f"{name} {n}" for name, n in sorted(answers.items()))
    return f"{count} bombs: {told}; slowest {slowest:.2f} s"


def _put(target: Target, media_type: str, payload: bytes) -> str:
    sock = connected(target.http_port)
    sock.setblocking(True)
    sock.settimeout(30)
    with suppress(OSError):
        sock.sendall(request("PUT", "/Free/bomb", payload, media_type))
        answer = sock.recv(4096)[9:12].decode()
        sock.close()
        return answer
    drop(sock)
    return "cut"


def inflating(target: Target, until: float) -> str:
    """Compressed bodies and frames: a kilobyte that would be a gigabyte."""
    deflated = zlib.compressobj(9, zlib.DEFLATED, -15)
    inflated = deflated.compress(bytes(50_000_000)) + deflated.flush(zlib.Z_SYNC_FLUSH)
    answers: dict[str, int] = {}
    offers = websocket().replace(
        b"Sec-WebSocket-Version",
        b"Sec-WebSocket-Extensions: permessage-deflate\r\nSec-WebSocket-Version",
    )
    gzipped = gzip.compress(bytes(50_000_000))
    bodies = {"gzip": gzipped, "deflate": inflated, "br": b"x", "zstd": b"x"}
    while time.time() < until:
        for name, data in bodies.items():
            said = request("PUT", "/Free/x", data, JSON, f"Content-Encoding: {name}\r\n")
            answer = _answer(target, said)
            answers[answer] = answers.get(answer, 0) + 1
        answer = _answer(target, offers + frame(inflated[:-4], reserved=0x40, opcode=2))
        answers[answer] = answers.get(answer, 0) + 1
        time.sleep(0.5)
    return ", ".join(f"{name} {n}" for name, n in sorted(answers.items()))


def _answer(target: Target, said: bytes) -> str:
    sock = connected(target.http_port)
    sock.setblocking(True)
    sock.settimeout(10)
    with suppress(OSError):
        sock.sendall(said)
        data = sock.recv(4096)
        while data.startswith(b"HTTP/1.1 101") and len(data) < 60_000:
            more = sock.recv(4096)
            if not more:
                return "101, then closed"
            data += more
            if b"\x88" in more:
                return "101, then a close frame"
        return data[9:12].decode()
    return "cut"


def queries(target: Target, until: float) -> str:
    """Queries that look at every record, in several ways, from eight peers."""
    rows = [
        b'{"id":"%d","name":"%s","text":"%s","n":%d}' % (n, b"n" * 50, b"t" * 200, n)
        for n in range(ROWS)
    ]
    _answer(target, request("PUT", "/Wide/", b"[" + b",".join(rows) + b"]", JSON))
    parts = [f"text=ct={'t' * 50}{n}" for n in range(99)]
    asked = (
        "/Wide/?" + quote("|".join(parts), safe="=|"),
        "/Wide/?" + quote("&".join(f"name!=x{n}" for n in range(99)), safe="=&!"),
        "/Wide/?sort(-text,+name,-n)&limit(100)",
        "/Wide/?count",
    )
    count, peers = 0, []
    while time.time() < until:
        while len(peers) < 8:
            path = asked[count % len(asked)]
            peers += many(
                1, lambda _, p=path: connected(target.http_port, request("GET", p, b"", JSON))
            )
            count += 1
        still = []
        for sock in peers:
            data = heard(sock)
            if data == b"":
                still.append(sock)
            else:
                sock.close()
        peers = still
        time.sleep(0.01)
    for sock in peers:
        drop(sock)
    return f"{count} queries over {ROWS} records"


def far_cursors(target: Target, until: float) -> str:
    """Streams that begin far back in the log, again and again."""
    begin = EVENTS.replace(
        b"/Probe/", b"/Probe/?start=0&topic=%23".replace(b"start=0", b"from=-1h")
    )
    rounds, total = 0, 0
    while time.time() < until:
        socks = many(READERS, lambda _: connected(target.http_port, begin))
        total += reading(socks, min(until, time.time() + 2))
        for sock in socks:
            drop(sock)
        rounds += 1
    return f"{rounds} rounds of {READERS} streams, {total / 1e6:.0f} MB"
