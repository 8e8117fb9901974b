"""A live query: a filter that selects a table's records by conditions (M3).

Its reader gets the matching records, and then each change of that set as a step: ``enter``,
``change`` or ``leave``. A step is the event that caused it, in the reader's form: an entering or
changed record is a PUT, a leaving one a DELETE; ``step_of`` says which it is.

With a limit it is a window: the first records of an order. An event may then mean several steps.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Final, Protocol

from rowcast.core.event_cache import EventCache
from rowcast.core.events import DELETE, PUT, Event, Record
from rowcast.core.queries import Query
from rowcast.core.query_limits import LIVE_LACKING_MAX
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter


class Step(StrEnum):
    """What an event means to the set of a live query; the value is what readers are told."""

    ENTER = "enter"
    """The record is new in the set."""
    CHANGE = "change"
    """The record was in the set, and is still."""
    LEAVE = "leave"
    """The record is not in the set any longer."""


RIGHTS_CHANGE: Final = "what you may read may have changed since"
"""Why a live query begins anew whose records depend on the caller's rights."""

REDEFINED: Final = "the schema defines this query, or what it compares, in another way since"
"""Why a query begins anew whose name, or whose computed attributes, meant something else."""

UNLOGGED: Final = "no log says what has become of these rows since"
"""Why a live query of rows of ``$SYS``, or of a topic table, begins anew for who returns."""

STEP: Final[EventCache[Step]] = EventCache("step")


PARTS: Final[EventCache[bool]] = EventCache("parts")
"""Of a record of which a reader is told selected parts, so that its bytes are in no log."""

PLACE: Final[EventCache[object]] = EventCache("place")
"""Of such a record in a window: its sort key, which does not follow from the selected parts."""

MIDWAY: Final[EventCache[bool]] = EventCache("midway")
"""Of a step after which others of the same event follow; its number is that of the event before, to
which a reader goes back that is interrupted here."""

SAME: Final[EventCache[bool]] = EventCache("same")
"""Of a change of a record of which nothing changed that is told: a step only to who lacks it."""


def is_midway(event: Event) -> bool:
    """Whether other steps of the same event follow a step."""
    return MIDWAY.of(event, False)


def step_of(event: Event) -> Step | None:
    """Return the step that an event is to its reader; None if it is no step of a live query."""
    return STEP.of(event, None)


def as_step(step: Step, event: Event) -> Event:
    """Return an event as a step: a record in its reader's form, or any event at a topic to leave.

    Of a record that leaves, nothing is told but its topic.
    """
    if step is Step.LEAVE:
        made = event.changed(
            kind=DELETE, payload=b"", content_type=None, client="", properties=None,
            expires_at=0.0, retain=True,
        )  # fmt: skip
    else:
        made = event.changed(kind=PUT)
        if PARTS.of(event, False):
            PARTS.put(made, True)
            PLACE.put(made, PLACE.of(event, None))
    STEP.put(made, step)
    return made


def numbered(steps: list[Event], position: int) -> list[Event]:
    """Give the steps of one event their numbers.

    They have the position before the event, but for the last: only then the set of a reader is that
    of the event's position.
    """
    for step in steps:
        step.seq = position - 1
        MIDWAY.put(step, True)
    if steps:
        steps[-1].seq = position
        MIDWAY.put(steps[-1], False)
    return steps


def entering(step: Event) -> Event:
    """Return a step for a reader that may lack the record: a change enters, others are the same."""
    if step_of(step) is not Step.CHANGE:
        return step
    made = as_step(Step.ENTER, step)  # of its own: the step is shared with readers that have it
    if is_midway(step):
        MIDWAY.put(made, True)
    return made


class Unknown(Exception):  # noqa: N818 - not a mistake: an answer that a window cannot give
    """Nobody can tell what happened to a window since a position; ``reason`` says why."""

    def __init__(self, reason: str, trimmed: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.trimmed = trimmed
        """Up to where the log is no longer there."""


class WindowReplay(Protocol):
    """What happened to a window since a position, page by page."""

    position: int
    """Up to where it goes; the events after it are live."""
    done: bool
    left_out: Sequence[str]
    """The topics of records that the last call of ``current`` left out."""

    async def read(self) -> list[Event]:
        """Return the next steps."""

    @property
    def complete(self) -> bool:
        """Whether ``current`` has returned all records."""

    async def current(self) -> Sequence[Record]:
        """Return the next records of the window at the position reached, in order.

        Some may have been written since: they are left out, and their events follow.
        """


class LiveWindow(Protocol):
    """What readers of a live query share whose steps do not follow from one record.

    It is the window of one with a limit, or the view of one with conditions on related records.
    """

    @property
    def key(self) -> str:
        """Its name, the same for readers that see the same."""

    async def replay(self, since: int | None) -> WindowReplay:
        """Begin a replay, None: only of its records as they are; raises Unknown, and BUSY."""


@dataclass(frozen=True, slots=True)
class LiveQuery:
    """The query of one filter, for one caller."""

    table: Table
    source: TopicFilter
    """The topics of the table's records."""
    query: Query
    """As it was asked."""
    readable: Query | None
    """The same, for records that the caller may read; None if it may read none."""
    exact: bool
    """Whether what the caller may read of the table depends on nothing but its grants, so that a
    cursor is all that is needed to continue."""
    sight: object
    """What else it depends on: equal for the same rights."""
    since: int = 0
    """The position from which on its name has these conditions."""
    rights_since: int = 0
    """The position from which on its caller may read what it may read."""
    window: LiveWindow | None = None
    """The window, if it has a limit, or conditions on related records."""
    related: tuple[Table, ...] = ()
    """The other tables that its conditions are on."""
    logged: bool = True
    """Whether the log has what happens to its records: not to rows of ``$SYS``, nor that retention
    removes those of topic tables."""
    lacking: set[str] = field(default_factory=set)
    """Topics of records that the reader has not got, because they were written while the current
    ones were read: their events follow."""

    def lack(self, topics: Iterable[str]) -> None:
        """Note records that are left out; beyond the bound, a first event of one is a change."""
        self.lacking.update(islice(topics, max(0, LIVE_LACKING_MAX - len(self.lacking))))

    def shown(self, step: Event) -> Event | None:
        """Return a step as the reader is told it: a record that it lacks enters.

        None: it has the record, and is told nothing else of it.
        """
        if step.topic not in self.lacking or step_of(step) is Step.LEAVE:
            return None if SAME.of(step, False) else step
        self.lacking.discard(step.topic)
        return entering(step)

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables whose events concern it."""
        return (self.table, *self.related) if self.logged else ()

    def lost(self, position: int) -> str:
        """Return why nobody can continue after a position that a client has; empty if it can."""
        if not self.logged:
            return UNLOGGED
        if not self.exact or position < self.rights_since:
            return RIGHTS_CHANGE
        return self.redefined(position)

    def redefined(self, position: int) -> str:
        """Return why not, if the query was another one at a position; else an empty text."""
        return REDEFINED if position < self.since else ""

    def ended(self, before: "LiveQuery | None", position: int) -> str:
        """Return why its reader, who is at a position, begins anew; empty if it goes on.

        ``before`` is the query as it was, None if that was before the server's start.
        """
        if self.continues(before) and (before is not None or position >= self.rights_since):
            return self.redefined(position)
        return RIGHTS_CHANGE if self.logged else UNLOGGED

    def continues(self, before: "LiveQuery | None") -> bool:
        """Whether its reader may go on from a position of the query as it was before.

        Else its rights may have changed since, which no event tells.
        """
        if not self.logged:
            return False
        if before is None:
            return self.exact
        return (self.exact and before.exact) or self.sight == before.sight
