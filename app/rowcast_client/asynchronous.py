"""The client for asyncio."""

import asyncio
import random
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar, Unpack

import httpx

from rowcast.core.query_topics import query_filter
from rowcast_client.calls import (
    Answer,
    Call,
    Calls,
    Guard,
    HistoryReads,
    Page,
    WriteOptions,
    Written,
)
from rowcast_client.connection import http_options, way_of
from rowcast_client.events import Event
from rowcast_client.following import CONNECTING, LIVE, TIMEOUT, WAITING, Following, Place, State
from rowcast_client.problem import Problem, check, nobody

T = TypeVar("T")


class Rowcast:
    """The asyncio client of one server; errors are raised as a Problem.

    ``url`` may contain a name and password before the host and ``@``, in place of ``user`` and
    ``password``; ``token`` is a JWT instead of both. ``format`` of values is ``json``, ``cbor`` or
    ``msgpack``. ``authority`` is a file of CA certificates to trust besides the system's. For
    tests: ``transport`` carries requests in place of a socket, ``wait`` sleeps so many seconds
    before an attempt, ``chance`` is from 0 to 1, the random part of that. Raises an Error for an
    address, a format or an authority that cannot be used. Close it, or use it with ``async with``.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:9926",
        *,
        user: str = "",
        password: str = "",
        token: str = "",
        format: str = "json",  # noqa: A002 - the word that URLs have for it
        authority: str | Path | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.url = url.rstrip("/")
        self._calls = Calls(format)
        self._wait = wait
        self._chance = chance
        options = http_options(url, user, password, token, authority)
        self.way = way_of(url, user, password, token, options, format)
        """How sockets reach the server."""
        self._http = httpx.AsyncClient(transport=transport, **options)
        self._streams: set[AsyncGenerator[Event, None]] = set()
        """The streams of subscriptions; referenced here, so that garbage collection closes none of
        them."""
        self._ending: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; subscriptions end."""
        streams, self._streams = self._streams, set()
        for events in streams:
            with suppress(RuntimeError):  # it is being read; its reader gets an error below
                await events.aclose()
        await asyncio.gather(*self._ending)
        await self._http.aclose()

    async def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Send one request; raises a Problem."""
        try:
            answer = await self._http.request(
                method, self.url + path, content=body or None, headers=headers
            )
        except httpx.TransportError as error:
            raise nobody(self.url, error) from error
        return check(answer)

    async def get(self, topic: str, query: str = "") -> Answer:
        """Read a record; ``query`` such as ``asof=-10m`` or ``meta=true``."""
        return await self._ask(self._calls.get(topic, query))

    async def query(self, table: str, query: str = "") -> Page:
        """Read a page of a table, such as ``age=gt=3&sort(-age)&limit(20)``."""
        return await self._ask(self._calls.query(table, query))

    async def history(self, topic: str, words: str = "last=100") -> HistoryReads:
        """Read the events of a topic, or, with a slash at its end, of the topics below it."""
        return await self._ask(self._calls.history(topic, words))

    async def put(self, topic: str, value: object, **options: Unpack[WriteOptions]) -> Written:
        """Set a record's value."""
        return await self._ask(self._calls.put(topic, value, **options))

    async def patch(self, topic: str, value: object, **options: Unpack[WriteOptions]) -> Written:
        """Change some attributes of a record; None removes one (RFC 7396)."""
        return await self._ask(self._calls.patch(topic, value, **options))

    async def delete(self, topic: str, **options: Unpack[WriteOptions]) -> Written:
        """Remove a record."""
        return await self._ask(self._calls.delete(topic, **options))

    async def patch_where(
        self, table: str, query: str, value: object, **guard: Unpack[Guard]
    ) -> Written:
        """Change attributes of all records that a query selects, or of none; ``told["count"]``."""
        return await self._ask(self._calls.patch_where(table, query, value, **guard))

    async def delete_where(self, table: str, query: str, **guard: Unpack[Guard]) -> Written:
        """Remove all records that a query selects, or none; ``told["count"]`` is their number."""
        return await self._ask(self._calls.delete_where(table, query, **guard))

    async def publish(self, topic: str, value: object, **options: Unpack[WriteOptions]) -> Written:
        """Send a message to the subscribers of a topic; its record does not change."""
        return await self._ask(self._calls.publish(topic, value, **options))

    async def create(self, table: str, value: object, **options: Unpack[WriteOptions]) -> Written:
        """Add a record with an id generated by the server, or a list of records."""
        return await self._ask(self._calls.create(table, value, **options))

    async def transaction(self, writes: Sequence[Mapping[str, object]]) -> Written:
        """Write at any topics, all or nothing: ``{"op": "put", "topic": "Dog/1", "value": 1}``."""
        return await self._ask(self._calls.transaction(writes))

    async def upsert(
        self, table: str, values: list[object], **options: Unpack[WriteOptions]
    ) -> Written:
        """Write records, which replace those of their ids; ``told`` has the outcome of each."""
        return await self._ask(self._calls.upsert(table, values, **options))

    def subscribe(
        self,
        *filters: str,
        meta: bool = False,
        commits: bool = False,
        conflate: str = "",
        patient: bool = False,
        on_state: State | None = None,
        **place: Unpack[Place],
    ) -> "Subscription":
        """Yield the current records of these topics, and then each event once, across reconnects.

        Begin elsewhere with ``since`` (a cursor), ``start="new"``, ``last=10`` or ``from_="-1h"``.
        With ``commits`` a ``commit`` follows each transaction: what came is as of its cursor.
        With ``conflate="1s"`` a value of a record comes only so often, the newest.
        Unless ``patient``, a failed first connection raises a Problem. ``on_state`` receives
        ``connecting``, ``live`` and ``waiting``.
        """
        follow = Following(
            filters,
            place,
            name=self._calls.format,
            meta=meta,
            commits=commits,
            conflate=conflate,
            patient=patient,
            chance=self._chance,
        )
        events = self._watch(follow, on_state or (lambda _: None))
        self._streams.add(events)
        subscription = Subscription(events, follow)
        weakref.finalize(subscription, self._abandon, events).atexit = False
        return subscription

    def live(self, table: str, where: str, **options: Unpack[Place]) -> "Subscription":
        """Yield the records of a table that satisfy conditions, and then each step of that set.

        ``where`` is written as in a URL: ``temp=gt=80&site==A``. Kinds are snapshot, current,
        enter, change, leave and reset.
        """
        return self.subscribe(query_filter(table, where), **options)

    def _abandon(self, events: AsyncGenerator[Event, None]) -> None:
        """Close the stream of a garbage-collected subscription; the only place that does so."""
        if events not in self._streams:
            return
        with suppress(RuntimeError):  # without a loop ``close`` closes it with the others
            loop = asyncio.get_running_loop()
            self._streams.discard(events)
            task = loop.create_task(events.aclose())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _ask(self, call: Call[T]) -> T:
        return call.read(await self.request(call.method, call.path, call.body, call.headers))

    async def _watch(self, follow: Following, on_state: State) -> AsyncGenerator[Event, None]:
        while not self._http.is_closed:
            problem = None
            on_state(CONNECTING)
            try:
                async with self._http.stream(
                    "GET",
                    f"{self.url}/",
                    params=follow.params,
                    headers=follow.headers,
                    timeout=TIMEOUT,
                ) as answer:
                    if answer.is_error:
                        await answer.aread()
                    for event in follow.opened(check(answer).headers):
                        yield event
                    on_state(LIVE)
                    async for chunk in answer.aiter_bytes():
                        for event in follow.take(chunk):
                            yield event
            except httpx.TransportError as error:
                problem = nobody(self.url, error)
            except Problem as refusal:
                problem = refusal
            if self._http.is_closed:
                return
            pause = follow.ended(problem)
            on_state(WAITING)
            await self._wait(pause)


class Subscription:
    """The events of some filters, to be read with ``async for``; a loop may stop and resume later.

    It is closed with its client, by ``aclose``, or when it is garbage-collected.
    """

    def __init__(self, events: AsyncGenerator[Event, None], follow: Following) -> None:
        self._events = events
        self._follow = follow

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        return await anext(self._events)

    @property
    def cursor(self) -> str:
        """The cursor to continue from with ``since``: after the last event returned."""
        return self._follow.cursor

    async def aclose(self) -> None:
        """Close it and its connection."""
        await self._events.aclose()
