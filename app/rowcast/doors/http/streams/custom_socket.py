"""A WebSocket to a resource with its own ``connect``.

The resource receives and sends values, without envelopes or commands, in the connection's format.
"""

import asyncio
import contextlib
from typing import Final

from rowcast.codecs import JSON, decode
from rowcast.core.callers import Caller
from rowcast.core.limits import (
    STREAM_END_SECONDS,
)
from rowcast.doors.http.door import HttpDoor
from rowcast.doors.http.messages.asgi import Receive, Send
from rowcast.doors.http.messages.problems import as_error
from rowcast.doors.http.streams.channels import Gone, SocketChannel
from rowcast.doors.http.streams.frames import Frames
from rowcast.doors.http.streams.outgoing import encoded, event_in, items_of
from rowcast.doors.http.streams.socket_connection import Connection, close_status
from rowcast.kernel.reauthorization import judge_resource, subscription_of
from rowcast.routes.resource import Incoming, Resource, Stream
from rowcast.seams.user_code import is_mistake
from rowcast.subscriptions.subscription import Subscription

NORMAL: Final = 1000


class ResourceSocket(Connection):
    """A connection to a resource with its own ``connect``."""

    def __init__(
        self, edge: HttpDoor, resource: Resource, frames: Frames, channel: SocketChannel, send: Send
    ) -> None:
        super().__init__(edge, frames.media_type)
        self._frames = frames
        self._resource = resource
        self._channel, self._asgi_send = channel, send
        self._busy_since = 0.0
        self._incoming = Incoming()
        self._source: object = None
        self._sender: asyncio.Task[None] | None = None

    async def run(self, receive: Receive) -> None:
        """Relay between the resource and the client until either closes."""
        edge = self._edge
        loop = asyncio.get_running_loop()
        edge.watch.add(self)
        self._sender = loop.create_task(self._send_all())
        listener = loop.create_task(self._listen(receive))
        try:
            await asyncio.wait((self._sender, listener), return_when=asyncio.FIRST_COMPLETED)
            await self._finish()
        finally:
            edge.watch.remove(self)
            listener.cancel()
            self._sender.cancel()
        await self._close()

    async def _finish(self) -> None:
        """Notify the resource of the disconnect, and give it a moment to finish."""
        self._incoming.close()
        if isinstance(self._source, Stream):
            self._source.close()
        sender = self._sender
        if sender is not None:
            await asyncio.wait((sender,), timeout=STREAM_END_SECONDS)

    @property
    def busy_since(self) -> float:
        """Since when the peer is waited for, in the loop's seconds; 0 when it is not."""
        return self._busy_since

    def judge(self) -> None:
        """Raise an Error if the client is no longer authorised."""
        judge_resource(self._resource, self._source)

    @property
    def path(self) -> str:
        """The path that it was opened at."""
        return f"/{self._resource.topic}"

    @property
    def caller(self) -> Caller:
        """Who is connected."""
        return self._resource.caller

    @property
    def subscription(self) -> Subscription | None:
        """The kernel's subscription that the resource relays, if any."""
        return subscription_of(self._source)

    def _stop_sending(self) -> None:
        self._incoming.close()
        if self._sender is not None:
            self._sender.cancel()

    async def _send(self, payload: bytes) -> None:
        self._busy_since = asyncio.get_running_loop().time()
        await self._channel.send([self._channel.pack(payload)])
        self._busy_since = 0.0

    async def _send_all(self) -> None:
        """Send the resource's values, without envelopes."""
        frames = self._frames
        try:
            self._source = await self.kernel.connect(self._resource, self._incoming)
            async with contextlib.aclosing(items_of(self._source)) as items:
                async for item in items:
                    event = event_in(item)
                    payload = (
                        encoded(item, self.media_type) if event is None else frames.envelope(event)
                    )
                    await self._send(payload)
            self._goodbye = self._goodbye or (NORMAL, "")
        except Gone:
            self._gone = True
        except BaseException as failure:
            if not is_mistake(failure):
                raise
            error = as_error(failure, f"the stream of {self._resource.topic!r}")
            self._goodbye = self._goodbye or close_status(error)

    async def _listen(self, receive: Receive) -> None:
        """Pass the client's messages to the resource."""
        try:
            while (payload := await self._received(receive)) is not None:
                await self._incoming.put(self._value(payload))
            self._gone = True
        except BaseException as failure:  # listeners are user code; it is logged
            if not is_mistake(failure):
                raise
            error = as_error(failure, f"what was said to {self._resource.topic!r}")
            self._goodbye = self._goodbye or close_status(error)

    def _value(self, payload: str | bytes) -> object:
        if isinstance(payload, str):
            return decode(payload.encode(), JSON)
        return decode(payload, self.media_type) if self.media_type != JSON else payload
