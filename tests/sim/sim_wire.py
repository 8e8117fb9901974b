"""A network of bytes between an MQTT client and the real server side of its connection.

Bytes travel in chunks and at moments that the seed chooses. The client's end may stop reading, so
the server's buffer fills; either end may vanish.
"""

from collections import deque

from sim_checks import Violation

from rowcast.doors.mqtt.packets.handlers import on_disconnect
from rowcast.mqtt.connection import Connection
from rowcast.mqtt.encode import encode
from rowcast.mqtt.violations import Violation as Breach

BUFFER_BYTES_HIGH = 400
BUFFER_BYTES_LOW = 100


def hear_goodbye(client, packet):
    """Note that the server takes a DISCONNECT, and do so."""
    client.transport.goodbye_heard = True
    on_disconnect(client, packet)


class Link:
    """One connection: the server's transport, and the client's socket."""

    def __init__(self, world, server, version):
        self._world = world
        self._loop = world.loop
        self._rng = world.rng
        self._up = bytearray()
        self._down = bytearray()
        self._codec = Connection("client", version=version)
        self._inbox = deque()
        self._waiter = None
        self._read = True
        self._closing = False
        self._full = False
        self._pumping = set()
        self._abandoned = False
        self.version = version
        self.server = server
        self.stopped = False
        """Whether the client does not read."""
        self.over = False
        self.ended_at = None
        """When one side ended it; None while none did."""
        self.ended_by_server = False
        self.goodbye = None
        """The DISCONNECT that its client sent."""
        self.goodbye_heard = False
        """Whether the server took it."""
        server.links.append(self)
        self.number = len(server.links)
        """Its place among the connections of this server."""
        self.client = None
        self.client = server.broker.enter(self, "127.0.0.1")
        """The server's side; None if the server takes no more connections."""

    # -- the server's transport --------------------------------------------------------------------

    def write(self, data):
        if self.over:
            return
        self._down += data
        if len(self._down) > BUFFER_BYTES_HIGH and not self._full:
            self._full = True
            self.client.pause_writing()
        self._pump(self._carry_down)

    def get_extra_info(self, name, default=None):
        return default

    def get_write_buffer_size(self):
        return len(self._down)

    def close(self):
        self._note_end(by_server=True)
        self._closing = True
        self._pump(self._carry_down)

    def abort(self):
        self._note_end(by_server=True)
        self._end()

    def _note_end(self, *, by_server):
        if self.ended_at is None:
            self.ended_at, self.ended_by_server = self._loop.time(), by_server

    def pause_reading(self):
        self._read = False

    def resume_reading(self):
        self._read = True
        self._pump(self._carry_up)

    def _pump(self, carry):
        if carry not in self._pumping and not self.over:
            self._pumping.add(carry)
            delay = self._rng.choice((0, 0, 0.001, 0.003, 0.02))
            self._loop.call_later(delay, self._pumped, carry)

    def _pumped(self, carry):
        self._pumping.discard(carry)
        if not self.over:
            carry()

    def _chunk(self, buffer):
        size = self._rng.choice((1, 7, 40, 400, 10_000))
        data = bytes(buffer[:size])
        del buffer[:size]
        return data

    def _carry_up(self):
        if self._read and not self._closing and self._up:
            self.client.data_received(self._chunk(self._up))
            if self._up:
                self._pump(self._carry_up)

    def _carry_down(self):
        if self._down and not self.stopped:
            for packet in self._codec.receive(self._chunk(self._down)):
                if isinstance(packet, Breach):
                    raise Violation(f"the server breaks MQTT: {packet.message}")
                self._inbox.append(packet)
            self._wake()
        if self._full and len(self._down) < BUFFER_BYTES_LOW:
            self._full = False
            self.client.resume_writing()
        if self._down and not self.stopped:
            self._pump(self._carry_down)
        elif self._closing and not self._down:
            self._end()

    def _end(self):
        """End it in both directions: the server's side hears of it in a later turn."""
        if not self.over:
            self.cut()
            if self.client is not None:
                self._loop.call_soon(self.client.connection_lost, None)

    def cut(self):
        """End it without a word to the server: its process is gone."""
        self.over = True
        self._up.clear()
        self._down.clear()
        self._wake()

    # -- the client's socket -----------------------------------------------------------------------

    def send(self, packet):
        if self.goodbye is not None and self.goodbye is not packet:
            return  # MQTT-3.14.4-2: nothing after DISCONNECT
        self._up += encode(packet, self.version)
        self._pump(self._carry_up)

    def drop(self):
        """Vanish."""
        self._note_end(by_server=False)
        self._end()

    def abandon(self):
        """Leave it open and take no more notice of it."""
        self._abandoned = True
        self._wake()

    def stop(self):
        """Read no more until ``go``."""
        self.stopped = True

    def go(self):
        self.stopped = False
        self._pump(self._carry_down)

    def _wake(self):
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def receive(self):
        """Return the next packet; None when the connection is over."""
        while not self._inbox or self._abandoned:
            if self.over or self._abandoned:
                return None
            self._waiter = self._loop.create_future()
            await self._waiter
        return self._inbox.popleft()
