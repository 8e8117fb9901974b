"""New streams, and forks: a stream that begins with a part of another (Durable Streams, forks).

A fork copies nothing: it names the parts of the log that it begins with. Only a part of one message
of bytes is written anew, as its first.
"""

from dataclasses import dataclass, replace
from uuid import uuid4

from rowcast.core.callers import Caller
from rowcast.core.durable_stream_limits import DURABLE_FORKS_DEEP_MAX
from rowcast.core.errors import Code, Error
from rowcast.features.durable_streams.offsets import position_of
from rowcast.features.durable_streams.reading import read_part
from rowcast.features.durable_streams.stream import (
    Options,
    Segment,
    Stream,
    default_type,
    media_type,
)
from rowcast.kernel.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Plan:
    """A new stream of a caller, as far as it is known before its source."""

    kernel: Kernel
    topic: str
    options: Options
    ends: float | None
    caller: Caller

    def new(self) -> Stream:
        """Return an empty stream."""
        options = replace(
            self.options, content_type=self.options.content_type or default_type(None)
        )
        here = self.kernel.committer.announced
        return Stream(self.topic, _life(), options, self.caller.user, here, here, self.ends)

    async def forked(self, source: Stream) -> tuple[Stream, bytes]:
        """Return a fork of a stream, and the bytes that it begins with. Raises CONFLICT, INVALID.

        What it does not ask for is as in its source.
        """
        options, ends, has = self.options, self.ends, source.options
        if source.deleted:
            raise Error(
                Code.CONFLICT, f"the stream {options.source!r} was deleted; fork another one"
            )
        if options.content_type and media_type(options.content_type) != media_type(
            has.content_type
        ):
            raise Error(
                Code.CONFLICT,
                f"the stream {options.source!r} is of {has.content_type}, not "
                f"{options.content_type}; leave Content-Type out",
            )
        options = replace(options, content_type=options.content_type or has.content_type)
        if options.ttl is None and not options.expires_at:
            options, ends = replace(options, ttl=has.ttl, expires_at=has.expires_at), source.ends
        until, prefix = await self._point(source)
        here, user = self.kernel.committer.announced, self.caller.user
        parts = _parts(source, until)
        return Stream(
            self.topic, _life(), options, user, here, until, ends, source.life, parts
        ), prefix

    async def _point(self, source: Stream) -> tuple[int, bytes]:
        """Return up to where a fork has its source, and a part of the message after that."""
        options = self.options
        if not options.fork_offset:
            return source.tail, b""
        position = max(source.beginning, self._position(source))
        if not options.fork_sub:
            return position, b""
        if source.is_json:
            return await self._after_messages(source, position, options.fork_sub), b""
        part = await read_part(self.kernel, source, position, self.caller, 1)
        size = len(part.events[0].payload) if part.events else 0
        if options.fork_sub > size:
            raise _beyond(size, "bytes")
        if options.fork_sub == size:
            return part.events[0].seq, b""
        return position, part.events[0].payload[: options.fork_sub]

    async def _after_messages(self, source: Stream, position: int, count: int) -> int:
        """Return the position after so many messages; they may be more than one read has."""
        left = count
        while True:
            part = await read_part(self.kernel, source, position, self.caller, left)
            left -= len(part.events)
            if not left:
                return part.events[-1].seq
            if part.whole:
                raise _beyond(count - left, "messages")
            position = part.next

    def _position(self, source: Stream) -> int:
        try:
            position = position_of(self.kernel, self.options.fork_offset)
        except Error as error:
            raise Error(Code.INVALID, f"Stream-Fork-Offset: {error.message}") from error
        if position > source.tail:
            raise Error(Code.INVALID, f"Stream-Fork-Offset is beyond the end of {source.topic!r}")
        return position


def _parts(source: Stream, until: int) -> tuple[Segment, ...]:
    """Return the parts of a stream up to a position."""
    parts = [item for item in source.segments if item.after < until]
    if len(parts) > DURABLE_FORKS_DEEP_MAX:
        raise Error(
            Code.INVALID,
            f"a chain of forks has at most {DURABLE_FORKS_DEEP_MAX} streams; fork an earlier one",
        )
    return tuple(replace(item, until=min(item.until, until)) for item in parts)


def _life() -> str:
    return uuid4().hex[:16]


def _beyond(count: int, what: str) -> Error:
    return Error(
        Code.INVALID, f"Stream-Fork-Sub-Offset is beyond the {count} {what} after that offset"
    )
