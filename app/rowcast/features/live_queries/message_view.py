"""A live query of a topic table, for all who read the same: rows of messages (M3, F3).

A row is a message of the log: it enters when that is written, never changes, and leaves when
retention removes it, which is no event. So the view holds the rows that match, and is told up to
where its part of the log is trimmed. Of those that were removed nobody knows any more whether they
matched: a reader that was away, or slow, gets the rows again.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final, cast

from rowcast.codecs import JSON, encode
from rowcast.core.conditions import holds
from rowcast.core.evaluation import order_key, project
from rowcast.core.event_cache import EventCache
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.queries import Sort
from rowcast.core.query_limits import LIVE_ROWS_MAX
from rowcast.core.topic_tables import seq_of_message
from rowcast.features.live_queries.row_view import (
    HeldView,
    OrderedRows,
    RowQuery,
    RowSet,
    row_event,
)
from rowcast.features.live_queries.shared_view import RecordBudget
from rowcast.features.live_queries.window_order import Entry, WindowStep
from rowcast.kernel.kernel import Kernel
from rowcast.reads.loop_turns import each
from rowcast.rows.row_ranges import direction_of
from rowcast.rows.topic_rows import View, row_of
from rowcast.store.store import Page
from rowcast.subscriptions.live_query import Step, as_step

_MESSAGE: Final[EventCache[Event]] = EventCache("message of a report")
_TRIMMED: Final[EventCache[int]] = EventCache("trimmed, of a report")


def message_report(view: View, event: Event) -> Event:
    """Return the report of a message, which is of no number: no step has a cursor."""
    report = Event(view.topic(event), PUT, b"", None, 1, retain=True)
    _MESSAGE.put(report, event)
    return report


def trim_report(view: View, upto: int) -> Event:
    """Return the report that messages are gone, up to a number."""
    report = Event(f"{view.table.name}/", DELETE, b"", None, 1, retain=True)
    _TRIMMED.put(report, upto)
    return report


class MessageView(HeldView):
    """One query of the rows of a topic table."""

    def __init__(
        self,
        query: RowQuery,
        kernel: Kernel,
        view: View,
        budget: RecordBudget,
        left: Callable[[HeldView], None],
        rows_max: int = LIVE_ROWS_MAX,
    ) -> None:
        super().__init__(query, kernel.reader, budget, left, rows_max)
        self._kernel = kernel
        self._view = view
        self._oldest: deque[tuple[int, str]] = deque()
        """The numbers and topics of its rows, in the order of the log; not of a window, which has
        few, and loses rows that are far behind it."""

    def turn_to(self, view: View) -> None:
        """Read the rows of another branch from now on, which has got the name of the table."""
        self._view = view
        self.forget()

    # -- reports -----------------------------------------------------------------------------------

    def _take(self, event: Event) -> list[Event] | None:
        known, message = self._known, _MESSAGE.of(event, None)
        if known is None:
            return None
        if message is None:
            return self._trim(known, _TRIMMED.of(event, 0))
        entry = self._entry(message)
        if entry is None:
            return []
        self._note(message.seq, event.topic)
        return self._events_of(known.take(event.topic, entry))

    def _trim(self, known: RowSet | OrderedRows, upto: int) -> list[Event] | None:
        """Return the steps of a removal of messages.

        Of a window in which too many are gone all leave, and it is known no more: clients that
        cannot be told to begin anew (MQTT 3.1.1) get its rows again, and have no others.
        """
        before = known.records
        steps = known.drop(self._gone(known, upto))
        if steps is None:
            leave = [as_step(*WindowStep(Step.LEAVE, record)) for record in before]
            self._know(None)
            return leave
        return self._events_of(steps)

    def _note(self, seq: int, topic: str) -> None:
        if self.query.extent is None:
            self._oldest.append((seq, topic))

    def _gone(self, known: RowSet | OrderedRows, upto: int) -> list[str]:
        """Return the topics of rows that are no more, up to a number."""
        if self.query.extent is not None:
            return [topic for topic in known.topics if _seq_of(topic) <= upto]
        found = []
        while self._oldest and self._oldest[0][0] <= upto:
            found.append(self._oldest.popleft()[1])
        return found

    def _entry(self, message: Event) -> Entry | None:
        """Return the row of a message; None if it does not match, or may not be read."""
        view, caller = self._view, self.query.caller
        visibility = self._kernel.visibility
        value = view.value(message)
        if not holds(self.query.query.where, value, value["id"]):
            return None
        may_read = visibility.may_read
        if visibility.filtered and not (
            may_read(caller, message.topic) and may_read(caller, view.topic(message))
        ):
            return None
        return self._placed(row_of(view, message), value, message.seq)

    def _placed(self, row: Event, value: dict[str, object], seq: int) -> Entry:
        """Return a row at its place, as REST orders them: by time is in the order of the log."""
        query = self.query.query
        payload = row.payload
        if query.select is not None:
            spelled = self._view.shape.spell(value, JSON)
            payload = encode(project(query.select, spelled, value["id"]), JSON)
        record = row_event(row.topic, payload)
        direction = direction_of(query.sort)
        if not direction:
            return Entry(order_key(query.sort, value, value["id"]), record)
        by_number = (Sort(("seq",), descending=direction < 0),)
        return Entry(order_key(by_number, {"seq": seq}, value["id"]), record)

    # -- what is known -----------------------------------------------------------------------------

    async def _load(self) -> None:
        """Read the rows, and take what has been reported meanwhile."""
        query, extent, view = self.query.query, self.query.extent, self._view
        most = self._rows_max + 1 if extent is None else extent.known
        asked = replace(query, select=None, limit=most, offset=0)
        if self._kernel.views.get(view.table.name) is None:  # dropped, and maybe begun again later
            page = Page(self.reader.announced(), [])
        else:
            page = await self._kernel.readable.search(view.table, asked, self.query.caller)
        if extent is None and len(page.records) >= most:
            raise self._too_many()
        entries = [
            self._placed(row, cast("dict[str, object]", row.decoded), row.seq)
            async for row in each(page.records)
        ]
        if not self._has_all:
            return
        known = self._made(entries, entries[-1].key if page.more and entries else None)
        for report in self._held or ():
            message = _MESSAGE.of(report, None)
            entry = None if message is None else self._entry(message)
            if message is None or message.seq <= page.position or entry is None:
                continue
            if known.take(report.topic, entry) is None:
                return
        if extent is None:
            self._oldest = deque(sorted((_seq_of(topic), topic) for topic in known.topics))
        gone = known.drop(self._gone(known, self.reader.trimmed([view.branch])))
        if gone is not None and self._count(known):
            self._know(known)


def _seq_of(topic: str) -> int:
    """Return the number of the message of a row, by the row's topic."""
    return seq_of_message(topic.rpartition("/")[2]) or 0
