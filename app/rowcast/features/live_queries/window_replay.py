"""What happened to a window while a reader was away, or slow: exact steps from the log (M3).

The window is known as of now. Taking back what the log has since the reader's position gives the
window of that position: each record that was written since is put back as it was. From there the
events are taken one by one, as the window itself took them. So no set is kept for any reader.
"""

from collections.abc import Sequence
from typing import Final

from rowcast.core.events import RETAINED, Event, Record
from rowcast.core.query_limits import WINDOW_LOADS_MAX, WINDOW_TOUCHED_MAX
from rowcast.features.live_queries.window import Window
from rowcast.features.live_queries.window_order import WindowOrder
from rowcast.reads.before_image import UnknownBefore, before_of
from rowcast.reads.log_pages import LogPage
from rowcast.reads.loop_turns import each
from rowcast.subscriptions.live_query import Unknown

TRIMMED: Final = "no longer in the log"
TOO_MUCH: Final = "more records of the table were written since than are compared one by one"


class Replay:
    """The steps of a window after ``since``, up to its position."""

    def __init__(self, window: Window, order: WindowOrder, since: int, position: int) -> None:
        """Take the order as of ``since``; it is changed."""
        self._window = window
        self._order = order
        self._after = since
        self.position = position
        self.done = since >= position
        self.complete = False
        self.left_out: Sequence[str] = ()

    async def current(self) -> Sequence[Record]:
        """Return the records of the window at the position reached, in order."""
        self.complete = True
        return [entry.record for entry in self._order.window]

    async def read(self) -> list[Event]:
        """Return the steps of the next page of the log; raises Unknown."""
        if self.done:
            return []
        page = await read_page(self._window, self._after, self.position)
        self._after = page.upto
        self.done = page.upto >= self.position
        made: list[Event] = []
        for event in page.events:
            entry = self._window.entry(event)
            if entry is None and not self._order.has(event.topic):
                continue
            steps = self._order.take(event.topic, entry)
            if steps is None:
                raise Unknown(TOO_MUCH)
            made += self._window.events_of(steps, event.seq)
        return made


async def replay(
    window: Window,
    since: int | None,
    loads_max: int = WINDOW_LOADS_MAX,
    touched_max: int = WINDOW_TOUCHED_MAX,
) -> Replay:
    """Begin a replay after a position, None: of nothing; raises Unknown, and BUSY."""
    least = 0
    for _ in range(loads_max):
        known, position = await window.known(least)
        order = known.copy(touched_max)
        if since is None or since >= position:
            return Replay(window, order, position, position)
        touched = await _touched(window, since, position, touched_max)
        async for topic in each(list(touched)):
            order.put(topic, None)
        if order.is_enough:  # of records that nobody touched: so it stays enough
            async for topic, before in each(list(touched.items())):
                order.put(topic, window.entry(before))
            return Replay(window, order, since, position)
        least = window.query.extent.known + len(touched)
    raise Unknown(TOO_MUCH)


async def _touched(
    window: Window, since: int, position: int, touched_max: int
) -> dict[str, Record | None]:
    """Return the records that were written between two positions, as they were before."""
    touched: dict[str, Record | None] = {}
    while since < position:
        page = await read_page(window, since, position)
        since = page.upto
        for event in page.events:
            before = before_of(event) if event.topic not in touched else None
            if isinstance(before, UnknownBefore):
                raise Unknown(TRIMMED)
            touched.setdefault(event.topic, before)
        if len(touched) > touched_max:
            raise Unknown(TOO_MUCH)
    return touched


async def read_page(window: Window, after: int, until: int) -> LogPage:
    """Return a page of the events of the window's table, none beyond ``until``."""
    table, reader = window.query.table, window.reader
    page = await reader.page(after, reader.log_page_events, [table], until)
    trimmed = reader.trimmed([table])  # checked after the read: it only grows
    if trimmed > after:
        raise Unknown(TRIMMED, trimmed)
    events = [
        event
        for event in page.events
        if event.seq <= until and event.kind in RETAINED and event.table is not None
        if event.table.name == table.name
    ]
    return LogPage(events, page.upto)
