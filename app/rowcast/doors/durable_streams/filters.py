"""A filter of tables and topics, read as a stream of JSON: each message is one event of the log.

It has the rights, row rules and masks of its reader, as history has. It cannot be written.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from rowcast.codecs import JSON, encode_answer
from rowcast.core.callers import Caller
from rowcast.core.durable_stream_limits import DURABLE_PAGE_EVENTS, DURABLE_READ_BYTES
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, Event
from rowcast.core.meta import meta_of
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.doors.durable_streams.pieces import Piece
from rowcast.features.history.history import history_of
from rowcast.features.history.moments import forgotten
from rowcast.kernel.kernel import Kernel
from rowcast.routes.excluded_tables import check_not_excluded
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

_TAKEN: Final = 1_000
"""Events that are taken from a queue at once; they only wake the reader."""


class FilterSource:
    """The events of one filter for one caller."""

    content_type: Final = JSON
    is_json: Final = True
    closed: Final = False
    beginning: Final = 0

    def __init__(self, kernel: Kernel, text: str, caller: Caller) -> None:
        self._kernel = kernel
        self.topics = TopicFilter(text)
        self._caller = caller
        self._subscription: Subscription | None = None
        self._rung = asyncio.Event()
        self.life = f"filter-{kernel.reader.epoch}"

    @property
    def tail(self) -> int:
        """The end of the log, as far as it is announced."""
        return self._kernel.committer.announced

    def authorise(self) -> None:
        """Raise unless the caller may read the filter."""
        if self.topics.text.startswith(("$", "#", "+")):
            raise Error(
                Code.INVALID,
                f"the filter {self.topics.text[:80]!r} begins with a wildcard or with $; name a "
                "table or a first level, as in /$streams/Sensor/+",
            )
        self._caller = self._kernel.reauthorization.current(self._caller)
        table = self._table()
        for protocol in ("rest", "sse"):  # what one of them does not offer is not offered here
            check_not_excluded(table, protocol)
        history_of(self._kernel).authorise(self.topics, self._caller)

    def _table(self) -> Table | None:
        return self._kernel.registry.route(self.topics.prefix or self.topics.text).table

    def facts(self) -> dict[str, str]:
        """Return further headers about it."""
        return {}

    def touch(self) -> None:
        """Reads change nothing."""

    def check(self, offset: int) -> int:
        """Return the position from which to read."""
        return offset

    async def read(self, after: int) -> Piece:
        """Return the next events; raises GONE when a part was trimmed."""
        kernel = self._kernel
        table = self._table()
        reads = history_of(kernel)
        window = await reads.window(self.topics, table, self._caller)
        trimmed = kernel.reader.trimmed([window.source])
        if 0 < after < trimmed:
            raise forgotten(kernel.reader, "what was asked for", trimmed)
        until, found, size = window.until, list[bytes](), 0
        position = max(after, trimmed)
        window = type(window)(window.topics, window.source, position, until)
        async for page in reads.pages(window, self._caller):
            for event in page:
                found.append(self._message(event))
                size += len(found[-1])
                if size >= DURABLE_READ_BYTES or len(found) >= DURABLE_PAGE_EVENTS:
                    return Piece(found, event.seq, whole=event.seq >= until)
        return Piece(found, max(after, until), whole=True)

    def _message(self, event: Event) -> bytes:
        value = None
        if event.kind != DELETE:
            value = self._kernel.transcoder.spelled(event, JSON)
        epoch = self._kernel.reader.epoch
        said = {"topic": event.topic, "value": value, **meta_of(event, epoch)}
        return encode_answer(said, JSON)

    async def waiting(self) -> Callable[[], Awaitable[object]]:
        """Begin to listen, before the next read; return what waits for something new."""
        if self._subscription is None:
            self._kernel.reader.shedding.check_subscribe()
            self._subscription = Subscription(
                self._kernel.reader, self._caller.client_id, self._rung.set
            )
            interest = SubscribedFilter(self.topics, marks=False)
            await self._kernel.authorise_waiting(interest, self._caller)
            self._kernel.watch(
                self._subscription, interest, self._caller, current=False, asked=True
            )
        self._rung.clear()
        while self._subscription.take(_TAKEN):
            pass  # they are read from the log
        return self._rung.wait

    def close(self) -> None:
        """Listen no more."""
        if self._subscription is not None:
            self._kernel.close(self._subscription)
            self._subscription = None
