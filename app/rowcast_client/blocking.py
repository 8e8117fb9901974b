"""The client without asyncio: the same verbs, which wait; the command line is made with it."""

import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Self, TypeVar, Unpack

import httpx

from rowcast_client.calls import Answer, Call, Calls, HistoryReads, Page, WriteOptions, Written
from rowcast_client.connection import http_options
from rowcast_client.events import Event
from rowcast_client.following import CONNECTING, LIVE, TIMEOUT, WAITING, Following, Place, State
from rowcast_client.problem import Problem, check, nobody

T = TypeVar("T")


class SyncRowcast:
    """One server, as ``Rowcast`` has it; for one thread at a time."""

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
        """Ask once; raises a Problem."""
        try:
            answer = self._http.request(
                method, self.url + path, content=body or None, headers=headers
            )
        except httpx.TransportError as error:
            raise nobody(self.url, error) from error
        return check(answer)

    def get(self, topic: str, query: str = "") -> Answer:
        """Read a record; ``query`` such as ``asof=-10m`` or ``meta=true``."""
        return self._ask(self._calls.get(topic, query))

    def query(self, table: str, query: str = "") -> Page:
        """Read a page of a table, such as ``age=gt=3&sort(-age)&limit(20)``."""
        return self._ask(self._calls.query(table, query))

    def history(self, topic: str, words: str = "last=100") -> HistoryReads:
        """Read what happened at a topic, or with a slash at its end below it."""
        return self._ask(self._calls.history(topic, words))

    def put(self, topic: str, value: object, **options: Unpack[WriteOptions]) -> Written:
        """Make a record this value."""
        return self._ask(self._calls.put(topic, value, **options))

    def patch(self, topic: str, value: object, **options: Unpack[WriteOptions]) -> Written:
        """Change some attributes of a record; None removes one (RFC 7396)."""
        return self._ask(self._calls.patch(topic, value, **options))

    def delete(self, topic: str, **options: Unpack[WriteOptions]) -> Written:
        """Remove a record."""
        return self._ask(self._calls.delete(topic, **options))

    def publish(self, topic: str, value: object, **options: Unpack[WriteOptions]) -> Written:
        """Send a message to everyone who watches a topic; its record stays as it is."""
        return self._ask(self._calls.publish(topic, value, **options))

    def create(self, table: str, value: object, **options: Unpack[WriteOptions]) -> Written:
        """Add a record whose id the server makes, or a list of records."""
        return self._ask(self._calls.create(table, value, **options))

    def subscribe(
        self,
        *filters: str,
        meta: bool = False,
        patient: bool = False,
        on_state: State | None = None,
        **place: Unpack[Place],
    ) -> "SyncSubscription":
        """Give what is at these topics, and then each event once, as ``Rowcast.subscribe``."""
        follow = Following(
            filters,
            place,
            name=self._calls.format,
            meta=meta,
            patient=patient,
            chance=self._chance,
        )
        return SyncSubscription(self._http, self.url, follow, self._wait, on_state)

    def _ask(self, call: Call[T]) -> T:
        return call.read(self.request(call.method, call.path, call.body, call.headers))


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
        self._tell = on_state or (lambda _: None)
        self._events = self._watch()

    def __iter__(self) -> Iterator[Event]:
        return self._events

    @property
    def cursor(self) -> str:
        """Where to go on with ``since``: after the last event that was handed over."""
        return self._follow.cursor

    def close(self) -> None:
        """End it, and its connection."""
        self._events.close()

    def _watch(self) -> Generator[Event, None, None]:
        follow = self._follow
        while True:
            problem = None
            self._tell(CONNECTING)
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
                    self._tell(LIVE)
                    for chunk in answer.iter_bytes():
                        yield from follow.take(chunk)
            except httpx.TransportError as error:
                problem = nobody(self._url, error)
            except Problem as refusal:
                problem = refusal
            pause = follow.ended(problem)
            self._tell(WAITING)
            self._wait(pause)
