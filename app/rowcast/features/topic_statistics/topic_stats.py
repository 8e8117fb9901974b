"""Statistics of topics: how much is written to the busiest ones, by whom, and who wants it (F28).

Every write that is logged at a topic with a place is counted. A place for another topic costs an
eviction, so where all places are taken one of the other topics of a batch gets one, with the weight
of all of them; of messages that go by without being logged one of each read of a connection is
counted, likewise. There is room for TOP_TOPICS_MAX topics (``top.py`` states the bound of the
error, which samples keep on average). Rates are averaged over about a minute.
"""

from collections.abc import Callable, Sequence
from math import exp
from random import choice, random

from rowcast.core.callers import Caller
from rowcast.core.clock import PER_SECOND
from rowcast.core.errors import Error
from rowcast.core.events import Event
from rowcast.core.metric_limits import TOP_TOPICS_MAX, TOPIC_RATE_SECONDS
from rowcast.features.topic_statistics.top import Counted, Top
from rowcast.mqtt.packets import Publish
from rowcast.routes.registry import Registry
from rowcast.routes.system_rows import time_text
from rowcast.writes.write import Outcome, Receipt

Facts = dict[str, object]


class TopicFigures(Counted):
    """What is known of one topic since it has a place."""

    __slots__ = ("before", "bytes", "client", "rate", "seen", "since")

    def __init__(self, name: str, error: int) -> None:
        super().__init__(name, error)
        self.bytes = 0
        self.client = ""
        self.seen = 0.0
        self.since = 0.0
        self.before = error
        """Its count when its rate was brought up to date."""
        self.rate = 0.0
        """Messages in a second."""


class TopicStats:
    """The busiest topics of one server."""

    def __init__(
        self,
        now: Callable[[], float],
        subscribers: Callable[[str], int],
        size: int = TOP_TOPICS_MAX,
    ) -> None:
        self._now = now
        self._subscribers = subscribers
        self._top = Top(size, TopicFigures)
        self._updated = now()

    def appended(self, outcomes: Sequence[Outcome]) -> None:
        """Count a batch; written out, because every write that is logged passes here."""
        top, now = self._top, 0.0
        places, others = top.places, list[Event]()
        for outcome in outcomes:
            if type(outcome) is not Receipt or outcome.late:
                continue
            event = outcome.event
            figures = places.get(event.topic)
            if figures is not None:
                top.total += 1
                figures.count += 1
                figures.bytes += len(event.payload)
                figures.client = event.client
                if event.version and event.properties is None:  # it has its time with it
                    figures.seen = event.version / PER_SECOND
                else:
                    now = figures.seen = now or self._now()
            elif event.topic[0] != "$":
                if len(places) < top.size:
                    self.count(event.topic, len(event.payload), event.client)
                else:
                    others.append(event)
        if others:
            event = choice(others)  # noqa: S311 - statistics
            self.count(event.topic, len(event.payload), event.client, len(others))

    def count(self, topic: str, size: int, client: str, weight: int = 1) -> None:
        """Count messages at a topic, each of a size."""
        top = self._top
        figures = top.places.get(topic) or top.place(topic)
        top.total += weight
        figures.count += weight
        figures.bytes += size * weight
        figures.client = client
        now = figures.seen = self._now()
        if not figures.since:
            figures.since = now

    def update(self) -> None:
        """Bring the rates up to date; called once in a while."""
        now = self._now()
        seconds = now - self._updated
        if seconds <= 0:
            self._updated = now
            return
        self._updated = now
        kept = exp(-seconds / TOPIC_RATE_SECONDS)
        for figures in self._top.places.values():
            if figures.before == figures.error and not figures.rate:  # it is new
                figures.rate = _rate(figures, now)
            else:
                current = (figures.count - figures.before) / seconds
                figures.rate = current + kept * (figures.rate - current)
            figures.before = figures.count

    def topics(self) -> Sequence[str]:
        """Return the topics that have a place."""
        return list(self._top.places)

    def row(self, topic: str) -> Facts:
        """Return what is known of a topic; nothing of one without a place."""
        figures = self._top.places.get(topic)
        if figures is None:
            return {}
        rate, subscribers = figures.rate, self._subscribers(topic)
        if figures.before == figures.error and not rate:
            rate = _rate(figures, self._now())
        messages = figures.count - figures.error
        return {
            "messages": messages,
            "messages_error": figures.error,
            "bytes": figures.bytes,
            "rate": round(rate, 3),
            "bytes_rate": round(rate * figures.bytes / messages, 1) if messages else 0.0,
            "subscribers": subscribers,
            "out_rate": round(rate * subscribers, 3),
            "last_publisher": figures.client or None,
            "last_seen": time_text(figures.seen),
        }


def _rate(figures: TopicFigures, now: float) -> float:
    """Return the rate of a topic that has a place since lately."""
    return (figures.count - figures.error) / max(1.0, now - figures.since)


class ReadSampler:
    """Counts messages that no table keeps: one of each read of a connection, for all in it."""

    __slots__ = ("_known", "_registry", "_stats")

    def __init__(self, stats: TopicStats, registry: Registry) -> None:
        self._stats = stats
        self._registry = registry
        self._known = registry.known

    def sample(self, caller: Caller, packets: Sequence[object]) -> None:
        """Count the packets of one read."""
        count = len(packets)
        packet = packets[int(random() * count)] if count > 1 else packets[0]  # noqa: S311
        if not isinstance(packet, Publish) or packet.retain:
            return
        topic = packet.topic
        try:
            route = self._known.get(topic) or self._registry.route(topic)
        except Error:  # it is refused
            return
        if route.plain:
            self._stats.count(topic, len(packet.payload), caller.client_id, count)
