"""How a stream begins: its place becomes a position of the log, or the records as they are.

A cursor is continued exactly or not at all: one that cannot be gives one RESET and the records,
and the answer says so (C10, C11). The last events, or those since a time, are a position
too, so they come through the same door as everything that follows, without a seam.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rowcast.core.callers import Caller
from rowcast.core.cursors import parse_cursor
from rowcast.core.errors import Code, Error
from rowcast.core.freshness import STALE_PREFIX
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource
from rowcast.core.topics import TopicFilter
from rowcast.doors.http.streams.openings import Request
from rowcast.features.history.places import Place
from rowcast.features.history.positions import before
from rowcast.kernel.kernel import Kernel
from rowcast.kernel.resource import Resource
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a stream did begin; ``resumed``: after its client's cursor, and nothing is missing."""

    position: int
    resumed: bool


def resource_at(kernel: Kernel, request: Request, caller: Caller) -> Resource | None:
    """Return the resource whose own code streams at a path; None where the kernel's stream does."""
    topic = kernel.registry.named(request.topic)
    if not topic or not streams_itself(kernel, request.filters[0], topic):
        return None
    if len(request.filters) > 1:
        raise Error(
            Code.INVALID,
            f"{topic!r} streams by its own code; open other topics with a stream of their own",
        )
    return kernel.resource(topic, caller)


def streams_itself(kernel: Kernel, topics: TopicFilter, topic: str) -> bool:
    """Tell whether a filter names a resource that has its own way to stream."""
    if not topics.exact and not topic.endswith("/"):
        return False
    route = kernel.registry.route(topic)
    return route.overrides("connect") or route.overrides("subscribe")


async def begin(
    kernel: Kernel,
    subscription: Subscription,
    interests: Sequence[SubscribedFilter],
    place: Place,
    caller: Caller,
) -> Beginning:
    """Begin interests that belong together at one place; raises INVALID, DENIED and the like.

    A cursor that cannot be continued without a gap gives one RESET and the records as they are.
    """
    reader = kernel.reader
    reader.shedding.check_subscribe()
    for interest in interests:
        if interest.topics.text.startswith("/"):
            interest.topics = TopicFilter(kernel.registry.named(interest.topics.text))
        await kernel.authorise_waiting(interest, caller)
    interests = [*_with_silence(reader, interests)]
    sources = [*dict.fromkeys(item for one in interests for item in reader.sources(one.topics))]
    position, broken = None, ""
    if place.since is not None:
        broken = await _broken(reader, place.since, sources)
        position = None if broken else parse_cursor(place.since).seq
    else:
        position = await before(reader, [item.topics for item in interests], sources, place)
    announced = reader.announced()
    for interest in interests:
        kernel.watch(subscription, interest, caller, position, current=not place.new, asked=True)
    if broken:
        subscription.restart(broken, str(place.since), interests[0])
    return Beginning(
        announced if position is None else position, place.since is not None and not broken
    )


def _with_silence(
    reader: Reader, interests: Sequence[SubscribedFilter]
) -> Iterator[SubscribedFilter]:
    """Give interests, and beside those in tables with a deadline the silence there (M4)."""
    for interest in interests:
        yield interest
        sources = reader.sources(interest.topics)
        if any(isinstance(item, Table) and item.deadline_seconds for item in sources):
            beside = TopicFilter(STALE_PREFIX + interest.topics.text)
            yield SubscribedFilter(beside, identifiers=interest.identifiers, marks=interest.marks)
            interest.marks = False  # the mark comes after both


async def _broken(reader: Reader, token: str, sources: list[LogSource]) -> str:
    """Return why a cursor cannot be continued; empty when it can."""
    cursor = parse_cursor(token)
    if cursor.epoch != reader.epoch:
        return "the cursor is of another log"
    if cursor.seq > reader.committed():  # a listing may run ahead of the bus
        return "the cursor is beyond the end of the log"
    if reader.trimmed(sources) > cursor.seq:
        return "no longer in the log"
    return ""
