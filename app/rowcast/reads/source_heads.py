"""The newest event of each source of the log, for sources that returning readers asked about.

A crowd that comes back has mostly missed nothing. From the first question on, announced batches are
noted, and a read of a source tells up to where it has no further event: whoever comes next and has
read as far needs no read. The read may have begun before others were announced: what was announced
since the first question is known without it. Nothing is noted before somebody has asked, nor when
nobody has asked for long.

What is known holds as long as the numbers of noted events have no gap. A gap means that events were
announced in another way, and all is forgotten. This must not know the store, nor who reads.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from rowcast.core.errors import Error
from rowcast.core.events import Event
from rowcast.core.read_limits import SOURCE_HEADS_MAX, SOURCE_HEADS_UNASKED_EVENTS
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource, TopicRoot


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
        self._since = self._upto = self._asked_at = 0
        """Events with numbers above ``_since`` and up to ``_upto`` are noted; 0: none are."""
        self._known: dict[str, int] = {}
        """The bounds, by source: the name of a declared table, or a slash and the first level of
        undeclared topics; a slash alone is for topics of one level."""
        self._noted: dict[str, int] = {}
        """The newest noted event of each source, also of those of which no bound is known."""

    def has_none(self, after: int, announced: int, sources: Sequence[LogSource]) -> bool:
        """Whether it is known that no announced event of these sources is after a position."""
        if announced != self._upto:
            if not self._upto:
                self._begin(announced)
            return False
        self._asked_at = announced
        for source in sources:
            if source is None:  # all undeclared topics
                return False
            newest = self._known.get(_name(source))
            if newest is None or newest > after:
                return False
        return True

    def learn(self, sources: Sequence[LogSource], newest: int, upto: int, announced: int) -> None:
        """Take from a read up to a number that these sources have no event after ``newest`` there.

        Nothing is learnt from one that ends before what is noted begins.
        """
        if self._upto and announced != self._upto:
            self._forget()
        if not self._upto:
            self._begin(announced)
        if upto < self._since or not announced:
            return
        known, noted = self._known, self._noted
        if len(known) >= self._heads_max:
            known.clear()
        for source in sources:
            if source is not None:
                name = _name(source)
                bound = max(newest, noted.get(name, 0))
                known[name] = min(bound, known.get(name, bound))

    def _begin(self, announced: int) -> None:
        self._since = self._upto = self._asked_at = announced
        if announced:  # an empty log has no number to go on from
            self._listeners.append(self._note)

    def _note(self, outcomes: Sequence[Written | Error]) -> None:
        """Note the events of an announced batch."""
        known, noted = self._known, self._noted
        for outcome in outcomes:
            if isinstance(outcome, Error) or outcome.late or not outcome.event.seq:
                continue
            event = outcome.event
            if event.seq != self._upto + 1:
                self._forget()
                return
            self._upto = event.seq
            if event.table is not None:
                name = event.table.name
            else:
                first, slash, _ = event.topic.partition("/")
                name = slash + first if slash else "/"
            noted[name] = event.seq
            if name in known:
                known[name] = event.seq
        if len(noted) > self._heads_max:  # what is known stays so
            noted.clear()
            self._since = self._upto
        if self._upto - self._asked_at > self._unasked_max:
            self._forget()

    def _forget(self) -> None:
        self._known.clear()
        self._noted.clear()
        self._since = self._upto = 0
        self._listeners.remove(self._note)


def _name(source: Table | TopicRoot) -> str:
    """Return the source's key: of ``$SYS/events`` it is ``/$SYS``."""
    if isinstance(source, Table):
        return source.name
    return "/" if source.level is None else "/" + source.level.partition("/")[0]
