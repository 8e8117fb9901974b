"""All durable streams of a server: create, append, close, delete and expire (V7).

The state of a stream is a fact, which changes in the transaction of the append that changes it: no
kill leaves one without the other, and the node that takes over has both.
"""

from asyncio import Future, get_running_loop
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from uuid import uuid4

from rowcast.core.callers import Caller
from rowcast.core.durable_stream_limits import (
    DURABLE_EXPIRE_LEAST_SECONDS,
    DURABLE_PRODUCERS_ALL_MAX,
    DURABLE_PRODUCERS_LEAST,
    DURABLE_PRODUCERS_MAX,
)
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, Event
from rowcast.core.facts import Change
from rowcast.features.durable_streams.appends import (
    OWNER,
    PRODUCER,
    STATE,
    Append,
    Appended,
    changes_of,
    first_of,
    note,
)
from rowcast.features.durable_streams.forks import Plan
from rowcast.features.durable_streams.offsets import offset_of
from rowcast.features.durable_streams.producers import Refusal, is_repeat
from rowcast.features.durable_streams.stream import (
    MARK,
    Options,
    Stream,
    default_type,
    media_type,
    unpacked,
)
from rowcast.features.durable_streams.stream_index import StreamIndex
from rowcast.kernel.kernel import Kernel
from rowcast.reads.loop_turns import in_turns
from rowcast.writes.write import Receipt, Write, resolve


class DurableStreams:
    """The streams; ``most`` of them, and ``most_per_user`` created by one user."""

    def __init__(self, kernel: Kernel, most: int, most_per_user: int) -> None:
        self.kernel = kernel
        self._most = most
        self._most_per_user = most_per_user
        self._streams = StreamIndex()
        self._states: dict[str, tuple[Stream, Append]] = {}
        """The appends that are being written, by the mark of their last event."""

    def __len__(self) -> int:
        return len(self._streams)

    def restore(self, facts: Iterable[tuple[str, str, bytes]]) -> None:
        """Restore all streams; ``facts`` are those of owners ``stream/``."""
        self._streams = StreamIndex()
        producers: list[tuple[str, str, bytes]] = []
        now = self.kernel.now()
        for owner, name, value in facts:
            topic = owner[len(OWNER) :]
            if name == STATE:
                self._streams.add(unpacked(topic, value, now))
            else:
                producers.append((topic, name[len(PRODUCER) :], value))
        for topic, name, value in producers:
            stream = self._streams.get(topic)
            if stream is not None:
                epoch, number = map(int, value.split(b":"))
                stream.producers[name] = (epoch, number)
        for stream in self._streams:
            self._schedule(stream)

    # -- finding -----------------------------------------------------------------------------------

    def find(self, topic: str) -> Stream | None:
        """Return the stream at a topic, also one that is kept for its forks; None: none is."""
        stream = self._streams.get(topic)
        if stream is not None and self._is_over(stream):
            self._drop(stream)
            return self._streams.get(topic)
        return stream

    def _is_over(self, stream: Stream) -> bool:
        """Whether a stream has reached its end; not while somebody appends, which prolongs it."""
        deadline = None if stream.deleted or stream.turn.locked() else stream.deadline()
        return deadline is not None and deadline <= self.kernel.removal_now()

    def get(self, topic: str) -> Stream:
        """Return the stream at a topic; raises NOT_FOUND, GONE."""
        stream = self.find(topic)
        if stream is None:
            raise Error(Code.NOT_FOUND, f"there is no stream at {topic!r}; create it with PUT")
        if stream.deleted:
            raise _deleted(topic)
        return stream

    def touch(self, stream: Stream) -> None:
        """Note a read or an append, which prolongs a time to live."""
        stream.touched = self.kernel.now()

    # -- creating ----------------------------------------------------------------------------------

    async def create(
        self, topic: str, options: Options, ends: float | None, content: Append, caller: Caller
    ) -> tuple[Stream, bool]:
        """Return the stream at a topic, and whether it was created now.

        ``options.content_type`` may be empty: that of its source, or of bytes. Raises CONFLICT
        where there is another one, NOT_FOUND for a missing source, INVALID, DENIED, BUSY.
        """
        self.kernel.rights.check_write(topic, caller, MESSAGE)
        known = self.find(topic)
        if known is not None:
            return await self._stored(self._same(known, options)), False
        self._check_room(caller)
        stream, prefix = await self._planned(Plan(self.kernel, topic, options, ends, caller))
        if prefix and content.messages and not stream.is_json:
            content = replace(content, messages=(prefix, *content.messages))
        elif prefix:
            content = replace(content, messages=(prefix,))
        if self._streams.get(topic) is not None:  # another request was faster
            return await self._stored(self._same(self.get(topic), options)), False
        self._check_source(stream)
        self._streams.add(stream)
        self.touch(stream)  # before anything is waited for: its time to live begins
        try:
            async with stream.turn:
                await self._write(stream, replace(content, closes=options.closed), caller)
        except BaseException:
            if self._streams.has(stream):
                self._streams.remove(stream)
            raise
        self._schedule(stream)
        return stream, True

    async def _stored(self, known: Stream) -> Stream:
        """Return a stream that is there, once whoever creates it has stored it. Raises BUSY."""
        async with known.turn:
            if self._streams.has(known):
                return known
        raise Error(
            Code.BUSY,
            f"the stream {known.topic!r} has ended, or could not be stored; create it again",
        )

    def _same(self, known: Stream, options: Options) -> Stream:
        if known.deleted:
            raise Error(
                Code.CONFLICT,
                f"the stream {known.topic!r} was deleted and is kept for its forks; delete them, "
                "or take another name",
            )
        has = known.options
        wanted = replace(options, content_type=options.content_type or default_type(has))
        if wanted.source and wanted.ttl is None and not wanted.expires_at:
            wanted = replace(wanted, ttl=has.ttl, expires_at=has.expires_at)
        if _compared(wanted) != _compared(has):
            raise Error(
                Code.CONFLICT,
                f"there is a stream at {known.topic!r} with another content type, time to live, "
                "source or state; use it as it is, or take another name",
            )
        return known

    def _check_source(self, stream: Stream) -> None:
        """Raise NOT_FOUND when the source of a fork has ended while the fork was planned."""
        source = self._streams.get(stream.options.source) if stream.parent else None
        if stream.parent and (source is None or source.deleted or source.life != stream.parent):
            raise Error(Code.NOT_FOUND, f"the stream {stream.options.source!r} has ended meanwhile")

    def _check_room(self, caller: Caller) -> None:
        mine = self._streams.of_user(caller.user)
        if len(self._streams) >= self._most or mine >= self._most_per_user:
            setting = "most" if len(self._streams) >= self._most else "most_per_user"
            raise Error(
                Code.BUSY,
                f"there are {len(self._streams)} streams, {mine} of them created by "
                f"{caller.user}; delete some, or raise durable_streams.{setting}",
                rate=True,
                retry_after_seconds=60,
            )

    async def _planned(self, plan: Plan) -> tuple[Stream, bytes]:
        """Return a new stream, and the bytes that it begins with."""
        name = plan.options.source
        if not name:
            return plan.new(), b""
        self.kernel.authorise_read(name, plan.caller)
        source = self.find(name)
        if source is None:
            raise Error(Code.NOT_FOUND, f"there is no stream to fork from at {name!r}")
        return await plan.forked(await self._stored(source))

    def offset(self, position: int) -> str:
        """Return the offset of a position."""
        return offset_of(self.kernel, position)

    # -- appending ---------------------------------------------------------------------------------

    async def append(self, topic: str, content: Append, caller: Caller) -> Appended:
        """Append to a stream, or close it; raises Refusal."""
        self.get(topic)
        self.kernel.rights.check_write(topic, caller, MESSAGE)
        stream = await self._turn(topic)
        try:
            return await self._append(stream, content, caller)
        finally:
            stream.turn.release()

    async def _append(self, stream: Stream, content: Append, caller: Caller) -> Appended:
        """Append in the stream's turn."""
        content = replace(content, producers_max=self._producers_max)
        mark = content.mark
        if mark is not None and is_repeat(stream, mark):
            return Appended(stream, repeat=True, number=stream.producers[mark.producer][1])
        if stream.closed:
            if content.messages or mark is not None:
                raise Refusal(_closed(stream.topic), self.closed_headers(stream))
            return Appended(stream, repeat=True)
        if content.seq and content.seq <= stream.seq:
            raise Refusal(
                Error(
                    Code.CONFLICT,
                    f"Stream-Seq {content.seq[:80]!r} is not after {stream.seq[:80]!r}, the "
                    "last one; they are compared as bytes",
                )
            )
        await self._write(stream, content, caller)
        return Appended(stream, number=mark.number if mark else 0)

    async def _turn(self, topic: str) -> Stream:
        """Return the stream that is at a topic when its turn comes, which the caller releases."""
        while True:
            stream = self.get(topic)
            await stream.turn.acquire()
            if self._streams.has(stream) and not stream.deleted:
                return stream
            stream.turn.release()

    @property
    def _producers_max(self) -> int:
        """How many producers each stream remembers: fewer where there are many streams."""
        share = DURABLE_PRODUCERS_ALL_MAX // max(1, len(self._streams))
        return min(DURABLE_PRODUCERS_MAX, max(DURABLE_PRODUCERS_LEAST, share))

    def closed_headers(self, stream: Stream) -> dict[str, str]:
        """Return the headers of an answer that a stream is closed."""
        return {"Stream-Closed": "true", "Stream-Next-Offset": self.offset(stream.tail)}

    async def _write(self, stream: Stream, content: Append, caller: Caller) -> None:
        """Write what is appended, with the new state, in one transaction."""
        if not content.messages:
            await self._keep(changes_of(stream, content, stream.tail))
        else:
            await self._write_events(stream, content, caller)
        note(stream, content)
        self.touch(stream)
        stream.notify()

    async def _write_events(self, stream: Stream, content: Append, caller: Caller) -> None:
        count = len(content.messages)
        name = f"{stream.life}:{uuid4().hex[:12]}"
        events = _events(stream, content.messages, name, caller)
        last = f"{name}:{count}:{count}"
        self._states[last] = stream, content
        try:
            outcomes = await self.kernel.write_all(events, caller, atomic=count > 1)
        finally:
            del self._states[last]
        for outcome in outcomes:
            if isinstance(outcome, Error):
                raise outcome
        stored = [item.event.seq for item in outcomes if isinstance(item, Receipt)]
        if not stored[-1]:
            raise Error(
                Code.DENIED, f"a hook has dropped what was to be appended to {stream.topic!r}"
            )
        stream.first, stream.tail = first_of(stream, content, stored[-1]), stored[-1]

    def step(self, write: Write) -> None:
        """Log an event of a stream, and store the stream's state with its last one."""
        properties = write.event.properties or {}
        mark = str(properties.get(MARK))
        name, index, count = [*mark.rsplit(":", 2), "", ""][:3]
        known = self._states.get(f"{name}:{count}:{count}")
        if known is None:  # from elsewhere, with a mark of a stream there
            write.event.properties = {k: v for k, v in properties.items() if k != MARK} or None
            return
        write.logged = True
        if index == count:
            stream, content = known
            write.conclude = partial(self._concluded, stream, content)

    def _concluded(self, stream: Stream, content: Append, receipt: Receipt) -> list[Change]:
        return changes_of(stream, content, receipt.event.seq)

    async def _keep(self, changes: Sequence[Change]) -> None:
        future: Future[Error | None] = get_running_loop().create_future()
        self.kernel.committer.keep(changes, partial(resolve, future))
        error = await future
        if error is not None:
            raise error

    # -- ending ------------------------------------------------------------------------------------

    async def delete(self, topic: str, caller: Caller) -> None:
        """Delete a stream; with forks, it is kept for them. Raises NOT_FOUND, GONE, DENIED."""
        self.kernel.rights.check_write(topic, caller, MESSAGE)
        stream = await self._turn(topic)
        stream.deleted = True  # nobody forks it or appends meanwhile
        try:
            ending = self._streams.ending(stream)
            await self._keep(_changes(stream, ending))
        except Error:
            stream.deleted = False
            raise
        else:
            self._end(stream, ending)
        finally:
            stream.turn.release()

    def _drop(self, stream: Stream) -> None:
        """Delete a stream whose time is over."""
        stream.deleted = True
        ending = self._streams.ending(stream)
        self.kernel.committer.keep(_changes(stream, ending))
        self._end(stream, ending)

    def _end(self, stream: Stream, ending: Sequence[Stream]) -> None:
        """Forget a stream that was deleted, and the sources that were kept for it."""
        for item in filter(self._streams.has, ending):
            self._streams.remove(item)
        stream.notify()

    async def expire_due(self) -> float:
        """End the streams whose time is over; return when the next one's is."""
        soonest = inf
        async for some in in_turns(list(self._streams)):
            for stream in some:
                if self._streams.has(stream) and self._is_over(stream):
                    self._drop(stream)
                elif not stream.deleted and (deadline := stream.deadline()) is not None:
                    later = self.kernel.removal_now() + DURABLE_EXPIRE_LEAST_SECONDS
                    soonest = min(soonest, max(deadline, later))
        return soonest

    def _schedule(self, stream: Stream) -> None:
        deadline = stream.deadline()
        if deadline is not None and not stream.deleted:
            self.kernel.schedule_expiry(deadline)


def _changes(stream: Stream, ending: Sequence[Stream]) -> list[Change]:
    """Return the changes of facts that end streams; if none does, it is kept for its forks."""
    if not ending:
        return [Change(OWNER + stream.topic, STATE, stream.packed())]
    return [Change(OWNER + item.topic, "", None) for item in ending]


def _compared(options: Options) -> Options:
    return replace(options, content_type=media_type(options.content_type))


def _deleted(topic: str) -> Error:
    return Error(Code.GONE, f"the stream {topic!r} was deleted; only its forks are left")


def _closed(topic: str) -> Error:
    return Error(Code.CONFLICT, f"the stream {topic!r} is closed; nothing can be appended any more")


def _events(stream: Stream, messages: Sequence[bytes], name: str, caller: Caller) -> list[Event]:
    """Return the events of an append, each with its place in it."""
    count, kind = len(messages), stream.options.content_type
    client = caller.client_id or caller.user
    return [
        Event(
            stream.topic,
            MESSAGE,
            payload,
            kind,
            1,
            client=client,
            properties={MARK: f"{name}:{index}:{count}"},
        )
        for index, payload in enumerate(messages, 1)
    ]
