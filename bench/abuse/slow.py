"""Peers that never finish what they began, and peers that never read."""

import contextlib
import ssl
import time

from bench import frames
from bench.abuse.talk import EVENTS, connected, drip, drop, frame, frame_size, many, say, websocket
from bench.abuse.victim import Target

PEERS = 300
STOPPED = 10
FLOOD_PER_SECOND = 10_000
UNFINISHED_BYTES = 2_000_000
MESSAGE = frames.publish("flood/x", b"x" * 200)


def http_head(target: Target, until: float) -> str:
    """Request heads a byte a second."""
    return _drip(target.http_port, b"GET /Probe/1 HTTP/1.1\r\nx: ", until)


def http_body(target: Target, until: float) -> str:
    """Request bodies a byte a second."""
    head = b"PUT /Free/slow HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    return _drip(target.http_port, head, until)


def ws_handshake(target: Target, until: float) -> str:
    """WebSocket handshakes a byte a second."""
    return _drip(target.http_port, websocket()[:-2] + b"x: ", until)


def ws_frame(target: Target, until: float) -> str:
    """WebSocket frames a byte a second."""
    return _drip(target.http_port, websocket() + b"\x81" + frame_size(100_000) + bytes(4), until)


def mqtt_connect(target: Target, until: float) -> str:
    """CONNECT a byte a second."""
    return _drip(target.mqtt_port, frames.connect("x" * 200)[:12], until)


def mqtt_publish(target: Target, until: float) -> str:
    """PUBLISH a byte a second, with a Keep Alive of ten."""
    began = frames.publish("open/slow", b"x" * 1_000_000)[:40]

    def one(number: int):
        return connected(target.mqtt_port, frames.connect(f"slow{number}", 10) + began)

    return _told(many(PEERS, one), until)


def tls_handshake(target: Target, until: float) -> str:
    """TLS handshakes that stop after half of a ClientHello, or before it."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        hello.do_handshake()
    half = outgoing.read()[:100]
    return _told(many(PEERS, lambda n: connected(target.tls_port, half if n % 2 else b"")), until)


def _drip(port: int, began: bytes, until: float) -> str:
    return _told(many(PEERS, lambda _: connected(port, began)), until)


def _told(socks: list, until: float) -> str:
    begun = time.time()
    count = len(socks)
    cut = drip(socks, until, b"x")
    return f"{count} peers, {cut} cut off within {time.time() - begun:.0f} s"


def unfinished(target: Target, until: float) -> str:
    """Two megabytes less one byte of a packet, a body or a message, and then silence."""
    packet = frames.publish("open/unfinished", bytes(UNFINISHED_BYTES))[:-1]
    body = b"PUT /Free/x HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % UNFINISHED_BYTES
    part = frame(bytes(60_000), opcode=2, final=False)
    kinds = (
        (target.mqtt_port, lambda n: frames.connect(f"unfinished{n}", 0), packet),
        (target.http_port, lambda _: body, bytes(UNFINISHED_BYTES - 1)),
        (target.http_port, lambda _: websocket(), part),
    )
    socks = []
    for number in range(PEERS):
        port, began, more = kinds[number % 3]
        sock = connected(port, began(number))
        socks.append(sock)
        sock.setblocking(True)
        sock.settimeout(5)
        try:
            sock.sendall(more)
            if more is part:
                rest = frame(bytes(60_000), opcode=0, final=False)
                for _ in range(UNFINISHED_BYTES // 60_000 - 2):
                    sock.sendall(rest)
        except OSError:
            continue
    time.sleep(max(0.0, until - time.time()))
    cut = 0
    for sock in socks:
        sock.setblocking(False)
        cut += not say(sock, b"")
        drop(sock)
    return f"{len(socks)} peers, each with {UNFINISHED_BYTES / 1e6:.0f} MB"


def stopped_readers(target: Target, until: float) -> str:
    """Subscribers of every door that stop reading while ten thousand messages a second flow."""
    wanted = frames.subscribe("flood/#", 0)
    websocket_url = websocket("/flood/")
    events = EVENTS.replace(b"/Probe/", b"/flood/")
    socks = many(STOPPED, lambda n: connected(target.mqtt_port, frames.connect(f"s{n}") + wanted))
    socks += many(STOPPED, lambda _: connected(target.http_port, websocket_url))
    socks += many(STOPPED, lambda _: connected(target.http_port, events))
    sent = flood(target, until)
    for sock in socks:
        drop(sock)
    return f"{3 * STOPPED} stopped, {sent} messages"


def flood(target: Target, until: float) -> int:
    """Publish at a fixed rate; return how many were sent."""
    sock = connected(target.mqtt_port, frames.connect("flood"))
    sock.setblocking(True)
    batch = MESSAGE * (FLOOD_PER_SECOND // 100)
    sent, due = 0, time.time()
    while due < until:
        time.sleep(max(0.0, due - time.time()))
        sock.sendall(batch)
        sent += FLOOD_PER_SECOND // 100
        due += 0.01
    sock.close()
    return sent


def flood_alone(target: Target, until: float) -> str:
    """The same ten thousand messages a second, and nobody stops: to compare with."""
    return f"{flood(target, until)} messages"
