"""The newest event of each source of the log, for sources that returning readers asked about.

A crowd that comes back has mostly missed nothing. A read of a source tells up to where it has no
further event, and from then on announced batches are noted: whoever comes next and has read as far
needs no read. Nothing is noted before a read has told something, nor when nobody has asked for
long.

What is known holds as long as the numbers of noted events have no gap. A gap means that events were
announced in another way, and all is forgotten. This must not know the store, nor who reads.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from rowcast.core.errors import Error
from rowcast.core.events import Event
from rowcast.core.read_limits import SOURCE_HEADS_MAX, SOURCE_HEADS_UNASKED_EVENTS
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource


class Written(Protocol):
    """A write that was carried out."""

    event: Event
    late: int
    """Not 0 if another write won, so that nothing was logged."""


Listener = Callable[[Sequence[Written | Error]], None]


class Listeners(Protocol):
    """A list of what is called with the outcomes of each batch, right after it was announced."""

    def append(self, listener: Listener, /) -> None:
        """Call it from now on."""

    def remove(self, listener: Listener, /) -> None:
        """Call it no longer."""


class SourceHeads:
    """A bound of the newest number of sources.

    ``heads_max`` bounds the sources; ``unasked_max`` the events that are noted for nobody.
    """

    def __init__(
        self,
        listeners: Listeners,
        heads_max: int = SOURCE_HEADS_MAX,
        unasked_max: int = SOURCE_HEADS_UNASKED_EVENTS,
    ) -> None:
        self._listeners = listeners
        self._heads_max = heads_max
        self._unasked_max = unasked_max
        self._upto = self._asked_at = 0
        self._tables: dict[str, int] = {}
        """By the name of a declared table."""
        self._levels: dict[str | None, int] = {}
        """By the first level of undeclared topics; None: topics of one level."""

    def has_none(self, after: int, announced: int, sources: Sequence[LogSource]) -> bool:
        """Whether it is known that no announced event of these sources is after a position."""
        if announced != self._upto:
            return False
        for source in sources:
            if isinstance(source, Table):
                newest = self._tables.get(source.name)
            elif source is None:  # all undeclared topics
                return False
            else:
                newest = self._levels.get(_first(source.level))
            if newest is None or newest > after:
                return False
        self._asked_at = announced
        return True

    def learn(self, sources: Sequence[LogSource], newest: int, announced: int) -> None:
        """Take from a complete read that these sources have no announced event after a number."""
        known = len(self._tables) + len(self._levels)
        if known and (announced != self._upto or known >= self._heads_max):
            self._forget()
            known = 0
        if not known:
            self._upto = self._asked_at = announced
            self._listeners.append(self._note)
        for source in sources:
            if isinstance(source, Table):
                self._tables[source.name] = min(newest, self._tables.get(source.name, newest))
            elif source is not None:
                level = _first(source.level)
                self._levels[level] = min(newest, self._levels.get(level, newest))

    def _note(self, outcomes: Sequence[Written | Error]) -> None:
        """Note the events of an announced batch."""
        tables, levels = self._tables, self._levels
        for outcome in outcomes:
            if isinstance(outcome, Error) or outcome.late or not outcome.event.seq:
                continue
            event = outcome.event
            if event.seq != self._upto + 1:
                self._forget()
                return
            self._upto = event.seq
            if event.table is not None:
                if event.table.name in tables:
                    tables[event.table.name] = event.seq
            elif levels:
                first, slash, _ = event.topic.partition("/")
                level = first if slash else None
                if level in levels:
                    levels[level] = event.seq
        if self._upto - self._asked_at > self._unasked_max:
            self._forget()

    def _forget(self) -> None:
        self._tables.clear()
        self._levels.clear()
        self._upto = 0
        self._listeners.remove(self._note)


def _first(level: str | None) -> str | None:
    """Return the first level of a branch's topics: ``$SYS`` of ``$SYS/events``."""
    return None if level is None else level.partition("/")[0]
