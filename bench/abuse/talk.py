"""What the attackers say, and sockets that are many."""

import os
import resource
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from bench import frames
from talking import upgrade

RESET = struct.pack("ii", 1, 0)
EVENTS = b"GET /Probe/ HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n"
CONNECT_SECONDS = 20.0


def raise_descriptors() -> int:
    """Let this process have as many sockets as it may; return how many."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def connected(port: int, said: bytes = b"") -> socket.socket:
    """Return a socket that does not block, connected, with something said."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=CONNECT_SECONDS)
    if said:
        sock.sendall(said)
    sock.setblocking(False)
    return sock


def many(count: int, make: Callable[[int], socket.socket]) -> list[socket.socket]:
    """Return as many sockets as can be made."""
    made: list[socket.socket] = []
    for number in range(count):
        with suppress(OSError):
            made.append(make(number))
    return made


def drop(sock: socket.socket) -> None:
    """Close with RST."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    sock.close()


def say(sock: socket.socket, data: bytes) -> bool:
    """Send what the peer takes; False when it is gone."""
    try:
        sock.send(data)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True


def heard(sock: socket.socket) -> bytes | None:
    """Return what came; None when the peer is gone."""
    try:
        data = sock.recv(65_536)
    except BlockingIOError:
        return b""
    except OSError:
        return None
    return data or None


def drip(socks: Iterable[socket.socket], until: float, byte: bytes, every: float = 1.0) -> int:
    """Say a byte to each now and then, until the time is over; return how many were cut off."""
    alive, cut = list(socks), 0
    while time.time() < until and alive:
        still = []
        for sock in alive:
            if heard(sock) is None or not say(sock, byte):
                cut += 1
                sock.close()
            else:
                still.append(sock)
        alive = still
        time.sleep(every)
    for sock in alive:
        sock.close()
    return cut


def reading(socks: Iterable[socket.socket], until: float) -> int:
    """Read all that comes until the time is over; return how many bytes that was."""
    selector, total = selectors.DefaultSelector(), 0
    for sock in socks:
        selector.register(sock, selectors.EVENT_READ)
    while time.time() < until and selector.get_map():
        for key, _ in selector.select(0.5):
            sock = key.fileobj
            data = heard(sock)
            if data is None:
                selector.unregister(sock)
                sock.close()
            else:
                total += len(data)
    selector.close()
    return total


def websocket(path: str = "/Probe/", protocol: str = "") -> bytes:
    """Return the request that opens a WebSocket."""
    return upgrade(path, protocol)


def frame(data: bytes, *, opcode: int = 1, final: bool = True, reserved: int = 0) -> bytes:
    """Return a client's WebSocket frame, with a mask of zeros."""
    first = bytes([(0x80 if final else 0) | reserved | opcode])
    return first + frame_size(len(data)) + bytes(4) + data


def frame_size(size: int) -> bytes:
    """Return the length of a masked frame."""
    if size < 126:
        return bytes([0x80 | size])
    if size < 65_536:
        return b"\xfe" + size.to_bytes(2, "big")
    return b"\xff" + size.to_bytes(8, "big")


def request(method: str, path: str, body: bytes, content_type: str, extra: str = "") -> bytes:
    """Return a request with a body."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {content_type}\r\n{extra}"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def mqtt5_connect(
    client_id: str, properties: bytes = b"", flags: int = 2, rest: bytes = b""
) -> bytes:
    """Return CONNECT of MQTT 5, with Keep Alive 60."""
    body = frames.text("MQTT") + bytes([5, flags]) + (60).to_bytes(2, "big")
    body += frames.varint(len(properties)) + properties + frames.text(client_id) + rest
    return b"\x10" + frames.varint(len(body)) + body


def unique() -> str:
    """Return a name that nobody else has."""
    return os.urandom(8).hex()
