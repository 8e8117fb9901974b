"""A webhook as what a trigger calls: posts each event to a configured URL, at least once (G24).

The log is its outbox: an event that is not accepted is posted again, and later ones wait.
"""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final
from uuid import uuid4

from rowcast.codecs import JSON, decode, encode_answer
from rowcast.core.clock import WallClock, seconds_of
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, Event
from rowcast.core.webhook_limits import (
    WEBHOOK_ATTEMPTS_MAX,
    WEBHOOK_BACKOFF_FACTOR,
    WEBHOOK_BACKOFF_SECONDS,
    WEBHOOK_BACKOFF_SECONDS_MAX,
)
from rowcast.features.triggers.trigger import Retries
from rowcast.kernel.kernel import Kernel
from rowcast.net.webhook_call import call, in_thread
from rowcast.net.webhook_signature import signed_headers
from rowcast.routes.system_rows import time_text

RETRIES: Final = Retries(
    WEBHOOK_ATTEMPTS_MAX,
    WEBHOOK_BACKOFF_SECONDS,
    WEBHOOK_BACKOFF_FACTOR,
    WEBHOOK_BACKOFF_SECONDS_MAX,
)

Post = Callable[[str, Mapping[str, str], bytes], Awaitable[None]]
"""Posts a body to a URL with headers, off the loop."""


async def post(url: str, headers: Mapping[str, str], body: bytes) -> None:
    """Post on a thread; raises CallError unless the answer is a success."""
    await in_thread(partial(call, url, headers, body))


class WebhookAction:
    """Posts events to one URL."""

    def __init__(self, url: str, secret: str, send: Post = post) -> None:
        self._url, self._secret, self._send = url, secret, send
        self._kernel: Kernel
        self._now: WallClock
        self._unlogged: tuple[Event, str] | None = None
        """The unlogged event that was posted last, and its id: it keeps it when it is repeated."""

    def bind(self, kernel: Kernel) -> None:
        """Set its kernel."""
        self._kernel, self._now = kernel, kernel.now

    async def __call__(self, event: Event) -> None:
        """Post an event; raises CallError when it is not accepted."""
        body = self._body(event)
        headers = signed_headers(self._secret, self._id(event), int(self._now()), body)
        await self._send(self._url, headers, body)

    def _id(self, event: Event) -> str:
        """Return what no other event has: the cursor; of an unlogged one, which has none, any."""
        if event.seq:
            return self._kernel.cursor(event.seq)
        if self._unlogged is None or self._unlogged[0] is not event:
            self._unlogged = event, f"unlogged:{uuid4()}"
        return self._unlogged[1]

    def _body(self, event: Event) -> bytes:
        """Return type, time and data, as Standard Webhooks recommends."""
        data: dict[str, object] = {"topic": event.topic, "client": event.client or None}
        if event.seq:
            data["seq"] = self._kernel.cursor(event.seq)
        if event.kind != DELETE:
            data |= self._value(event)
        at = time_text(seconds_of(event.version) if event.version else self._now())
        said = {"type": f"event.{event.kind}", "timestamp": at, "data": data}
        return encode_answer(said, JSON)

    def _value(self, event: Event) -> dict[str, object]:
        """Return the value; of plain bytes, text or base64 and the media type."""
        try:
            return {"value": decode(self._kernel.transcoder.payload(event, JSON), JSON)}
        except Error:  # plain bytes
            pass
        media_type = {"content_type": event.content_type}
        try:
            return {"payload": event.payload.decode(), **media_type}
        except UnicodeDecodeError:
            return {"payload_base64": b64encode(event.payload).decode(), **media_type}
