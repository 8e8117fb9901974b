"""The socket between the processes of one machine: a file that only their user can open."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, cast

from rowcast.cluster.follower_link import FollowerLink
from rowcast.cluster.frames import Frames
from rowcast.cluster.messages import RELAY, pack, unpack
from rowcast.cluster.sequencer_links import SequencerLinks
from rowcast.core.errors import Code, Error
from rowcast.net.relay import Client, RelayedTransport

PATH_BYTES_MAX: Final = 107
"""Of a Unix socket (unix(7), sun_path, without its closing zero)."""
MODE: Final = 0o600
DESCRIPTORS: Final = Path("/proc/self/fd")
"""Where Linux shows open directories: their names are short (proc(5))."""


@contextmanager
def address_of(place: Path, descriptors: Path = DESCRIPTORS) -> Iterator[str]:
    """Give a path of a socket that is short enough for this system.

    ``descriptors`` shows open directories, where it exists. Raises INVALID where there is no such
    path, BUSY when the directory cannot be opened.
    """
    if len(os.fsencode(place)) <= PATH_BYTES_MAX:
        yield str(place)
        return
    if not descriptors.is_dir():
        raise Error(
            Code.INVALID,
            f"the path of the socket {place} is longer than {PATH_BYTES_MAX} bytes; "
            "choose a data directory with a shorter path, with --data",
        )
    try:
        directory = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise Error(Code.BUSY, f"{place.parent} cannot be opened: {error.strerror}") from error
    try:
        yield str(descriptors / str(directory) / place.name)
    finally:
        os.close(directory)


class Connections:
    """What listens for processes that follow, wherever: the connections that it has accepted."""

    def __init__(self, links: SequencerLinks) -> None:
        self._links = links
        self._server: asyncio.Server | None = None
        self._open: set[Frames] = set()
        self.on_relay: Callable[[Client], asyncio.Protocol] | None = None
        """Returns what takes the connection of a client that another process passes on."""

    def _make(self) -> Frames:
        frames = Frames()
        frames.made = self._begin
        return frames

    def _begin(self, frames: Frames) -> None:
        frames.received = partial(self._first, frames)
        self._open.add(frames)
        frames.ended = lambda: self._open.discard(frames)

    def _first(self, frames: Frames, message: bytes) -> None:
        """Take the first message: it says what the connection is for."""
        kind, content = unpack(message)
        if kind == RELAY:
            self._open.discard(frames)
            self._relay(frames, Client.unpack(cast("bytes", content)))
            return
        self._link(frames)
        frames.received(message)

    def _relay(self, frames: Frames, client: Client) -> None:
        if self.on_relay is None or frames.transport is None:
            raise Error(Code.BUSY, "this process takes no connections of others")
        transport = RelayedTransport(frames.transport, client)
        heir = self.on_relay(client)
        frames.hand_over(heir, transport)

    def _link(self, frames: Frames) -> None:
        link = self._links.link(frames.send)

        def room(free: bool) -> None:
            link.full = not free
            link.catch_up()

        def ended() -> None:
            self._open.discard(frames)
            link.close()

        link.on_close, link.on_cut = frames.close, frames.cut
        frames.received, frames.ended, frames.room = link.received, ended, room

    def stop(self) -> None:
        """End all connections, and accept no more."""
        if self._server is not None:
            self._server.close()
        for frames in tuple(self._open):
            frames.close()


class SequencerSocket(Connections):
    """Listens for processes of this machine that follow."""

    def __init__(self, place: Path, links: SequencerLinks) -> None:
        super().__init__(links)
        self.place = place
        """The file."""

    async def start(self) -> None:
        """Begin to accept. Raises BUSY when it fails, INVALID as ``address_of``."""
        self.place.unlink(missing_ok=True)  # of an earlier run: the data directory is locked
        before = os.umask(0o777 & ~MODE)
        try:
            loop = asyncio.get_running_loop()
            with address_of(self.place) as address:
                self._server = await loop.create_unix_server(self._make, address)
        except OSError as error:
            what = f"the socket {self.place} cannot be made: {error.strerror}"
            raise Error(Code.BUSY, f"{what}; choose another data directory") from error
        finally:
            os.umask(before)

    def stop(self) -> None:
        """End all connections, and accept no more."""
        super().stop()
        self.place.unlink(missing_ok=True)


async def follow(place: Path, link: FollowerLink, lost: Callable[[], None]) -> Frames:
    """Connect to the sequencer; ``lost`` is called when the connection ends.

    Raises BUSY when nothing listens there.
    """
    frames = Frames()

    def ended() -> None:
        link.disconnected("its process has ended")
        lost()

    frames.received, frames.ended = link.received, ended
    try:
        with address_of(place) as address:
            await asyncio.get_running_loop().create_unix_connection(lambda: frames, address)
    except OSError as error:
        what = f"no server listens on {place}: {error.strerror}"
        raise Error(Code.BUSY, f"{what}; start it with rowcast serve --workers") from error
    link.connected(frames.send, frames.waiting_bytes)
    return frames


async def relay(
    place: Path, client: Client, far: asyncio.Protocol, seconds: float
) -> asyncio.Transport:
    """Pass on a client's connection to the sequencer. Raises BUSY."""
    frames = Frames()
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            with address_of(place) as address:
                await loop.create_unix_connection(lambda: frames, address)
        return begin_relay(frames, client, far)
    except (OSError, TimeoutError) as error:
        raise Error(
            Code.BUSY, "the server is not reached, so nothing was done; try again in a second"
        ) from error


def begin_relay(frames: Frames, client: Client, far: asyncio.Protocol) -> asyncio.Transport:
    """Say whose connection this is now. Raises BUSY when it is lost."""
    frames.send(pack(RELAY, client.pack()))
    return frames.hand_over(far)
