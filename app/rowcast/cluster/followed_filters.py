"""Has followers log the messages that durable readers at the sequencer want.

A message of QoS above 0 is logged for a session that may be away, a shared subscription, a trigger
or a bridge, whatever its table declares (``bus/durable_filters.py``). All of these are at the
sequencer, and a follower decides whether the messages that it takes are logged. So the sequencer
tells it their filters: all at the beginning of its connection, then each change, once a turn. Only
filters at tables whose messages are not logged anyway matter; most schemas have none of these.

They are sent as a question for rows (``remote_rows.py``), which followers of earlier releases
answer with nothing.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

from rowcast.bus.durable_filters import DurableFilters
from rowcast.cluster.messages import ROWS_WANTED, pack
from rowcast.cluster.sequencer_links import SequencerLink, SequencerLinks
from rowcast.core.tables import Logs, Table
from rowcast.core.topics import TopicFilter

PATH: Final = "$SYS/cluster/filters"
"""Where a follower takes them, as the id of a row."""
PART_BYTES: Final = 256 * 1024
"""Of filters in one message: so that other messages are not held up by it."""
AGAIN_SECONDS: Final = 0.1
"""Until a follower whose connection was full is told all: then it is behind the log, too."""
_NOBODY: Final = 0
"""The number of a question whose answer nobody waits for."""


class FilterSender:
    """The side of the sequencer; ``filters`` are those of its kernel, ``tables`` the declared ones.

    Without a table that does not log all of its messages it does nothing.
    """

    def __init__(
        self,
        filters: DurableFilters,
        links: SequencerLinks,
        tables: Iterable[Table],
        again_seconds: float = AGAIN_SECONDS,
    ) -> None:
        self._filters, self._links = filters, links
        self._again_seconds = again_seconds
        self._concerned = [
            TopicFilter(f"{table.path}/#" if table.path else "#")
            for table in tables
            if table.path is not None and table.logs is Logs.RETAINED
        ]
        self._loop = asyncio.get_running_loop()
        self._turn: dict[str, bool] = {}
        """The changes of this turn: filters, and whether they are wanted now."""
        self._behind: dict[SequencerLink, None] = {}
        """Connections that were full, and are to be told all."""
        self._scheduled = False
        if self._concerned:
            filters.on_change = self._changed
            links.on_greeted = self._tell_all

    def _matters(self, topics: TopicFilter) -> bool:
        return any(topics.overlaps(table) for table in self._concerned)

    def _changed(self, topics: TopicFilter, wanted: bool) -> None:
        if self._matters(topics):
            self._turn[topics.text] = wanted
            self._schedule(0.0)

    def _schedule(self, seconds: float) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_later(seconds, self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        turn, self._turn = self._turn, {}
        changes = list(_parts(turn))
        behind, self._behind = self._behind, {}
        for link in tuple(self._links.links):
            if link.full:
                self._behind[link] = None
            elif link in behind:
                self._tell_all(link)
            else:
                for part in changes:
                    _send(link, part)
        if self._behind:
            self._schedule(self._again_seconds)

    def _tell_all(self, link: SequencerLink) -> None:
        """Tell a follower all filters, in place of those that it knows."""
        _send(link, {"anew": True})
        wanted = dict.fromkeys(filter(self._known_to_matter, self._filters.texts()), True)
        for part in _parts(wanted):
            _send(link, part)

    def _known_to_matter(self, text: str) -> bool:
        return self._matters(TopicFilter(text))


def _parts(changes: Mapping[str, bool]) -> Iterator[dict[str, object]]:
    """Yield changes of filters in parts of at most about ``PART_BYTES``."""
    part: dict[str, bool] = {}
    size = 0
    for text, wanted in changes.items():
        if part and size + len(text) > PART_BYTES:
            yield {"filters": part}
            part, size = {}, 0
        part[text] = wanted
        size += len(text)
    if part:
        yield {"filters": part}


def _send(link: SequencerLink, part: Mapping[str, object]) -> None:
    link.tell(pack(ROWS_WANTED, (_NOBODY, PATH, json.dumps(part), False)))


class FilterReceiver:
    """The side of a follower; ``filters`` are those of its kernel, which has no durable readers.

    They stay while there is no connection: what they select is then refused, not lost.
    """

    def __init__(self, filters: DurableFilters) -> None:
        self._filters = filters
        self._known: dict[str, TopicFilter] = {}

    def take(self, text: str) -> None:
        """Take a part of ``FilterSender``; there is no row to answer with."""
        part = cast("dict[str, object]", json.loads(text))
        if part.get("anew"):
            for topics in self._known.values():
                self._filters.remove(topics)
            self._known.clear()
        for filter_, wanted in cast("dict[str, bool]", part.get("filters", {})).items():
            known = self._known.pop(filter_, None)
            if known is not None:
                self._filters.remove(known)
            if wanted:
                topics = self._known[filter_] = TopicFilter(filter_)
                self._filters.add(topics)
