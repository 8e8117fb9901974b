"""The store: the kernel's interface to the disk, in five protocols that one object implements.

``Commits``, ``Log``, ``Records``, ``Facts`` and ``Maintenance``: users of a store declare the one
that they need.

It has one log of events, one current record for each topic, and facts of other owners (such as an
MQTT session), all written in the same transaction. Every method blocks and is called off the event
loop: ``commit``, ``lookup``, ``trim``, ``define``, ``drop`` and ``reserve`` by the one writer
thread, the rest by any reader thread, each of which sees a consistent committed state.
``tests/store/conformance.py`` is this interface as a test suite; every store passes it.

``records.py`` defines the form of returned records: values as values, in plain JSON; bytes as the
same bytes.

The log has *parts*: one for each declared table, one for each topic table, and the general one, for
branches without a table. A ``LogSource`` is resolved to parts at each read, because topic tables
are created and dropped: a branch means its table's part and the general part up to the creation of
the table; None means all undeclared topics. So no event is moved when a table is created, and reads
of a branch may return events of others without a table: the caller filters by topic.

A store knows neither callers, protocols nor validity, and compares versions only where a staged
result gives way to newer writes (``sql_staged.py``).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from rowcast.core.events import Event, Record
from rowcast.core.facts import Change as Change  # noqa: PLC0414 - the store's interface names it
from rowcast.core.grouping import Grouping, GroupRow
from rowcast.core.queries import Query
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource, TopicTable
from rowcast.core.topics import TopicFilter
from rowcast.store.read_limit import ReadLimit

T = TypeVar("T")
StagedPage = tuple[Sequence[Event], Sequence[Change]]
"""A page of a large result that nobody sees yet: its events, and changes of facts."""
StagedCount = tuple[Table, int, int]
"""How many events of a table are staged, and how many bytes of payloads they have."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some records, and the position of the log at which they were read."""

    position: int
    records: Sequence[Record]
    more: bool = False
    """Whether there may be further records after the last one."""
    after: str = ""
    """For ``search``: the token of the next page; empty when there is none."""


class Scan(NamedTuple):
    """One of several scans that are run together: the records that match a filter."""

    table: Table | None
    topics: TopicFilter
    after: str
    """The last topic of the page before, or empty."""


@dataclass(frozen=True, slots=True)
class Keep:
    """The retention of a table's part of the log; 0 means no limit of that kind."""

    seconds: float = 0
    """Age, by the events' versions."""
    events: int = 0
    bytes: int = 0
    """Bytes of payload."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The counts of a source; for a branch without a table only ``trimmed`` is meaningful."""

    records: int = 0
    """Current records; of a Branch and of None, retained messages."""
    events: int = 0
    """Events in the log."""
    bytes: int = 0
    """Bytes of their payloads."""
    trimmed: int = 0
    """The greatest number that may be no longer in the tables."""
    archived: bool = False
    """Whether an archive has older events, which are not counted here."""


class Lag(NamedTuple):
    """How far the tables are behind the log."""

    events: int = 0
    """Events that are not in the tables."""
    seconds: float = 0.0
    """The age of the oldest of their batches."""


class Counts(Protocol):
    """Counts of each source, from memory."""

    def figures(self, source: LogSource) -> Figures:
        """Return the counts of a source in the tables; does not block."""

    def lag(self) -> Lag:
        """Return what is in the log and not in ``figures`` yet; does not block."""

    def caught_up(self) -> None:
        """Wait until the tables have everything that is in the log now."""

    def count(self, source: LogSource) -> int:
        """Return the number of a source's records, of all that is in the log now."""


class Head(Protocol):
    """The identity and the length of the log."""

    @property
    def epoch(self) -> str:
        """Eight hexadecimal digits that identify this log."""

    def head(self) -> int:
        """Return the greatest number committed or trimmed; 0 for a new log."""


class Appends(Head, Protocol):
    """The interface for the committer, called by the writer thread."""

    def pack(self, events: Sequence[Event], changes: Sequence[Change] = ()) -> object:
        """Encode events and changes for ``append``, on any thread; raises TOO_LARGE."""

    @property
    def is_behind(self) -> bool:
        """Whether the tables are so far behind the log that ``append`` waits for them."""

    def append(self, packed: object, *, may_outrun_tables: bool = False) -> object:
        """Append what was packed, all or none; on return it is durable.

        ``may_outrun_tables``: it waits only for tables that are much further behind than others may
        let them be (``journal/tail.py:LAG_TIMES_AHEAD``).

        Each event has its ``seq``, greater than every one before. Error(BUSY) means that the disk
        refused; a retry may succeed later.
        """

    def reserved(self) -> int:
        """Return the number up to which numbers are reserved."""

    def reserve(self, seq: int, first: int = 0) -> None:
        """Reserve numbers up to ``seq`` durably, so that none is reused after a restart.

        ``first`` is the number of the next event, 0 if it is not known: those before are a gap.
        """

    def missing_numbers(self, after: int, until: int) -> int:
        """Return how many numbers after one, up to another, no event has; does not block."""

    def return_versions(self, version: int) -> None:
        """Reset the last version durably, because a clock was ahead."""

    def lookup(self, wanted: Sequence[tuple[Table | None, str]]) -> dict[str, Record]:
        """Return the current records of these topics, by topic; absent ones are left out."""

    def facts(self, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
        """Return the values of these facts, by owner and name; absent ones are left out."""

    def trim(
        self, source: LogSource, keep: Keep, now_seconds: float, limit: int
    ) -> "int | Future[int]":
        """Delete a part's oldest events beyond any limit of ``keep``; return how many, or later."""

    def tidy(self, limit: int) -> "bool | Future[bool]":
        """Do a step of deferred work of ``drop`` and others; return whether more is left."""


class Commits(Head, Protocol):
    """What only the writer of the tables calls."""

    def reserved(self) -> int:
        """Return the number up to which numbers are reserved."""

    def reserve(self, seq: int) -> None:
        """Reserve numbers up to ``seq`` durably, so that none is reused after a restart."""

    def commit(
        self, events: Sequence[Event], changes: Sequence[Change] = (), applied: int = 0
    ) -> list[bool]:
        """Write logged events, in order, their records, and changes: all or none.

        Each has its ``seq``, greater than every one before. PUT and PATCH replace the record at the
        topic, DELETE removes it, MESSAGE leaves it. On return all is durable. The result states for
        each event whether its topic had a record just before; for a MESSAGE it is undefined. Any
        exception means that nothing was written.

        ``decoded`` is the checked value, or MISSING for content stored as bytes: a commit decodes
        nothing. The changes are applied in order, so the last of a fact wins. Error(BUSY) means
        that the disk refused; a retry may succeed later.
        """

    def return_versions(self, version: int) -> None:
        """Reset the last version durably, because a clock was ahead.

        ``last_version`` becomes this one, if it was greater, and the time index continues with
        later events. Events and records are unchanged. Called by the writer thread.
        """

    def lookup(self, wanted: Sequence[tuple[Table | None, str]]) -> dict[str, Record]:
        """Return the current records of these topics, by topic; absent ones are left out."""

    def facts(self, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
        """Return the values of these facts, by owner and name; absent ones are left out."""

    def trim(self, source: LogSource, keep: Keep, now_seconds: float, limit: int) -> int:
        """Delete a part's oldest events beyond any limit of ``keep``; return how many.

        An event whose version is more than a minute ahead of ``now_seconds`` has the age of the
        next one with a valid version. At most ``limit`` are deleted at once. Only the oldest events
        are deleted, so the rest has no gap. Here a branch means only its table's part, and None the
        general one. Records are unchanged. ``trimmed(source)`` increases.
        """

    def tidy(self, limit: int) -> bool:
        """Do a step of deferred work of ``drop`` and others; return whether more is left.

        At most ``limit`` events are deleted, which bounds the wait of writers.
        """


class Log(Counts, Head, Protocol):
    """The log of events, read from any position."""

    def last_version(self) -> int:
        """Return the greatest version committed since the last ``return_versions``, or 0."""

    def trimmed(self, source: LogSource) -> int:
        """Return the greatest number of a source that may be trimmed; all later events exist.

        What is in an archive exists, too: every read here returns it.
        """

    def place(self, after: int, sources: Sequence[LogSource] | None) -> str:
        """Return a text for the parts that ``read`` would read; equal for equal parts."""

    def read(
        self, after: int, limit: int, sources: Sequence[LogSource] | None = None
    ) -> list[Event]:
        """Return up to ``limit`` events with ``seq > after`` of these sources, in order.

        None means the complete log. The cost depends on these parts, not on the log, as long as
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

        With ``before``, the last of those with smaller numbers.
        """

    def follow(self, source: LogSource, topic: str, after: int, limit: int) -> list[Event]:
        """Return up to ``limit`` events at one topic with ``seq > after``, in order."""

    def change(self, source: LogSource, topic: str, until: int) -> Event | None:
        """Return the last put, patch or delete at a topic up to a position, if it still exists.

        For undeclared topics the source is the topic's branch.
        """

    def since(self, source: LogSource, version: int) -> int:
        """Return the position just before the source's first event of at least this version.

        The first in the order of the log, that of arrival: a late event with an older version may
        follow it. The cost is that of a second of the log.
        """


class Records(Counts, Protocol):
    """The current record of each topic."""

    def get(self, table: Table | None, topic: str) -> Record | None:
        """Return the current record at a topic."""

    def scan(self, table: Table | None, topics: TopicFilter, after: str, limit: int) -> Page:
        """Return up to ``limit`` records that match the filter, in a fixed order.

        The order is that of the ids: integers by value, text by code point. ``after`` is the last
        topic of the page before, or empty. The cost depends on the result, not on the table:
        ``TopicFilter.seek`` makes a wildcard a skip scan.
        """

    def scan_all(self, scans: Sequence[Scan], limit: int, size: int) -> list[Page]:
        """Return the first pages of several scans, in one state, in order; at least one page.

        Together they have at most ``limit`` records, and no further one once their payloads reach
        ``size`` bytes. A page that has ``more`` is the last.
        """

    def search(self, table: Table, query: Query) -> Page:
        """Return one page of the query's result: at most ``query.limit`` complete records."""

    def matching(self, table: Table, query: Query) -> int:
        """Return the number of records that match the query's conditions."""

    def grouped(self, table: Table, query: Query, grouping: Grouping, most: int) -> list[GroupRow]:
        """Return the groups of the records that match the query's conditions, in order.

        Raises INVALID when there are more than ``most``.
        """

    def expired(
        self, now_seconds: float, limit: int, behind: tuple[float, int] = (0.0, 0)
    ) -> list[Record]:
        """Return up to ``limit`` records whose ``expires_at`` has passed, of all tables, by it.

        ``behind`` passes those that expire before a time, and so many that expire at it.
        """

    def next_expiry(self) -> float | None:
        """Return the least ``expires_at`` of all records; None when none expires.

        The cost is an index lookup per table, however many records there are.
        """


class Facts(Protocol):
    """Durable facts of owners; ``Appends.commit`` changes them."""

    def states(self, prefix: str) -> list[tuple[str, str, bytes]]:
        """Return owner, name and value of all facts of owners that begin with ``prefix``.

        Sorted by owner, then by name, in the order of code points.
        """


class Maintenance(Counts, Protocol):
    """Opening and closing; creating and dropping parts of the log."""

    def open(self, tables: Sequence[Table]) -> None:
        """Create missing tables and columns, without loss of data.

        Raises Error(INVALID) when a table cannot be migrated to its declaration without loss.
        """

    def close(self) -> None:
        """Close files; committed data stays."""

    def define(self, *tables: TopicTable) -> None:
        """Create tables of branches, all or none: their new events form separate parts.

        Existing retained messages count for it. Existing tables are unchanged; Error(CONFLICT)
        means that the branch, or the name, belongs to another table.
        """

    def drop(self, table: TopicTable) -> None:
        """Drop a branch's table with its events; no effect if it does not exist.

        Retained messages stay, and ``trimmed`` of the branch covers the removed events.
        """

    def topic_tables(self) -> list[TopicTable]:
        """Return the topic tables, in the order of their creation."""


class LogAndRecords(Log, Records, Protocol):
    """The interface for asynchronous reads."""

    def limited(self, limit: ReadLimit, call: Callable[[], T]) -> T:
        """Run reads on this thread under a limit; raises its Error.

        A cancelled read has no effect and may be repeated.
        """


class Store(Commits, LogAndRecords, Facts, Maintenance, Protocol):
    """The complete store: opened by a server, and tested by the conformance suite."""
