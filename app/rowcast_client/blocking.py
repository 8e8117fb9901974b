"""The client without asyncio: the same verbs, blocking; the command line uses it."""

import random
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
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


class SyncRowcast:
    """The blocking client of one server, like ``Rowcast``; for one thread at a time."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:9926",
        *,
        user: str = "",
        password: str = "",
        token: str = "",
        format: str = "json",  # noqa: A002 - the word that URLs have for it
        authority: str | Path | None = None,
        transport: httpx.BaseTransport | None = None,
        wait: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.url = url.rstrip("/")
        self._calls = Calls(format)
        self._wait = wait
        self._chance = chance
        options = http_options(url, user, password, token, authority)
        self.way = way_of(url, user, password, token, options, format)
        """How sockets reach the server."""
        self._http = httpx.Client(transport=transport, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._http.close()

    def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Send one request; raises a Problem."""
        try:
            answer = self._http.request(
                method, self.url + path, content=body or None, headers=headers
            )
        except httpx.TransportError as error:
            raise nobody(self.url, error) from error
        return check(answer)

    def lines(self, path: str, headers: Mapping[str, str] | None = None) -> Iterator[str]:
        """Read a response of any size, a line at a time; raises a Problem."""
        try:
            with self._http.stream("GET", self.url + path, headers=headers) as answer:
                if answer.is_error:
                    answer.read()
                check(answer)
                yield from _lines(answer.iter_text())
        except httpx.TransportError as error:
            raise nobody(self.url, error) from error

    def get(self, topic: str, query: str = "") -> Answer:
        """Read a record; ``query`` such as ``asof=-10m`` or ``meta=true``."""
        return self._ask(self._calls.get(topic, query))

    def query(self, table: str, query: str = "") -> Page:
        """Read a page of a table, such as ``age=gt=3&sort(-age)&limit(20)``."""
        return self._ask(self._calls.query(table, query))

    def history(self, topic: str, words: str = "last=100") -> HistoryReads:
        """Read the events of a topic, or, with a slash at its end, of the topics below it."""
        return self._ask(self._calls.history(topic, words))

    def put(self, topic: str, value: object, **options: Unpack[WriteOptions]) -> Written:
        """Set a record's value."""
        return self._ask(self._calls.put(topic, value, **options))

    def patch(self, topic: str, value: object, **options: Unpack[WriteOptions]) -> Written:
        """Change some attributes of a record; None removes one (RFC 7396)."""
        return self._ask(self._calls.patch(topic, value, **options))

    def delete(self, topic: str, **options: Unpack[WriteOptions]) -> Written:
        """Remove a record."""
        return self._ask(self._calls.delete(topic, **options))

    def patch_where(self, table: str, query: str, value: object, **guard: Unpack[Guard]) -> Written:
        """Change attributes of all records that a query selects, or of none; ``told["count"]``."""
        return self._ask(self._calls.patch_where(table, query, value, **guard))

    def delete_where(self, table: str, query: str, **guard: Unpack[Guard]) -> Written:
        """Remove all records that a query selects, or none; ``told["count"]`` is their number."""
        return self._ask(self._calls.delete_where(table, query, **guard))

    def publish(self, topic: str, value: object, **options: Unpack[WriteOptions]) -> Written:
        """Send a message to the subscribers of a topic; its record does not change."""
        return self._ask(self._calls.publish(topic, value, **options))

    def create(self, table: str, value: object, **options: Unpack[WriteOptions]) -> Written:
        """Add a record with an id generated by the server, or a list of records."""
        return self._ask(self._calls.create(table, value, **options))

    def transaction(self, writes: Sequence[Mapping[str, object]]) -> Written:
        """Write at any topics, all or nothing: ``{"op": "put", "topic": "Dog/1", "value": 1}``."""
        return self._ask(self._calls.transaction(writes))

    def upsert(self, table: str, values: list[object], **options: Unpack[WriteOptions]) -> Written:
        """Write records, which replace those of their ids; ``told`` has the outcome of each."""
        return self._ask(self._calls.upsert(table, values, **options))

    def subscribe(
        self,
        *filters: str,
        meta: bool = False,
        commits: bool = False,
        conflate: str = "",
        patient: bool = False,
        on_state: State | None = None,
        **place: Unpack[Place],
    ) -> "SyncSubscription":
        """Yield the current records, then each event once, as ``Rowcast.subscribe``."""
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
        return SyncSubscription(self._http, self.url, follow, self._wait, on_state)

    def live(self, table: str, where: str, **options: Unpack[Place]) -> "SyncSubscription":
        """Yield the records of a table that satisfy conditions, and then each step of that set.

        ``where`` is written as in a URL: ``temp=gt=80&site==A``. Kinds are snapshot, current,
        enter, change, leave and reset.
        """
        return self.subscribe(query_filter(table, where), **options)

    def _ask(self, call: Call[T]) -> T:
        return call.read(self.request(call.method, call.path, call.body, call.headers))


def _lines(chunks: Iterable[str]) -> Iterator[str]:
    """Yield lines that a line feed ends; JSON has other separators, such as U+2028, in its text."""
    rest = ""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split("\n")
        yield from whole
    if rest:
        yield rest


class SyncSubscription:
    """The events of some filters, to be read with ``for``."""

    def __init__(
        self,
        http: httpx.Client,
        url: str,
        follow: Following,
        wait: Callable[[float], None],
        on_state: State | None,
    ) -> None:
        self._http = http
        self._url = url
        self._follow = follow
        self._wait = wait
        self._on_state = on_state or (lambda _: None)
        self._events = self._watch()

    def __iter__(self) -> Iterator[Event]:
        return self._events

    @property
    def cursor(self) -> str:
        """The cursor to continue from with ``since``: after the last event returned."""
        return self._follow.cursor

    def close(self) -> None:
        """Close it and its connection."""
        self._events.close()

    def _watch(self) -> Generator[Event, None, None]:
        follow = self._follow
        while True:
            problem = None
            self._on_state(CONNECTING)
            try:
                with self._http.stream(
                    "GET",
                    f"{self._url}/",
                    params=follow.params,
                    headers=follow.headers,
                    timeout=TIMEOUT,
                ) as answer:
                    if answer.is_error:
                        answer.read()
                    yield from follow.opened(check(answer).headers)
                    self._on_state(LIVE)
                    for chunk in answer.iter_bytes():
                        yield from follow.take(chunk)
            except httpx.TransportError as error:
                problem = nobody(self._url, error)
            except Problem as refusal:
                problem = refusal
            pause = follow.ended(problem)
            self._on_state(WAITING)
            self._wait(pause)
