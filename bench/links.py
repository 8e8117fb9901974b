"""Non-blocking connections on one epoll, with output that a full socket did not take kept back."""

import select
import socket
from contextlib import suppress

from bench import frames
from bench.proc import BenchError

CONNECT_TIMEOUT_SECONDS = 20.0
RECEIVE_BYTES_MAX = 1 << 20
WRITE_ROOM = select.EPOLLIN | select.EPOLLOUT


def open_tcp(port: int) -> socket.socket:
    """Return a connected socket that writes at once."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=CONNECT_TIMEOUT_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def receive_exactly(sock: socket.socket, size: int) -> bytes:
    """Return exactly `size` bytes from a blocking socket."""
    data = sock.recv(size)
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise BenchError("the server closed a connection")
        data += more
    return data


def open_mqtt(
    port: int, client_id: str, topic_filter: str = "", qos: int = 0, *, clean: bool = True
) -> socket.socket:
    """Return a blocking socket with an MQTT connection, subscribed if a filter is given.

    A session that is not clean is a new one: what an earlier round had in flight would come first.
    """
    if not clean:
        open_mqtt(port, client_id).close()  # MQTT-3.1.2-6
    sock = open_tcp(port)
    sock.sendall(frames.connect(client_id, clean=clean))
    answer = receive_exactly(sock, frames.CONNACK_SIZE)
    if answer[0] != 0x20 or answer[3] != 0:
        raise BenchError(f"the server refused {client_id}: CONNACK {answer.hex()}")
    if topic_filter:
        sock.sendall(frames.subscribe(topic_filter, qos))
        answer = receive_exactly(sock, frames.SUBACK_SIZE)
        if answer[0] != 0x90 or answer[4] != qos:
            raise BenchError(f"the server refused {topic_filter}: SUBACK {answer.hex()}")
    return sock


class Poller:
    """One epoll, one receive buffer and the links that share them."""

    def __init__(self) -> None:
        self.epoll = select.epoll()
        self.buffer = bytearray(RECEIVE_BYTES_MAX)
        self.view = memoryview(self.buffer)
        self.links: dict[int, Link] = {}

    def turn(self, timeout_seconds: float) -> bool:
        """Handle what is ready; False when nothing was."""
        links = self.links
        ready = self.epoll.poll(timeout_seconds, 1024)
        for fd, events in ready:
            link = links[fd]
            if events & select.EPOLLOUT:
                link.flush()
            if events & ~select.EPOLLOUT:
                link.read()
        return bool(ready)

    def close(self) -> None:
        """Close every connection."""
        for link in self.links.values():
            link.sock.close()
        self.epoll.close()


class Link:
    """A connection of a Poller; what it does with input is its subclass's."""

    def __init__(self, poller: Poller, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.poller, self.sock = poller, sock
        self.carry = self.pending = b""
        poller.links[sock.fileno()] = self
        poller.epoll.register(sock.fileno(), select.EPOLLIN)

    def read(self) -> None:
        """Handle input."""
        raise NotImplementedError

    def fill(self) -> int:
        """Receive behind what was carried over; return how many bytes the buffer holds now."""
        have = len(self.carry)
        try:
            if not have:
                size = self.sock.recv_into(self.poller.buffer)
            else:
                self.poller.buffer[:have] = self.carry
                size = self.sock.recv_into(self.poller.view[have:])
        except BlockingIOError:
            return have
        if not size:
            raise BenchError("the server closed a connection")
        return have + size

    def keep(self, used: int, size: int) -> None:
        """Carry an unfinished frame over to the next read."""
        self.carry = bytes(self.poller.view[used:size]) if used < size else b""

    def send(self, data: bytes | memoryview) -> None:
        """Write now what the socket takes and the rest when it has room."""
        if self.pending:
            self.pending += bytes(data)
            return
        sent = 0
        with suppress(BlockingIOError):
            sent = self.sock.send(data)
        if sent < len(data):
            self.pending = bytes(data[sent:])
            self.poller.epoll.modify(self.sock.fileno(), WRITE_ROOM)

    def flush(self) -> None:
        """Write what was kept back."""
        data, self.pending = self.pending, b""
        self.poller.epoll.modify(self.sock.fileno(), select.EPOLLIN)
        self.send(data)

    def close(self) -> None:
        """End the connection."""
        self.poller.epoll.unregister(self.sock.fileno())
        del self.poller.links[self.sock.fileno()]
        self.sock.close()
