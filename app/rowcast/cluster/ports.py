"""Connections between nodes on several machines: TCP, with TLS where there are certificates."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rowcast.cluster.follower_link import FollowerLink
from rowcast.cluster.frames import Frames
from rowcast.cluster.handshake import SECONDS, Handshake
from rowcast.cluster.sequencer_links import SequencerLinks
from rowcast.cluster.sockets import Connections, begin_relay
from rowcast.cluster.table_copies import CopyReceiver
from rowcast.core.errors import Code, Error
from rowcast.core.limits import MQTT_STALL_SECONDS, STREAM_SEND_SECONDS
from rowcast.core.peers import network
from rowcast.net.fair_places import FairPlaces
from rowcast.net.handshake import Handshakes
from rowcast.net.relay import Client

log = logging.getLogger("rowcast.cluster")

CONNECT_SECONDS: Final = 5.0
"""To connect: a machine that has gone does not refuse, and another one may number meanwhile."""
STRANGERS_MAX: Final = 32
"""Connections that have not proved who they are: more than a cluster has nodes. A further one takes
the place of the oldest of the network with the most, or is closed. With TLS there may be as many
whose handshake is not done, too."""


SILENCE_SECONDS: Final = 4
"""After which a connection ends whose other side is gone without a word, as by a cut cable: then a
new one is tried, again and again. TCP itself would wait for a quarter of an hour."""
RELAY_SILENCE_SECONDS: Final = SILENCE_SECONDS + max(MQTT_STALL_SECONDS, STREAM_SEND_SECONDS)
"""The same for the connection of a client that is passed on. Its other side also takes nothing
while the client, or the sequencer, takes nothing; their own bounds are shorter, and say so."""
_ASKED: Final = 2
"""How often the other side is asked meanwhile, a second apart (tcp(7))."""


def notice_silence(frames: Frames, seconds: int = SILENCE_SECONDS) -> None:
    """Have the system end a connection whose other side does not answer it any more.

    Nor does one count as an answer for that says, for so long, that there is no room for more.
    """
    connected = None if frames.transport is None else frames.transport.get_extra_info("socket")
    if connected is None:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", seconds - _ASKED),
        ("TCP_KEEPINTVL", 1),
        ("TCP_KEEPCNT", _ASKED),
        ("TCP_USER_TIMEOUT", seconds * 1000),
    ):
        option = getattr(socket, name, None)  # not every system has all of them
        if option is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)


class SequencerPort(Connections):
    """Listens for followers; ``key`` is what they must have."""

    def __init__(
        self,
        links: SequencerLinks,
        key: bytes,
        tls: ssl.SSLContext | None = None,
        strangers_max: int = STRANGERS_MAX,
    ) -> None:
        super().__init__(links)
        self._key, self._shaking = key, _handshakes(tls, self._make, strangers_max)
        self._strangers = FairPlaces[Frames](strangers_max)

    async def start(self, host: str, port: int) -> None:
        """Begin to accept. Raises BUSY when the port is taken."""
        make = self._make if self._shaking is None else self._shaking.protocol
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(make, host, port)
        except OSError as error:
            raise Error(
                Code.BUSY,
                f"the port {host}:{port} for other nodes cannot be opened ({error.strerror}); it is"
                " the one after this node's in --peer",
            ) from error

    def _begin(self, frames: Frames) -> None:
        notice_silence(frames)
        entered, displaced = self._strangers.enter(frames, _network_of(frames))
        if displaced is not None:
            displaced.close()
        if not entered:
            frames.close()
            return
        loop = asyncio.get_running_loop()
        shaking = Handshake(frames, self._key, loop, lambda: self._known(frames))

        def ended() -> None:
            self._strangers.leave(frames)
            shaking.cancel()

        frames.ended = ended
        shaking.accept()

    def _known(self, frames: Frames) -> None:
        self._strangers.leave(frames)
        super()._begin(frames)

    def _relay(self, frames: Frames, client: Client) -> None:
        notice_silence(frames, RELAY_SILENCE_SECONDS)
        super()._relay(frames, client)

    def stop(self) -> None:
        """End all connections, and accept no more."""
        super().stop()
        for frames in tuple(self._strangers):
            frames.close()
        for shaking in () if self._shaking is None else self._shaking.under_way:
            shaking.abort()


def _handshakes(
    tls: ssl.SSLContext | None, make: Callable[[], Frames], most: int
) -> Handshakes | None:
    """Return what begins with TLS, with as many strangers as there may be after it."""
    if tls is None:
        return None
    return Handshakes("the port for other nodes", lambda: tls, make, SECONDS, most)


def _network_of(frames: Frames) -> str:
    transport = frames.transport
    peer = None if transport is None else transport.get_extra_info("peername")
    return network(str(peer[0])) if peer else ""


async def follow(
    host: str,
    port: int,
    key: bytes,
    link: FollowerLink,
    lost: Callable[[], None],
    tls: ssl.SSLContext | None = None,
    seconds: float = CONNECT_SECONDS,
) -> Frames:
    """Connect to the sequencer, and follow it; ``lost`` is called when that ends.

    Raises BUSY when nothing listens there.
    """

    def known(frames: Frames) -> None:
        frames.received = link.received
        link.connected(frames.send, frames.waiting_bytes)

    def ended() -> None:
        link.disconnected()
        lost()

    return await _connect(host, port, key, known, ended, tls, seconds)


async def relay(
    host: str,
    port: int,
    key: bytes,
    client: Client,
    far: asyncio.Protocol,
    tls: ssl.SSLContext | None = None,
    seconds: float = CONNECT_SECONDS,
) -> asyncio.Transport:
    """Pass on a client's connection to the sequencer; returns when it has begun.

    Raises BUSY when that node is not reached.
    """
    begun: asyncio.Future[asyncio.Transport] = asyncio.get_running_loop().create_future()

    def known(frames: Frames) -> None:
        if not begun.done():
            notice_silence(frames, RELAY_SILENCE_SECONDS)
            begun.set_result(begin_relay(frames, client, far))

    def ended() -> None:
        if not begun.done():
            begun.set_exception(Error(Code.BUSY, f"{host}:{port} has ended the connection"))

    frames = await _connect(host, port, key, known, ended, tls, seconds)
    try:
        async with asyncio.timeout(seconds):
            return await begun
    except TimeoutError as error:
        raise Error(Code.BUSY, f"{host}:{port} does not answer") from error
    finally:
        frames.close()  # nothing happens when it was handed over


async def fetch_copy(
    host: str,
    port: int,
    key: bytes,
    file: Path,
    tls: ssl.SSLContext | None = None,
    seconds: float = CONNECT_SECONDS,
) -> None:
    """Get a copy of the tables of the sequencer into a new file. Raises BUSY, INVALID."""
    receiver = CopyReceiver(file)

    def known(frames: Frames) -> None:
        frames.received = receiver.received
        receiver.ask(frames.send)

    frames = await _connect(host, port, key, known, receiver.lost, tls, seconds)
    try:
        await receiver.done
    finally:
        frames.close()


async def _connect(
    host: str,
    port: int,
    key: bytes,
    known: Callable[[Frames], None],
    ended: Callable[[], None],
    tls: ssl.SSLContext | None,
    seconds: float,
) -> Frames:
    frames = Frames()
    loop = asyncio.get_running_loop()
    frames.ended = ended
    shaking = Handshake(frames, key, loop, lambda: known(frames))
    shaking.connect()
    try:
        async with asyncio.timeout(seconds):
            await loop.create_connection(lambda: frames, host, port, ssl=tls)
        notice_silence(frames)
    except (OSError, ssl.SSLError, TimeoutError) as error:
        shaking.cancel()
        raise Error(Code.BUSY, f"{host}:{port} cannot be reached: {error}") from error
    return frames
