"""One WebSocket for everything: subscriptions, live queries, writes, and a will.

    async with Rowcast(url) as rows, Socket(rows, will=Will("presence/ann", "away")) as socket:
        await socket.put("presence/ann", "here")
        async for event in socket.live("Sensor", "temp=gt=80", sort="-temp", limit=10):
            print(event.kind, event.topic, event.value)

A lost connection is made again, with exponential backoff and jitter. Subscriptions go on at their
cursors, commands without an answer are sent again, and the will is set again.
"""

import asyncio
import random
import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import Self, Unpack

from rowcast_client.bounds import USUAL, SocketBounds
from rowcast_client.calls import Answer, Written
from rowcast_client.commands import Fields
from rowcast_client.connection import Client
from rowcast_client.events import Event
from rowcast_client.following import Place, State
from rowcast_client.link import Link, Will, will_words
from rowcast_client.pace import Pace
from rowcast_client.streams import Stream


class Watching(Place, total=False):
    """Options of a subscription: where it begins, and what comes."""

    commits: bool
    """Whether a ``commit`` follows each transaction: what came is as of its cursor."""
    conflate: str
    """``1s``: a value of a record comes only so often, the newest."""


class Condition(Watching, total=False):
    """Options of a live query."""

    select: str
    """The attributes of its records that are wanted: ``id,temp``."""
    sort: str
    """The order of which ``limit`` takes the first: ``-temp``."""
    limit: int | str
    """How many records are followed: ``10``, or ``20,30`` for those from 20 to 30."""


class Socket:
    """One WebSocket of a client; errors are raised as a Problem. Use it with ``async with``.

    It signs in as its client, and trusts the same certificates. ``will`` is written by the server
    when this program vanishes, and not after ``close``. With ``meta`` events have metadata. Unless
    ``patient``, a failed first connection raises a Problem. ``on_state`` receives ``connecting``,
    ``live`` and ``waiting``. ``bounds`` are what it buffers and how long it waits.
    """

    def __init__(
        self,
        rows: Client,
        *,
        will: Will | None = None,
        meta: bool = False,
        patient: bool = False,
        on_state: State | None = None,
        bounds: SocketBounds = USUAL,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._bounds = bounds
        pace = Pace(patient=patient, chance=chance)
        notify = on_state or (lambda _: None)
        self._link = Link(rows.way, pace, bounds, meta=meta, on_state=notify, wait=wait)
        self._link.will = will

    @property
    def is_live(self) -> bool:
        """Whether there is a connection now, by which the server has let this program in."""
        return self._link.is_live

    async def open(self) -> None:
        """Connect, and set the will; raises a Problem."""
        await self._link.open()

    async def close(self) -> None:
        """Close it normally: its will is not written, and its subscriptions end."""
        await self._link.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def get(self, topic: str) -> Answer:
        """Read a record, after the writes that were sent before."""
        answer = await self._link.ask({"op": "get", "topic": topic})
        return Answer(answer.get("value"), str(answer.get("cursor") or ""), self._link.media_type)

    async def put(
        self, topic: str, value: object, *, if_match: str = "", if_none_match: str = ""
    ) -> Written:
        """Set a record's value; once, however often the connection is lost meanwhile."""
        return await self._write("put", topic, _conditions(if_match, if_none_match), value)

    async def patch(
        self, topic: str, value: object, *, if_match: str = "", if_none_match: str = ""
    ) -> Written:
        """Change some attributes of a record; None removes one (RFC 7396)."""
        return await self._write("patch", topic, _conditions(if_match, if_none_match), value)

    async def delete(self, topic: str, *, if_match: str = "") -> Written:
        """Remove a record."""
        return await self._write("delete", topic, _conditions(if_match, ""))

    async def publish(self, topic: str, value: object, *, once: bool = False) -> Written:
        """Send a message to the subscribers of a topic; its record does not change.

        If its answer is lost it may have been sent, and a Problem says so. With ``once`` it is sent
        again and takes effect once, for which the server logs it.
        """
        return await self._write("message", topic, {}, value, marked=once)

    async def ping(self) -> str:
        """Return the cursor of the newest event of the server's log."""
        return str((await self._link.ask({"op": "ping"})).get("cursor") or "")

    async def set_will(self, will: Will | None) -> None:
        """Replace what the server writes when this program vanishes; None: nothing."""
        await self._link.ask({"op": "will"} if will is None else will_words(will))
        self._link.will = will

    def subscribe(
        self,
        filter: str,  # noqa: A002 - the word of MQTT
        **options: Unpack[Watching],
    ) -> "SocketSubscription":
        """Yield the current records at a filter, and then each event once, across reconnects.

        Begin elsewhere with ``since`` (a cursor), ``start="new"``, ``last=10`` or ``from_="-1h"``.
        A socket has a filter once.
        """
        return self._watch({"topic": filter}, options)

    def live(
        self, table: str, where: str = "", **options: Unpack[Condition]
    ) -> "SocketSubscription":
        """Yield the records of a table that satisfy conditions, and then each step of that set.

        ``where`` is written as in a URL: ``temp=gt=80&site==A``. Kinds are snapshot, current,
        enter, change, leave and reset.
        """
        said: Fields = {"topic": f"{table}/+", "where": where}
        for name in ("select", "sort", "limit"):
            if value := options.get(name):
                said[name] = value
        return self._watch(said, options)

    def _watch(self, said: Fields, options: Mapping[str, object]) -> "SocketSubscription":
        place: Place = {}
        for name in Place.__annotations__:
            if name in options:
                place[name] = options[name]  # type: ignore[literal-required]
        for name in ("commits", "conflate"):
            if value := options.get(name):
                said[name] = value
        stream = Stream(said, place, self._bounds)
        self._link.add(stream)
        return SocketSubscription(self._link, stream)

    async def _write(
        self, op: str, topic: str, words: Fields, *value: object, marked: bool = True
    ) -> Written:
        said: Fields = {"op": op, "topic": topic} | words
        if value:
            said["value"] = value[0]
        marked = marked and not topic.startswith("$")  # a topic of the server's own has no marks
        answer = await self._link.ask(said, can_repeat=False, marked=marked)
        cursor = str(answer.get("cursor") or "")
        return Written(201 if answer.get("created") else 200, cursor, answer=answer)


class SocketSubscription:
    """The events of a subscription, to be read with ``async for``; a loop may stop and resume.

    It ends with its socket, by ``aclose``, or when it is garbage-collected.
    """

    def __init__(self, link: Link, stream: Stream) -> None:
        self._link = link
        self._stream = stream
        weakref.finalize(self, link.abandon, stream).atexit = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        stream = self._stream
        while (event := stream.take()) is None:
            if stream.is_closed:
                if stream.problem is not None:
                    raise stream.problem
                raise StopAsyncIteration
            stream.changed.clear()
            await stream.changed.wait()
        self._link.roster.taken(stream)
        return event

    @property
    def cursor(self) -> str:
        """The cursor to continue from with ``since``: after the last event returned."""
        return self._stream.cursor

    async def aclose(self) -> None:
        """End it; the socket goes on."""
        self._link.roster.remove(self._stream)


# -- parts -----------------------------------------------------------------------------------------


def _conditions(if_match: str, if_none_match: str) -> Fields:
    words = (("ifMatch", if_match), ("ifNoneMatch", if_none_match))
    return {name: value for name, value in words if value}
