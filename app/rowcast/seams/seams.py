"""The seams of the kernel: typed lists of callbacks to which features add theirs.

Each list documents when it is called. An empty list costs nothing.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from rowcast.core.callers import Caller
from rowcast.core.events import Event
from rowcast.core.histograms import HistogramFamily
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource, TopicRoot, TopicTable
from rowcast.core.topics import TopicFilter
from rowcast.seams.door import Door
from rowcast.seams.hook_points import HookSeams
from rowcast.seams.past_points import PastPoints
from rowcast.seams.synced_topics import SyncedTopics
from rowcast.seams.visibility import AccessSeams
from rowcast.store.store import Keep
from rowcast.subscriptions.compacted_past import CompactedPast
from rowcast.subscriptions.subscribed_filter import SubscribedFilter

Facts = Sequence[tuple[str, str, bytes]]
"""Stored facts: owner, name and value of each."""
T = TypeVar("T")
Restore = Callable[[Facts], Awaitable[None] | None]
"""Restores stored facts at start."""


class RowChanged(Protocol):
    """Notifies subscribers that a system row was added, changed or removed."""

    def __call__(self, name: str, happened: str = "", /) -> None:
        """Notify; ``happened`` is the reason, for clients of MQTT 5."""


class TopicFacts(Protocol):
    """A feature's facts about topics, for the rows of ``$SYS/topics``."""

    def topics(self) -> Sequence[str]:
        """Return the known topics, few enough to sort."""

    def row(self, topic: str) -> dict[str, object]:
        """Return the facts about a topic; empty if unknown."""


class ExpirySource(Protocol):
    """A kind of expiring objects, such as records with an expiry."""

    async def expire_due(self) -> float:
        """End expired objects; return the next expiry, in seconds since 1970, ``inf`` for never.

        A time in the past means that an object could not be ended; it is retried.
        """


class Sampler(Protocol):
    """Gets the packets of one read of a client's connection."""

    def __call__(self, caller: Caller, packets: Sequence[object], /) -> None:
        """Called with the packets, which must not be changed."""


class FilterListener(Protocol):
    """Gets the filters of clients; a disconnected session keeps its filters."""

    def subscribed(self, owner: object, topics: TopicFilter, text: str = "", /) -> None:
        """Note a client's filter, whose requested text may differ."""

    def unsubscribed(self, owner: object, text: str, /) -> None:
        """Note that a client has removed a filter; an unknown one is ignored."""

    def gone(self, owner: object, /) -> None:
        """Note that a client is gone for good, with all its filters."""


class LogParts(Protocol):
    """Parts of the log that are created and dropped, each with its own retention."""

    def keeps(self) -> Iterable[tuple[TopicRoot, Keep]]:
        """Return the retention of each part."""

    async def clean(self) -> int:
        """Drop unused parts; return how many."""


class Archive(Protocol):
    """Keeps what retention is about to trim."""

    async def secure(self, source: LogSource, keep: Keep, now_seconds: float) -> int | None:
        """Archive the oldest events of a part that are beyond its limits.

        Returns how many of the oldest events may be trimmed now: 0 if there are none, or if they
        could not be archived; None if the part is not archived.
        """


class CompactedReads(Protocol):
    """What stays of the events of a table that compacts, once its log has them no longer."""

    async def past(
        self, interest: SubscribedFilter, after: int, caller: Caller
    ) -> CompactedPast | None:
        """Return what became of an interest's records after a position; None if it is unknown."""

    async def kept(self, table: Table, topics: TopicFilter, upto: int) -> list[Event]:
        """Return the events at a filter's topics that stay, of those up to a number, in order."""


@dataclass(frozen=True, slots=True)
class Page:
    """A document that HTTP serves at a fixed path."""

    name: str
    """Its content, for messages: ``metrics``."""
    topic: str
    """The topic whose read right it requires."""
    media_type: str
    make: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class StreamNotice:
    """A periodic notice on streams of SSE and WebSocket; no event, without a cursor."""

    name: str
    """On SSE the name of the event, on WebSocket the member ``event``."""
    seconds: float
    """The interval."""
    fields: Callable[[], dict[str, object]]
    """Returns the other members; called once for all streams."""


@dataclass(frozen=True, slots=True)
class OwnLog:
    """A part of the log for the server's own events: created at start, never dropped."""

    table: TopicTable
    keep: Keep


class RetentionSeams:
    """The seams for retention of the log, and for expiry."""

    def __init__(self) -> None:
        self.own_logs: list[OwnLog] = []
        """Read before anything is restored, to create their tables and apply their retention."""
        self.archive: Archive | None = None
        """Asked before a part of the log is trimmed."""
        self.compaction: Archive | None = None
        """Asked before a part of the log is trimmed that no archive has; its ``secure`` returns
        None for a part that is not compacted."""
        self.compacted: CompactedReads | None = None
        """Asked when a cursor of SSE or WebSocket, or a range, begins before the log does."""
        self.log_parts: list[LogParts] = []
        """Called by each sweep of the log, to apply their retention and to drop unused parts."""
        self.expiry_sources: list[ExpirySource] = []
        """Called by the expiry timer."""
        self.on_expiry_scheduled: list[Callable[[float], None]] = []
        """Called with a new expiry time of an object of ``expiry_sources``."""
        self.on_removal_time: list[Callable[[], None]] = []
        """Called when ``Kernel.removal_now`` has come to run otherwise."""

    def schedule_expiry(self, at: float) -> None:
        """Announce an expiry time of an object of ``expiry_sources``, in seconds since 1970."""
        for notify in self.on_expiry_scheduled:
            notify(at)


class Seams(AccessSeams, HookSeams, RetentionSeams):
    """The part of the kernel in which features install themselves."""

    def __init__(self) -> None:
        AccessSeams.__init__(self)
        HookSeams.__init__(self)
        RetentionSeams.__init__(self)
        self.synced = SyncedTopics()
        """Topics that are kept equal at several sites."""
        self.past = PastPoints()
        """Reads of the past; a feature replaces it."""
        self._restores: list[tuple[str, Restore]] = []
        self.doors: list[Door] = []
        """The edges of all protocols, for features."""
        self.figures: dict[str, Callable[[], int]] = {}
        """Numbers for the metrics, by topic below ``$SYS/broker/``; read often."""
        self.surveys: list[Callable[[], None]] = []
        """Called before each round of the system's own figures, every ``mqtt.sys_interval``."""
        self.topic_facts: list[TopicFacts] = []
        """Called when rows of ``$SYS/topics`` are read."""
        self.samplers: list[Sampler] = []
        """Called by MQTT with the packets of each read of a connection."""
        self.pages: dict[str, Page] = {}
        """Looked up by HTTP by the path of each request."""
        self.stream_notices: list[StreamNotice] = []
        """Read once, when HTTP starts; sent on every open stream except those of resource
        classes."""
        self.histograms: list[HistogramFamily] = []
        """Read for each response of ``/metrics``."""
        self.filter_listeners: list[FilterListener] = []
        """Called when a client subscribes, unsubscribes, and is gone for good."""
        self._services: dict[type, object] = {}

    def provide(self, service: object) -> None:
        """Register a service by its class, for doors and tests."""
        self._services[type(service)] = service

    def service(self, kind: type[T]) -> T | None:
        """Return the service of a class; None if its feature is not installed."""
        return cast("T | None", self._services.get(kind))

    def notify_subscribed(self, owner: object, topics: TopicFilter, text: str = "") -> None:
        """Announce a filter of a client, a session or a stream; ``text`` is the requested one."""
        for listener in self.filter_listeners:
            listener.subscribed(owner, topics, text)

    def notify_unsubscribed(self, owner: object, text: str) -> None:
        """Announce that a client has removed a filter."""
        for listener in self.filter_listeners:
            listener.unsubscribed(owner, text)

    def notify_gone(self, owner: object) -> None:
        """Announce that a client is gone for good, with all its filters."""
        for listener in self.filter_listeners:
            listener.gone(owner)

    def facts(self, owner: str, restore: Restore) -> None:
        """Register ``restore`` to be called with the owner's facts, before any feature starts.

        Owners are restored in the order of registration. An owner that ends with ``/`` is a prefix.
        """
        self._restores.append((owner, restore))

    async def restore(self, read: Callable[[str], Awaitable[Facts]]) -> None:
        """Restore all owners; ``read`` returns the stored facts of an owner."""
        for owner, restore in self._restores:
            done = restore(await read(owner))
            if done is not None:
                await done
