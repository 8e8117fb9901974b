"""Reads of a stream: its events after a position, from the log, up to a size."""

from collections.abc import Sequence
from dataclasses import dataclass

from rowcast.core.callers import Caller
from rowcast.core.durable_stream_limits import DURABLE_PAGE_EVENTS, DURABLE_READ_BYTES
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.topic_tables import branch_of
from rowcast.features.durable_streams.stream import MARK, Segment, Stream
from rowcast.kernel.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Part:
    """Some events of a stream, and the position after them."""

    events: Sequence[Event]
    next: int
    whole: bool
    """Whether this is all that there was."""


async def read_part(
    kernel: Kernel,
    stream: Stream,
    after: int,
    caller: Caller,
    events_max: int | None = None,
    bytes_max: int = DURABLE_READ_BYTES,
) -> Part:
    """Return the next part of a stream; raises GONE when a part that is asked for was trimmed."""
    found: list[Event] = []
    size, tail = 0, stream.tail
    for segment in stream.segments:
        position = max(after, segment.after)
        while position < segment.until:
            page = await _page(kernel, segment, position)
            for event in page:
                if event.seq > segment.until:
                    break
                if not is_of(event, segment.life):
                    continue
                found.append(event)
                size += len(event.payload)
                if size >= bytes_max or len(found) == events_max:
                    seen = kernel.visibility.events(caller, found)
                    return Part(seen, event.seq, event.seq >= tail)
            if len(page) < DURABLE_PAGE_EVENTS:
                break
            position = page[-1].seq
    return Part(kernel.visibility.events(caller, found), max(after, tail), whole=True)


async def _page(kernel: Kernel, segment: Segment, after: int) -> list[Event]:
    source = branch_of(segment.topic)
    page = await kernel.reader.follow(source, segment.topic, after, DURABLE_PAGE_EVENTS)
    trimmed = kernel.reader.trimmed([source])
    if trimmed > after:
        raise Error(
            Code.GONE,
            f"the log no longer has all of the stream {segment.topic!r}; what is left begins after "
            f"{kernel.reader.epoch}:{trimmed}",
            oldest=f"{kernel.reader.epoch}:{trimmed}",
        )
    return page


def is_of(event: Event, life: str) -> bool:
    """Whether an event belongs to a stream's life."""
    mark = (event.properties or {}).get(MARK)
    return mark is not None and str(mark).partition(":")[0] == life
