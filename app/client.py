"""A client of the public REST and SSE, for the command line: it has no way in that others lack.

``watch`` keeps the cursor of the last event and goes on from there when the connection is lost,
after a pause that grows and has a random part: a restarted server is not met by all at once.
"""

import random
import re
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote, urlsplit

import httpx

from app.codecs.registry import CODECS, JSON
from app.core.errors import Code, Error
from app.core.limits import (
    CLIENT_ANSWER_SECONDS,
    CLIENT_EVENT_BYTES_MAX,
    CLIENT_SILENCE_SECONDS,
    RECONNECT_SECONDS_MAX,
    RECONNECT_SECONDS_MIN,
)

STREAM: Final = "text/event-stream"
BUSY_STATUS: Final = frozenset({408, 429, 500, 502, 503, 504})
"""Answers that another try may change."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One event as SSE carries it."""

    id: str
    data: str


@dataclass(frozen=True, slots=True)
class Notice:
    """One event as the server told it: ``fields`` are cursor, topic, kind, version and value."""

    cursor: str
    fields: dict[str, object]

    @property
    def kind(self) -> str:
        """What happened."""
        return str(self.fields.get("kind", ""))


def read_frames(chunks: Iterable[bytes]) -> Iterator[Frame]:
    """Read Server-Sent Events (WHATWG HTML, 9.2.6) from pieces of any size."""
    last_id, data = "", []
    for line in _lines(chunks):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "id" and "\0" not in value:
            last_id = value
        elif not line and data:
            yield Frame(last_id, "\n".join(data))
            data = []


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Give whole lines; never those of ``str.splitlines``, which JSON may hold."""
    rest = b""
    for chunk in chunks:
        rest += chunk
        *whole, rest = rest.split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")
        if len(rest) > CLIENT_EVENT_BYTES_MAX:
            raise Error(Code.TOO_LARGE, f"an event of over {CLIENT_EVENT_BYTES_MAX} bytes came")


def topic_path(topic: str) -> str:
    """Return the URL path of a topic, percent-encoded so that each character arrives as it is."""
    levels = [quote(level, safe="", errors="surrogateescape") for level in topic.split("/")]
    return "/" + "/".join(
        re.sub(r"^\.{1,2}$", lambda dots: "%2E" * len(dots[0]), x) for x in levels
    )


def url_path(text: str) -> str:
    """Return the path and query that a person wrote, with or without the slash before it."""
    return "/" + text.removeprefix("/")


def _trust(authority: Path | None) -> ssl.SSLContext:
    """Trust whom this machine trusts (SSL_CERT_FILE may say), and the authority of our own."""
    trust = ssl.create_default_context()
    if authority is not None:
        try:
            trust.load_verify_locations(authority)
        except OSError as error:
            raise Error(
                Code.INVALID, f"tls.certificateAuthority: {authority} cannot be read: {error}"
            ) from error
    return trust


class Client:
    """One server, spoken to over HTTP."""

    def __init__(
        self,
        url: str,
        transport: httpx.BaseTransport | None = None,
        wait: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
        authority: Path | None = None,
    ) -> None:
        self._url = url
        self._wait = wait
        self._chance = chance
        # Through a proxy of the environment only when the server is elsewhere.
        proxies = urlsplit(url).hostname not in {"127.0.0.1", "localhost", "::1"}
        self._http = httpx.Client(
            timeout=CLIENT_ANSWER_SECONDS,
            transport=transport,
            trust_env=proxies,
            verify=_trust(authority) if url.startswith("https:") else True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def request(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """Ask once; raises the server's refusal, or BUSY when nobody answers."""
        try:
            response = self._http.request(
                method, self._url + path, content=body or None, headers=headers
            )
        except httpx.TransportError as error:
            raise self._nobody(error) from error
        _refuse(response)
        return response

    def watch(
        self, filters: Sequence[str], since: str = "", *, new: bool = False
    ) -> Iterator[Notice]:
        """Give the events at these topics for ever, each once, through lost connections.

        ``since`` is the cursor to go on from; with ``new``, what is there already is left out.
        """
        cursor, pause = since, RECONNECT_SECONDS_MIN
        met = False
        while True:
            try:
                for frame in self._stream(filters, cursor, new=new):
                    met, pause = True, RECONNECT_SECONDS_MIN
                    cursor = frame.id or cursor
                    if frame.data:
                        yield _notice(frame)
            except httpx.TransportError as error:
                if not met:
                    raise self._nobody(error) from error
            except Error as error:
                if not met or error.code is not Code.BUSY:
                    raise
            self._wait(pause * (1 + self._chance()))
            pause = min(pause * 2, RECONNECT_SECONDS_MAX)

    def _stream(self, filters: Sequence[str], cursor: str, *, new: bool) -> Iterator[Frame]:
        """Give the events of one connection; an empty one first, once it is accepted."""
        params = [("topic", text) for text in filters]
        if new and not cursor:
            params.append(("start", "new"))
        headers = {"Accept": STREAM} | ({"Last-Event-ID": cursor} if cursor else {})
        timeout = httpx.Timeout(CLIENT_ANSWER_SECONDS, read=CLIENT_SILENCE_SECONDS)
        with self._http.stream(
            "GET", f"{self._url}/", params=tuple(params), headers=headers, timeout=timeout
        ) as response:
            if response.is_error:
                response.read()
            _refuse(response)
            yield Frame("", "")
            yield from read_frames(response.iter_bytes())

    def _nobody(self, error: httpx.TransportError) -> Error:
        parts = urlsplit(self._url)
        shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()  # no password
        return Error(
            Code.BUSY,
            f"no server answers at {shown} ({error}); start one with 'rowcast serve', or name "
            "another with --url",
        )


def cursor_of(response: httpx.Response) -> str:
    """Return the cursor that a response tells in its ETag; empty without one."""
    return str(response.headers.get("ETag", "")).removeprefix("W/").strip('"')


def _notice(frame: Frame) -> Notice:
    fields = CODECS[JSON].decode(frame.data.encode())
    if not isinstance(fields, dict):
        raise Error(Code.INVALID, f"the server sent {frame.data[:80]!r}, which is no event")
    return Notice(frame.id, fields)


def _refuse(response: httpx.Response) -> None:
    """Raise the problem (RFC 9457) that a response carries, if it is one."""
    if not response.is_error:
        return
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    title = problem.get("title") or f"{response.status_code} {response.reason_phrase}"
    detail = problem.get("detail")
    code = Code.BUSY if response.status_code in BUSY_STATUS else Code.INVALID
    raise Error(code, f"{title}: {detail}" if detail else str(title))
