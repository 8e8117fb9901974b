"""The seams of the kernel: typed lists to which features add what they have to say.

Each list says when it is asked. What no feature added is in no list, so it costs nothing.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from rowcast.core.callers import Caller
from rowcast.core.histograms import HistogramFamily
from rowcast.core.topic_tables import TopicTable
from rowcast.kernel.door import Door
from rowcast.kernel.listeners import Listeners
from rowcast.kernel.visibility import AccessSeams
from rowcast.store.store import Keep

Facts = Sequence[tuple[str, str, bytes]]
"""What an owner stored beside the records: owner, name and value of each fact."""
T = TypeVar("T")
Restore = Callable[[Facts], Awaitable[None] | None]
"""Takes up the facts of an earlier run."""


class RowChanged(Protocol):
    """Tells those who watch system rows that one is new, is another now, or is gone."""

    def __call__(self, name: str, happened: str = "", /) -> None:
        """Tell it; ``happened`` says why, for clients of MQTT 5."""


class TopicFacts(Protocol):
    """What a feature knows of topics, for the rows of ``$SYS/topics``."""

    def topics(self) -> Sequence[str]:
        """Return the topics that it knows, few enough to be sorted."""

    def row(self, topic: str) -> dict[str, object]:
        """Return what it knows of a topic; nothing if it does not know it."""


class Ending(Protocol):
    """One kind of what ends by itself, such as records with an expiry."""

    async def end_due(self) -> float:
        """End what is over; return when the next is, in seconds since 1970, ``inf`` for never.

        A time that has come means that something could not be ended; it is tried again.
        """


class Sampler(Protocol):
    """Is shown what was read at once from a client."""

    def __call__(self, caller: Caller, packets: Sequence[object], /) -> None:
        """Look at it; nothing may be changed."""


@dataclass(frozen=True, slots=True)
class Page:
    """A document that HTTP serves at a path of its own."""

    name: str
    """What is in it, for messages: ``metrics``."""
    topic: str
    """Who may read this topic may read the page."""
    media_type: str
    make: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class StreamNotice:
    """What streams of SSE and WebSocket are sent regularly; it is no event and has no cursor."""

    name: str
    """On SSE the name of the event, on WebSocket the member ``event``."""
    seconds: float
    """Time between two of them."""
    fields: Callable[[], dict[str, object]]
    """Makes the other members; called once for all streams."""


@dataclass(frozen=True, slots=True)
class OwnLog:
    """A part of the log for what the server tells of itself: made at the start, never dropped."""

    table: TopicTable
    keep: Keep


class Seams(AccessSeams):
    """The part of the kernel in which features install themselves."""

    def __init__(self) -> None:
        super().__init__()
        self._restores: list[tuple[str, Restore]] = []
        self.listeners = Listeners()
        self.doors: list[Door] = []
        """The edges of all protocols: filled by them, asked by features."""
        self.figures: dict[str, Callable[[], int]] = {}
        """Numbers for the metrics, by topic below ``$SYS/broker/``; read often."""
        self.surveys: list[Callable[[], None]] = []
        """Called before each round of the system's own figures, every ``mqtt.sys_interval``."""
        self.topic_facts: list[TopicFacts] = []
        """Asked when rows of ``$SYS/topics`` are read."""
        self.samplers: list[Sampler] = []
        """Called by MQTT with all that one read of a connection has brought."""
        self.pages: dict[str, Page] = {}
        """Asked by HTTP with the path of each request."""
        self.stream_notices: list[StreamNotice] = []
        """Read once, when HTTP begins; sent on every open stream but those of resource classes."""
        self.histograms: list[HistogramFamily] = []
        """Read for each answer of ``/metrics``."""
        self.own_logs: list[OwnLog] = []
        """Read before anything is restored: their tables are made, and retention keeps to them."""

        self.endings: list[Ending] = []
        """Asked by the timer for what ends by itself."""
        self.on_end_time: list[Callable[[float], None]] = []
        """Told a time at which something of ``endings`` will be over."""
        self._services: dict[type, object] = {}

    def provide(self, service: object) -> None:
        """Have a service found by its class: what a door, or a test, asks of this feature alone."""
        self._services[type(service)] = service

    def service(self, kind: type[T]) -> T | None:
        """Return the service of a class; None where its feature is not installed."""
        return cast("T | None", self._services.get(kind))

    def tell_end(self, at: float) -> None:
        """Say that something of ``endings`` will be over at a time, in seconds since 1970."""
        for tell in self.on_end_time:
            tell(at)

    def facts(self, owner: str, restore: Restore) -> None:
        """Have ``restore`` called with the owner's facts, before any feature starts.

        Owners are restored in the order in which they were added. An owner that ends with ``/``
        stands for all whose names begin so.
        """
        self._restores.append((owner, restore))

    async def restore(self, read: Callable[[str], Awaitable[Facts]]) -> None:
        """Take up what an earlier run left; ``read`` gives the stored facts of an owner."""
        for owner, restore in self._restores:
            done = restore(await read(owner))
            if done is not None:
                await done
