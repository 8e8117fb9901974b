"""The store: what the kernel needs from a disk, as four interfaces that one object has.

``Log``, ``Records``, ``Facts`` and ``Maintenance``: who uses a store names the one that it needs.

One log of events, one current record for each topic, and the states that others keep beside them
(an MQTT session's, say), all written in the same transaction. Every method blocks and is called off
the event loop: ``commit``, ``lookup``, ``trim``, ``define``, ``drop`` and ``reserve`` by the one
writer thread, the rest by any reader thread, each of which sees a consistent committed state.
``tests/store/conformance.py`` is this interface as a test suite; every store passes it.

What a record looks like when it comes back is for ``records.py``: a value comes back as that
value, in plain JSON; bytes come back as those bytes.

The log has *parts*: one for each declared table, one for each topic table, and the general one, for
branches that have none. A ``LogSource`` says what is meant, and becomes parts when it is asked for,
because topic tables come and go: a Branch is its table's part and what the general one had when
the table was made; None is all undeclared topics. So nothing moves when a table is made, and a
Branch may give some events of others that had no table either: who asks for one looks at topics.

A store knows nothing of callers, protocols, versions or validity: it keeps what it is given.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from rowcast.core.events import Event, Record
from rowcast.core.facts import Change as Change  # noqa: PLC0414 - the store's interface names it
from rowcast.core.queries import Query
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource, TopicTable
from rowcast.core.topics import TopicFilter
from rowcast.store.read_limit import ReadLimit

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page:
    """Some records, and the position of the log at which all of them were read."""

    position: int
    records: Sequence[Record]
    more: bool = False
    """Whether there may be further records after the last one."""
    after: str = ""
    """For ``search``: the token of the next page; empty when there is none."""


class Scan(NamedTuple):
    """One question of several that are read together: the records that a filter selects."""

    table: Table | None
    topics: TopicFilter
    after: str
    """The last topic of the page before, or empty."""


@dataclass(frozen=True, slots=True)
class Keep:
    """How much of a table's part of the log is kept; 0 means no limit of that kind."""

    seconds: float = 0
    """Age, by the events' versions."""
    events: int = 0
    bytes: int = 0
    """Bytes of payload."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a source has; of a Branch without a table only ``trimmed`` says something."""

    records: int = 0
    """Current records; of a Branch and of None, retained messages."""
    events: int = 0
    """Events in the log."""
    bytes: int = 0
    """Bytes of their payloads."""
    trimmed: int = 0


class Counts(Protocol):
    """What is known of each source without asking the disk."""

    def figures(self, source: LogSource) -> Figures:
        """Return what is known of a source at once, without asking the disk."""

    def count(self, source: LogSource) -> int:
        """Return how many records a source has, at once, as ``figures`` does."""


class Log(Counts, Protocol):
    """The order of events: read from any position, appended to by the writer thread alone."""

    @property
    def epoch(self) -> str:
        """Eight hexadecimal digits that name this log; made with it, kept for its life."""

    def reserve(self, seq: int) -> None:
        """Promise durably that no number up to ``seq`` is handed out again after a restart."""

    def commit(self, events: Sequence[Event], changes: Sequence[Change] = ()) -> list[bool]:
        """Write logged events, in order, the records they make, and changes: all or none.

        Each has its ``seq``, greater than every one before. PUT and PATCH replace the record at
        the topic, DELETE removes it, MESSAGE leaves it. On return all is durable. For each event
        the result tells whether a record was at its topic just before it; of a MESSAGE, for which
        nobody asks, it does not. Any exception means that nothing was written.

        ``decoded`` is the checked value, or MISSING for content that is kept as bytes: a commit
        decodes nothing. The changes are made one after the other, so the last of a fact wins.
        Error(BUSY) means that the disk refuses; the same may succeed later.
        """

    def return_versions(self, version: int) -> None:
        """Forget durably that versions above this one were committed: a clock was ahead.

        ``last_version`` is this one then, if it was greater, and times are found by what comes now.
        Events and records are not touched. Called by the writer thread.
        """

    def head(self) -> int:
        """Return the greatest number committed or trimmed; 0 for a new log."""

    def reserved(self) -> int:
        """Return the number up to which ``reserve`` has promised."""

    def last_version(self) -> int:
        """Return the greatest version committed since the last return of versions, or 0."""

    def trimmed(self, source: LogSource) -> int:
        """Return the greatest number that may be gone of a source; all later events are there."""

    def place(self, after: int, sources: Sequence[LogSource] | None) -> str:
        """Return the parts that ``read`` would read, as a text: equal if they are the same."""

    def read(
        self, after: int, limit: int, sources: Sequence[LogSource] | None = None
    ) -> list[Event]:
        """Return up to ``limit`` events with ``seq > after`` of these sources, in order.

        None means the whole log. It costs what these parts have, not what the log has, as long as
        they are few.
        """

    def read_back(
        self, before: int, limit: int, sources: Sequence[LogSource] | None = None
    ) -> list[Event]:
        """Return up to ``limit`` events with ``seq < before`` of these sources, newest first."""

    def history(
        self, source: LogSource, topic: str, limit: int, before: int | None = None
    ) -> list[Event]:
        """Return the last ``limit`` events at one topic that the log still has, oldest first.

        With ``before``, the last of those with lesser numbers.
        """

    def follow(self, source: LogSource, topic: str, after: int, limit: int) -> list[Event]:
        """Return up to ``limit`` events at one topic with ``seq > after``, in order."""

    def change(self, source: LogSource, topic: str, until: int) -> Event | None:
        """Return the last put, patch or delete at a topic up to a position, if it is still there.

        Of undeclared topics the source is the topic's branch.
        """

    def since(self, source: LogSource, version: int) -> int:
        """Return the position just before the source's first event of at least this version.

        The first in the order of the log, which is that of arrival: a late event with an older
        version may follow it. It costs what a second of the log does, not what the log does.
        """


class Records(Counts, Protocol):
    """The current record of each topic."""

    def lookup(self, wanted: Sequence[tuple[Table | None, str]]) -> dict[str, Record]:
        """Return the current records of these topics, by topic; absent ones are left out."""

    def get(self, table: Table | None, topic: str) -> Record | None:
        """Return the current record at a topic."""

    def scan(self, table: Table | None, topics: TopicFilter, after: str, limit: int) -> Page:
        """Return up to ``limit`` records that the filter selects, in a fixed order.

        The order is that of the ids: integers by value, text by code point. ``after`` is the last
        topic of the page before, or empty. It costs what it returns, not what the table holds:
        ``TopicFilter.seek`` makes a wildcard a skip-scan.
        """

    def scan_all(self, scans: Sequence[Scan], limit: int, size: int) -> list[Page]:
        """Return the first pages of several scans, of one state, in order; at least one page.

        Together they have at most ``limit`` records, and no further one once their payloads reach
        ``size`` bytes. A page that has ``more`` is the last.
        """

    def search(self, table: Table, query: Query) -> Page:
        """Return one page of the query's answer: at most ``query.limit`` whole records."""

    def matching(self, table: Table, query: Query) -> int:
        """Return how many records the query's conditions select."""

    def expired(self, now_seconds: float, limit: int) -> list[Record]:
        """Return up to ``limit`` records whose ``expires_at`` is over, of all tables."""

    def next_expiry(self) -> float | None:
        """Return the least ``expires_at`` of all records, None when none ends by itself.

        It costs a look into an index of each table, however many records there are.
        """


class Facts(Protocol):
    """What owners keep beside the records; ``Log.commit`` changes it."""

    def states(self, prefix: str) -> list[tuple[str, str, bytes]]:
        """Return owner, name and value of all facts of owners that begin with ``prefix``.

        They come by owner, then by name, in the order of code points.
        """

    def facts(self, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
        """Return the values of these facts, by owner and name; absent ones are left out.

        Called by the writer thread.
        """


class Maintenance(Counts, Protocol):
    """Opening and closing, and what makes, trims and ends parts of the log."""

    def open(self, tables: Sequence[Table]) -> None:
        """Make what is missing for these tables, without losing anything that is there.

        Raises Error(INVALID) when a table cannot be brought to its declared shape without loss.
        """

    def close(self) -> None:
        """Finish and release files; what was committed stays."""

    def trim(self, source: LogSource, keep: Keep, now_seconds: float, limit: int) -> int:
        """Forget a part's oldest events beyond any limit of ``keep``; return how many.

        A version more than a minute ahead of ``now_seconds`` tells no age: such an event is as old
        as the next that does. At most ``limit`` are forgotten at once. Only a beginning is ever
        cut, so what is left is all that happened since. Here a Branch is only its table's part, and
        None the general one. Records are not touched. ``trimmed(source)`` moves up.
        """

    def define(self, *tables: TopicTable) -> None:
        """Give branches a table, all or none: from now on the events of each are a part of its own.

        Retained messages that are there count for it. What is defined already stays as it is;
        Error(CONFLICT) means that the branch, or the name, belongs to another table.
        """

    def drop(self, table: TopicTable) -> None:
        """End a branch's table with the events that it has; what is not there stays so.

        Retained messages stay, and ``trimmed`` of the branch tells what is gone.
        """

    def tidy(self, limit: int) -> bool:
        """Do a step of the work that ``drop`` and others left for later; tell whether more is left.

        At most ``limit`` events are deleted, so that writers wait for no more than that.
        """

    def topic_tables(self) -> list[TopicTable]:
        """Return the tables that were defined and not dropped, in the order of their making."""


class LogAndRecords(Log, Records, Protocol):
    """What asynchronous reads are made of."""

    def limited(self, limit: ReadLimit, call: Callable[[], T]) -> T:
        """Do reads on this thread that end when the limit says so; raises its Error.

        A read that was ended has cost nothing but time: the same may be asked again.
        """


class Store(LogAndRecords, Facts, Maintenance, Protocol):
    """All of it: what a server opens, and what the conformance suite holds a store to."""
