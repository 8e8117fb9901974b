"""Live rows: changes of system rows as events, for subscribers below their path (E15, M11).

A subscriber first gets the current rows, in slices, and then an event for each reported change: the
current row, or a deletion. These events are not logged: a slow reader gets a gap, and reads the
rows again. Without subscribers, a change costs one lookup. Rights apply as for any filter, and read
hooks are called for each row.

Only filters that contain the path match rows: ``$SYS/sessions/#`` does, ``$SYS/#`` does not, so
that subscribers to metrics are not flooded. A row whose client-given name is no valid topic
(``a+b``, or too long) is listed, but has no events. Rows that are records themselves have events of
the log; of these only live queries are notified.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import islice
from typing import Final

from rowcast.bus.bus import Bus
from rowcast.bus.subscriber import Subscriber
from rowcast.codecs import JSON, encode
from rowcast.core.callers import SERVER
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.limits import SYSTEM_ROWS_SLICE
from rowcast.core.topics import TopicFilter, check_topic
from rowcast.routes.registry import Registry
from rowcast.routes.resource import KernelCalls
from rowcast.routes.system_rows import SystemRows

QOS: Final = 1


class LiveRows:
    """The live system rows of one kernel."""

    def __init__(self, kernel: KernelCalls, bus: Bus, registry: Registry) -> None:
        self._kernel = kernel
        self._bus = bus
        self._registry = registry
        self.followers: dict[str, Subscriber] = {}
        """Who gets the reports of rows that are records, by their path."""
        kernel.reader.live = self.pages

    def changed(self, path: str, name: str, happened: str = "") -> None:
        """Notify subscribers that a row was added, changed or removed.

        ``happened`` is the reason, for clients of MQTT 5.
        """
        topic = f"{path}/{name}"
        follower = self.followers.get(path)
        if (follower is None and not self._bus.named(path, name)) or not is_topic(topic):
            return
        entry = self._registry.route(topic).entry
        if entry is None or entry.resource is None or not issubclass(entry.resource, SystemRows):
            return
        row = entry.resource(self._kernel, topic, name, SERVER).row(name, whole=False)
        event = _event(topic, row)
        if happened:
            event.properties = {"user_property": (("event", happened),)}
        if not entry.resource.recorded:
            self._kernel.committer.show(event, path)
        elif follower is not None:
            follower.offer(event)

    def watched(self, path: str) -> bool:
        """Return whether there may be subscribers for rows of a path."""
        return self._bus.names(path)

    async def pages(self, topics: TopicFilter) -> AsyncIterator[list[Event]]:
        """Yield the current rows that a filter matches, in pages, without blocking the loop."""
        for path, rows in self._reached(topics):
            names = iter(_names(path, rows, topics))
            while some := list(islice(names, SYSTEM_ROWS_SLICE)):
                found = ((f"{path}/{name}", rows.row(name, whole=False)) for name in some)
                page = [
                    _event(topic, row)
                    for topic, row in found
                    if row is not None and is_topic(topic)
                ]
                if page:
                    yield page
                await asyncio.sleep(0)

    def _reached(self, topics: TopicFilter) -> list[tuple[str, SystemRows]]:
        """Return the classes of rows that a filter can match."""
        return [
            (entry.path, entry.resource(self._kernel, entry.path, "", SERVER))
            for entry in self._registry.entries
            if entry.resource is not None
            and issubclass(entry.resource, SystemRows)
            and not entry.resource.recorded
            and topics.text.startswith(f"{entry.path}/")
        ]


def is_topic(topic: str) -> bool:
    """Whether a row of this topic has events: a name that a client gave may be no valid topic."""
    try:
        check_topic(topic)
    except Error:
        return False
    return True


def _names(path: str, rows: SystemRows, topics: TopicFilter) -> Sequence[str]:
    """Return the ids of the rows that a filter matches."""
    if topics.exact:
        return [topics.text.removeprefix(f"{path}/")]
    return [name for name in rows.names() if topics.matches(f"{path}/{name}")]


def _event(topic: str, row: dict[str, object] | None) -> Event:
    if row is None:
        return Event(topic, DELETE, b"", None, QOS, True)
    return Event(topic, PUT, encode(row, JSON), JSON, QOS, True)
