"""A way to a broker that can be cut, or made deaf: acknowledgements get lost on it."""

import selectors
import socket
import threading
from contextlib import suppress

from talking import cut

PIECE_BYTES = 65_536
LOOK_SECONDS = 0.05


class Way:
    """A port whose connections lead to another port."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        self.deaf = False
        """Whether what the broker says is thrown away."""
        self.choke: bytes | None = None
        """What ends a connection that carries it to the broker, as if the broker choked on it."""
        self.choked = 0
        self.shut = False
        """Whether nobody comes through."""
        self.cuts = 0
        self._cut = self._ended = False
        self._peers: dict[socket.socket, socket.socket] = {}
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._door, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def cut(self) -> None:
        """Reset all connections, and hear again."""
        self._cut = True

    def close(self) -> None:
        """End it."""
        self._ended = True
        self._thread.join()

    def _run(self) -> None:
        while not self._ended:
            for key, _ in self._ready.select(LOOK_SECONDS):
                if key.fileobj is self._door:
                    self._open()
                elif key.fileobj in self._peers:
                    self._carry(key.fileobj)
            if self._cut:
                self.cuts += bool(self._peers)
                self._end_all()
                self._cut = self.deaf = False
        self._end_all()
        self._door.close()

    def _open(self) -> None:
        near, _ = self._door.accept()
        if self.shut:
            cut(near)
            return
        try:
            far = socket.create_connection(("127.0.0.1", self._to), 5)
        except OSError:
            cut(near)
            return
        for one, other in ((near, far), (far, near)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._peers[one] = other
            self._ready.register(one, selectors.EVENT_READ, one is far)

    def _carry(self, one: socket.socket) -> None:
        other = self._peers[one]
        try:
            data = one.recv(PIECE_BYTES)
            if self.choke is not None and self.choke in data:
                self.choked += 1
                data = b""
            if data and not (self.deaf and self._ready.get_key(one).data):
                other.sendall(data)
        except OSError:
            data = b""
        if not data:
            self._end(one)
            self._end(other)

    def _end_all(self) -> None:
        for one in list(self._peers):
            self._end(one)

    def _end(self, one: socket.socket) -> None:
        if self._peers.pop(one, None) is not None:
            with suppress(KeyError):
                self._ready.unregister(one)
            cut(one)
