"""Many MQTT connections that are opened at once, none of which waits for another."""

import errno
import socket
import time
from collections.abc import Callable

from bench import frames
from bench.links import WRITE_ROOM, Link, Poller
from bench.proc import BenchError

SILENCE_SECONDS = 60.0
AT_ONCE = 200
"""Connections that are being opened at the same time where their number is not what is measured."""


class Visitor(Link):
    """A connection from its first packet on; ``welcome`` is called when CONNACK is there."""

    def __init__(self, crowd: "Crowd", client_id: str, *, clean: bool) -> None:
        sock = socket.socket()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.begun = time.perf_counter()
        code = sock.connect_ex(("127.0.0.1", crowd.port))
        if code not in {0, errno.EINPROGRESS}:
            raise BenchError(f"a connection could not be made: {errno.errorcode[code]}")
        super().__init__(crowd.poller, sock)
        self.crowd = crowd
        self.present = self.welcomed = False
        self.pending = frames.connect(client_id, clean=clean)
        crowd.poller.epoll.modify(sock.fileno(), WRITE_ROOM)

    def flush(self) -> None:
        code = 0 if self.welcomed else self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise BenchError(f"a connection could not be made: {errno.errorcode[code]}")
        super().flush()

    def read(self) -> None:
        size = self.fill()
        used = 0
        if not self.welcomed:
            if size < frames.CONNACK_SIZE:
                self.keep(0, size)
                return
            used = frames.CONNACK_SIZE
            answer = bytes(self.poller.view[:used])
            if answer[0] != 0x20 or answer[3]:
                raise BenchError(f"the server refused a connection: CONNACK {answer.hex()}")
            self.present, self.welcomed = bool(answer[2]), True
            self.welcome()
        if size > used or self.carry:
            self.take(used, size)

    def welcome(self) -> None:
        """Do what comes after CONNACK."""
        self.crowd.arrived += 1

    def take(self, start: int, size: int) -> None:
        """Handle what came after CONNACK: data from ``start`` to ``size`` of the buffer."""
        self.keep(start, size)


class Newcomer(Visitor):
    """Subscribes to one filter in a session that stays, and goes."""

    def __init__(self, crowd: "Crowd", client_id: str, topic_filter: str, qos: int) -> None:
        super().__init__(crowd, client_id, clean=False)
        self.wanted = frames.subscribe(topic_filter, qos)
        self.qos = qos

    def welcome(self) -> None:
        self.send(self.wanted)

    def take(self, start: int, size: int) -> None:
        if size - start < frames.SUBACK_SIZE:
            self.keep(start, size)
            return
        answer = bytes(self.poller.view[start:size])
        if answer[0] != 0x90 or answer[4] != self.qos:
            raise BenchError(f"the server refused a filter: SUBACK {answer.hex()}")
        self.go()

    def go(self) -> None:
        """Say goodbye."""
        self.sock.send(frames.disconnect())
        self.close()
        self.crowd.arrived += 1


class Leaver(Visitor):
    """Ends the session of a client id."""

    def __init__(self, crowd: "Crowd", client_id: str) -> None:
        super().__init__(crowd, client_id, clean=True)

    def welcome(self) -> None:
        self.sock.send(frames.disconnect())
        self.close()
        self.crowd.arrived += 1


class Crowd:
    """Visitors of one server."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.poller = Poller()
        self.arrived = 0

    def come(self, make: Callable[[int], object], count: int, at_once: int = AT_ONCE) -> None:
        """Let ``count`` visitors come, some at the same time; return when all have arrived."""
        started, self.arrived = 0, 0
        while self.arrived < count:
            while started < count and started - self.arrived < at_once:
                make(started)
                started += 1
            self.turn()

    def turn(self) -> None:
        """Handle what is ready; a server that falls silent is an error."""
        if not self.poller.turn(SILENCE_SECONDS):
            raise BenchError("the server fell silent")

    def close(self) -> None:
        """Cut every connection."""
        for link in list(self.poller.links.values()):
            link.close()
