"""How a stream begins: at a position of the log, or with the records as they are.

A cursor is resumed exactly or not at all: an unusable one causes one RESET and the current records,
and the answer states it (C10, C11). The last events, or those since a time, are also a position, so
they are read like all later events, without a gap.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rowcast.core.callers import Caller
from rowcast.core.cursors import parse_cursor
from rowcast.core.errors import Code, Error
from rowcast.core.freshness import STALE_PREFIX
from rowcast.core.query_topics import QUERY_PREFIX
from rowcast.core.replays import REPLAY_PREFIXES, is_replay
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource
from rowcast.core.topics import TopicFilter
from rowcast.doors.http.streams.stream_parameters import Request
from rowcast.kernel.kernel import Kernel
from rowcast.routes.excluded_tables import check_not_excluded
from rowcast.routes.resource import Resource
from rowcast.subscriptions.backfill import TRIMMED
from rowcast.subscriptions.live_replay import LiveReplay
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.start_position import (
    StartPosition,
    check_start,
    missing,
    position,
    why_lost,
)
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription


@dataclass(frozen=True, slots=True)
class StreamStart:
    """The actual start of a stream; ``resumed``: after the client's cursor, without a gap."""

    position: int
    resumed: bool
    replay: LiveReplay | None = None
    """What it replays, if it is not live."""


def resource_at(kernel: Kernel, request: Request, caller: Caller) -> Resource | None:
    """Return the resource with its own stream at a path; None for the kernel's stream."""
    topic = kernel.registry.named(request.topic)
    if not topic or not streams_itself(kernel, request.filters[0], topic):
        return None
    if is_replay(request.filters[0].text):
        return None  # of what was published, whatever its own stream would be
    if len(request.filters) > 1 or request.filters[0].text.startswith(QUERY_PREFIX):
        raise Error(
            Code.INVALID,
            f"{topic!r} streams by its own code; open other topics, and live queries, "
            "with a stream of their own",
        )
    return kernel.resource(topic, caller)


def interests_of(request: Request) -> list[SubscribedFilter]:
    """Return the interests of one stream; only the last one marks the end of current records."""
    filters = request.filters
    if not filters:
        raise Error(
            Code.INVALID, "the path / names no topic; give one, or name filters with ?topic="
        )
    return [
        SubscribedFilter(
            topics,
            marks=topics is filters[-1],
            commits=request.commits,
            conflate=request.conflate,
        )
        for topics in filters
    ]


def streams_itself(kernel: Kernel, topics: TopicFilter, topic: str) -> bool:
    """Whether a filter names a resource that has its own way to stream."""
    if not topics.exact and not topic.endswith("/"):
        return False
    route = kernel.registry.route(topic)
    return route.overrides("connect") or route.overrides("subscribe")


async def begin(
    kernel: Kernel,
    subscription: Subscription,
    interests: Sequence[SubscribedFilter],
    start: StartPosition,
    caller: Caller,
) -> StreamStart:
    """Begin interests that belong together at one position; raises INVALID, DENIED and the like.

    A cursor that cannot be resumed without a gap causes one RESET and the current records.
    """
    reader = kernel.reader
    reader.shedding.check_subscribe()
    await _authorise(kernel, interests, caller)
    interests = [*_with_silence(reader, interests)]
    for interest in interests:
        interest.of_stream = True
    sources = [*dict.fromkeys(item for one in interests for item in reader.sources_of(one))]
    check_start(interests, start)
    after, lost = None, ""
    if start.since is not None:
        after, lost = await _resumed(kernel, interests, sources, start.since, caller)
    else:
        after = await position(reader, [item.topics for item in interests], sources, start)
    marks = await missing(reader, sources, start, interests[0])
    for interest in interests:
        kernel.watch(subscription, interest, caller, after, current=not start.new, asked=True)
    subscription.queue_gaps(marks)
    if (replay := interests[0].replay) is not None:
        return StreamStart(replay.after, not replay.records, replay)
    if lost:
        subscription.restart(lost, str(start.since), interests[0])
    after = reader.announced() if after is None else after
    return StreamStart(after, start.since is not None and not lost)


async def begin_another(
    kernel: Kernel,
    subscription: Subscription,
    interest: SubscribedFilter,
    start: StartPosition,
    caller: Caller,
) -> StreamStart:
    """Start an interest beside others; silence that two of them ask for has both numbers."""
    interests, text, numbers = subscription.interests, interest.topics.text, interest.identifiers
    names = [name for name in (text, STALE_PREFIX + text) if name in interests]
    others = {name: interests[name].identifiers for name in names}
    begun = await begin(kernel, subscription, [interest], start, caller)
    for name in names:
        if interests[name].identifiers == numbers:
            interests[name].identifiers = (*others[name], *numbers)
    return begun


async def _resumed(
    kernel: Kernel,
    interests: Sequence[SubscribedFilter],
    sources: Sequence[LogSource],
    since: str,
    caller: Caller,
) -> tuple[int | None, str]:
    """Return the position of a cursor, and why nobody can go on after it; one of both is empty."""
    reader, cursor = kernel.reader, parse_cursor(since)
    if cursor.epoch == reader.epoch:
        await reader.until_reached(cursor.seq)
    lost = why_lost(cursor, reader.epoch, reader.reach())
    if not lost and reader.trimmed(sources) > cursor.seq:
        lost = "" if await _has_past(kernel, interests, cursor.seq, caller) else TRIMMED
    queries = [one.query for one in interests if one.query is not None]
    lost = lost or next(filter(None, (one.lost(cursor.seq) for one in queries)), "")
    return None if lost else cursor.seq, lost


async def _has_past(
    kernel: Kernel, interests: Sequence[SubscribedFilter], after: int, caller: Caller
) -> bool:
    """Give the interest what became of its records in a part of the log that was compacted."""
    compacted = kernel.compacted
    if compacted is None or len(interests) > 1:  # of which each has another place to go on from
        return False
    interests[0].past = await compacted.past(interests[0], after, caller)
    return interests[0].past is not None


async def _authorise(kernel: Kernel, interests: Sequence[SubscribedFilter], caller: Caller) -> None:
    """Raise unless the caller may have all interests, and their tables stream here."""
    for interest in interests:
        if interest.topics.text.startswith("/"):
            interest.topics = TopicFilter(kernel.registry.named(interest.topics.text))
        named = interest.topics.text.startswith((QUERY_PREFIX, *REPLAY_PREFIXES))
        if interest.topics.prefix and not named:
            check_not_excluded(kernel.registry.route(interest.topics.prefix).table, caller.door)
        await kernel.authorise_waiting(interest, caller)


def _has_silence(table: Table) -> bool:
    """Whether the table or a record of it can be stale."""
    return bool(table.deadline_seconds) or table.derived is not None


def _with_silence(
    reader: Reader, interests: Sequence[SubscribedFilter]
) -> Iterator[SubscribedFilter]:
    """Yield interests, and for tables with a deadline the interest in stale records (M4)."""
    for interest in interests:
        yield interest
        sources = reader.sources(interest.topics) if interest.query is None else ()
        if any(isinstance(item, Table) and _has_silence(item) for item in sources):
            beside = TopicFilter(STALE_PREFIX + interest.topics.text)
            yield SubscribedFilter(beside, identifiers=interest.identifiers, marks=interest.marks)
            interest.marks = False  # the mark follows both
