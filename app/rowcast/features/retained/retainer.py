"""The retainer: an interface of eight calls to retained messages, independent of MQTT.

Records ARE the retained messages, one for each topic, so there is no further storage: an empty body
is a deletion (E3), a later message replaces the one before (E5), and history is in the log, not
here (E6). Lists are skip scans in the order of topics, one page in memory (E9, E10). It covers
undeclared topics; a table's records are listed by queries. It does not know the store.
"""

from base64 import b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from rowcast.core.callers import SERVER, Caller
from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, Event, Record
from rowcast.core.topics import TopicFilter
from rowcast.kernel.expired_records import delete_expired
from rowcast.kernel.kernel import Kernel
from rowcast.subscriptions.offered import check_offered
from rowcast.writes.write import Receipt

EVERYTHING: Final = "#"
"""All topics except those that begin with ``$``."""


@dataclass(frozen=True, slots=True)
class Matched:
    """A page of retained messages sorted by topic, and the cursor of the next one."""

    messages: Sequence[Record]
    cursor: str = ""
    """Opaque and permanently valid; empty at the end."""


class Retainer(Protocol):
    """The interface required by E4."""

    async def delete_message(self, topic: str) -> bool:
        """Delete the message at a topic; return whether it existed."""

    async def store_retained(self, message: Event) -> None:
        """Store a message, replacing the one at its topic; an empty body deletes it."""

    async def read_message(self, topic: str) -> Sequence[Record]:
        """Return the message at a topic, if any."""

    async def page_read(self, topics: str, page: int | str, limit: int) -> Matched:
        """Return one page of messages that match a filter.

        ``page`` is the cursor of the page before, or a number from 1, which needs a scan.
        """

    async def match_messages(self, topics: str, cursor: str = "") -> Matched:
        """Return a page of messages that match a filter, after a cursor."""

    async def clear_expired(self) -> int:
        """Delete expired messages; return how many."""

    async def clean(self, topics: str = EVERYTHING) -> int:
        """Delete all messages that match a filter; return how many."""

    async def size(self) -> int:
        """Return their number, from memory."""


class Retained:
    """The retained messages of a kernel, with the rights of one caller."""

    def __init__(self, kernel: Kernel, now: WallClock, caller: Caller = SERVER) -> None:
        self._kernel = kernel
        self._now = now
        self._caller = caller

    # -- one -----------------------------------------------------------------------------------

    async def delete_message(self, topic: str) -> bool:
        """Delete the message at a topic; return whether it existed."""
        receipt = await self._kernel.write(_deletion(topic), self._caller)
        return receipt.existed

    async def store_retained(self, message: Event) -> None:
        """Store a message, replacing the one at its topic; an empty body deletes it."""
        kept = message.changed(kind=PUT if message.payload else DELETE, retain=True)
        await self._kernel.write(kept, self._caller)

    async def read_message(self, topic: str) -> Sequence[Record]:
        """Return the message at a topic, if any."""
        try:
            return [await self._kernel.read(topic, self._caller)]
        except Error as error:
            if error.code is Code.NOT_FOUND:
                return []
            raise

    # -- many ----------------------------------------------------------------------------------

    async def page_read(self, topics: str, page: int | str, limit: int) -> Matched:
        """Return one page of messages that match a filter, by cursor or by number."""
        if limit < 1 or (isinstance(page, int) and page < 1):
            raise Error(
                Code.INVALID, "pages are numbered from 1, and each has room for one or more"
            )
        cursor, scrolled = (page, 0) if isinstance(page, str) else ("", page - 1)
        for _ in range(scrolled):
            cursor = (await self._page(topics, cursor, limit)).cursor
            if not cursor:
                return Matched(())
        return await self._page(topics, cursor, limit)

    async def _page(self, topics: str, cursor: str, limit: int) -> Matched:
        """Return exactly ``limit`` messages if available."""
        found: list[Record] = []
        while True:
            matched = await self._some(topics, cursor, limit - len(found))
            found += matched.messages
            cursor = matched.cursor
            if not cursor or len(found) == limit:
                return Matched(found, cursor)

    async def match_messages(self, topics: str, cursor: str = "") -> Matched:
        """Return a page of messages that match a filter, after a cursor."""
        return await self._some(topics, cursor, self._kernel.reader.scan_records)

    async def _some(self, topics: str, cursor: str, limit: int) -> Matched:
        """Return at most ``limit`` messages; fewer if some are not visible."""
        reader, wanted = self._kernel.reader, self._asked(topics)
        after = _read_cursor(cursor)
        supplied = await reader.supplied(wanted)
        page = await reader.scan(None, wanted, after, min(limit, reader.scan_records))
        messages, more = list(page.records), page.more
        if supplied is not None:
            last = messages[-1].topic if more else None
            messages = _joined(messages, supplied, after, last)
            messages, more = messages[:limit], more or len(messages) > limit
        return Matched(
            [record for record in messages if self._is_shown(record)],
            cursor_after(messages[-1].topic) if more else "",
        )

    async def pages(self, topics: str) -> AsyncIterator[Sequence[Record]]:
        """Yield pages of all messages that match a filter."""
        cursor = ""
        while True:
            matched = await self.match_messages(topics, cursor)
            yield matched.messages
            cursor = matched.cursor
            if not cursor:
                return

    async def size(self) -> int:
        """Return their number: from memory, unless a hook withholds some."""
        self._kernel.rights.check_watch(TopicFilter(EVERYTHING), self._caller)
        if not self._is_filtered:
            return await self._kernel.reader.retained()
        return sum([len(page) async for page in self.pages(EVERYTHING)])

    def _asked(self, topics: str) -> TopicFilter:
        wanted = TopicFilter(topics)
        self._kernel.rights.check_watch(wanted, self._caller)
        registry = self._kernel.registry
        check_offered(topics, registry.paths, registry.alarms)
        return wanted

    @property
    def _is_filtered(self) -> bool:
        return self._kernel.visibility.filtered and self._caller.door != "server"

    def _is_shown(self, record: Record) -> bool:
        """Whether a message is visible to the caller and not expired (E22, L12)."""
        if 0 < record.expires_at <= self._now():
            return False
        return not self._is_filtered or self._kernel.visibility.may_read(self._caller, record.topic)

    # -- bulk deletion ---------------------------------------------------------------------------

    async def clear_expired(self) -> int:
        """Delete expired records, including those of tables; return how many.

        Each is deleted by a write, so that subscribers get it (A5).
        """
        return (await delete_expired(self._kernel, self._now, self._caller)).deleted

    async def clean(self, topics: str = EVERYTHING) -> int:
        """Delete all messages that match a filter and the caller's rights; return how many.

        Raises the Error of a refused one, after the others of its page are deleted.
        """
        self._kernel.rights.check_administer(topics, self._caller)
        total = 0
        async for messages in self.pages(topics):
            deletions = [_deletion(record.topic) for record in messages]
            outcomes = await self._kernel.write_all(deletions, self._caller, atomic=False)
            for outcome in outcomes:
                if isinstance(outcome, Error):
                    raise outcome
                total += isinstance(outcome, Receipt) and outcome.existed
        return total


def _deletion(topic: str) -> Event:
    return Event(topic, DELETE, b"", None, 1, True)


def _joined(
    records: Sequence[Record], supplied: Sequence[Record], after: str, last: str | None
) -> list[Record]:
    """Merge records with a hook's values, in a range of topics."""
    others = {
        record.topic: record
        for record in supplied
        if record.topic > after and (last is None or record.topic <= last)
    }
    own = {record.topic: record for record in records}
    return [record for _, record in sorted((own | others).items())]


def cursor_after(topic: str) -> str:
    """Return the cursor after a topic."""
    return urlsafe_b64encode(topic.encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> str:
    """Return the topic of a cursor; raises INVALID for malformed text."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        return b64decode(padded, altchars=b"-_", validate=True).decode()
    except ValueError:
        raise Error(
            Code.INVALID, f"{cursor[:100]!r} is no cursor; begin again without one"
        ) from None
