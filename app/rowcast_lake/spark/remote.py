"""The HTTP client of one server; uses only the public API.

Requests are retried when the connection is lost or the server is busy, for a bounded time: seconds
for a job, so that a restart of the server fails none, and longer than an outage for a stream. An
object of this class is pickled to Spark's workers, so it has only plain fields; each process opens
its own connection.
"""

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import quote, urlsplit, urlunsplit

from rowcast.codecs import json_text
from rowcast.core.errors import Code, Error
from rowcast.core.pipeline_limits import (
    REMOTE_PATIENCE_SECONDS,
    REMOTE_PAUSE_SECONDS,
    REMOTE_PAUSE_SECONDS_MAX,
)

if TYPE_CHECKING:
    import httpx

AGAIN: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Status codes that are retried."""
NDJSON: Final = "application/x-ndjson"


@dataclass(frozen=True)
class Remote:
    """A server's URL and credentials."""

    url: str
    authorization: str = field(default="", repr=False)
    authority: str = ""
    """File of CA certificates that are trusted besides the system's (PEM); empty for none."""
    patience_seconds: float = REMOTE_PATIENCE_SECONDS
    """How long a request is repeated while nobody answers, without the time of its attempts."""

    @classmethod
    def of(cls, url: str, user: str, password: str, token: str, authority: str) -> "Remote":
        """Return a server; its URL may contain a user and password before the host and ``@``."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise Error(
                Code.INVALID, f"url: {url!r} is no address; write it as http://127.0.0.1:9926"
            )
        user, password = user or parts.username or "", password or parts.password or ""
        host = parts.netloc.rpartition("@")[2]
        plain = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        said = ""
        if token:
            said = f"Bearer {token}"
        elif user:
            said = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
        return cls(plain, said, authority)

    def get(self, path: str) -> object:
        """Return a JSON value."""
        return json.loads(self._tried("GET", path, {"accept": "application/json"}).content)

    def head(self, path: str) -> Mapping[str, str]:
        """Return the headers of a response."""
        return self._tried("HEAD", path, {}).headers

    def part(self, path: str, start: int, end: int) -> bytes:
        """Return the bytes of a file from ``start`` up to ``end``, exclusive."""
        answer = self._tried("GET", path, {"range": f"bytes={start}-{end - 1}"})
        if answer.status_code != HTTPStatus.PARTIAL_CONTENT:
            return answer.content[start:end]
        return answer.content

    def lines(self, path: str) -> Iterator[bytes]:
        """Yield the lines of a response as they arrive.

        The caller handles a lost connection, and a refusal that ``is_passing``.
        """
        headers = {"accept": NDJSON}
        with self._http.stream("GET", self.url + path, headers=headers) as answer:
            if answer.is_error:
                answer.read()
                _refuse(answer)
            yield from _split(answer.iter_bytes())

    def send(
        self,
        method: str,
        path: str,
        value: object,
        *,
        again: bool = True,
        patience_seconds: float | None = None,
        busy_seconds: float | None = None,
    ) -> object:
        """Send a value and return the response's; ``again``: the request is safe to retry.

        ``patience_seconds``: how long it is repeated, if that is longer than usual;
        ``busy_seconds``: while the server answers that it is busy, if that is longer than while
        nobody answers.
        """
        body = b"" if value is None else json_text.encode(value)
        headers = {"content-type": "application/json", "accept": "application/json"}
        usual = self.patience_seconds if patience_seconds is None else patience_seconds
        patience = usual if again else 0
        pauses = Pauses(patience), Pauses(patience if busy_seconds is None else busy_seconds)
        answer = self._tried(method, path, headers, body, pauses)
        return json.loads(answer.content) if answer.content else None

    def _tried(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        pauses: "tuple[Pauses, Pauses] | None" = None,
    ) -> "httpx.Response":
        """Return an answer; ``pauses``: while nobody answers, and while the server is busy."""
        from httpx import TransportError  # noqa: PLC0415 - see ``_http``

        one = Pauses(self.patience_seconds)
        unanswered, busy = pauses or (one, one)
        while True:
            try:
                answer = self._http.request(
                    method, self.url + path, headers=dict(headers), content=body
                )
            except TransportError as error:
                if not unanswered.wait():
                    raise self.nobody(error) from error
            else:
                if answer.status_code not in AGAIN or not busy.wait():
                    _refuse(answer)
                    return answer
                if busy is not unanswered:
                    unanswered.begin()

    def nobody(self, error: Exception) -> Error:
        """Return the Error for a server that does not respond."""
        return Error(
            Code.BUSY,
            f"{self.url} does not answer ({error}); is the server running, and this its address?",
        )

    @property
    def _http(self) -> "httpx.Client":
        """The connections; most of Spark's workers read files, and import no client."""
        from rowcast_lake.spark.remote_client import client_of  # noqa: PLC0415

        return client_of(self.url, self.authorization, self.authority)


class Pauses:
    """The pauses between attempts of one request: each twice as long, up to a bound in all."""

    def __init__(
        self, patience_seconds: float, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._patience_seconds = patience_seconds
        self._sleep = sleep
        self.begin()

    def begin(self) -> None:
        """Begin anew, after an answer."""
        self._next = REMOTE_PAUSE_SECONDS
        self._left = self._patience_seconds

    def wait(self) -> bool:
        """Wait before the next attempt; False: there is to be none."""
        if self._left < self._next:
            return False
        self._left -= self._next
        self._sleep(self._next)
        self._next = min(2 * self._next, REMOTE_PAUSE_SECONDS_MAX)
        return True


def _split(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield complete lines from chunks of any size."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line for line in whole if line)
    if rest:
        yield rest


def _refuse(answer: "httpx.Response") -> None:
    """Raise the server's error, with its message."""
    if not answer.is_error:
        return
    code, words = _problem(answer)
    path = answer.request.url.path
    raise Error(code, f"{answer.request.method} {path}: {words}", status=answer.status_code)


def is_passing(error: Error) -> bool:
    """Whether a refusal may be gone when the request is repeated."""
    return error.detail.get("status") in AGAIN


def _problem(answer: "httpx.Response") -> tuple[Code, str]:
    try:
        problem = cast("dict[str, object]", json.loads(answer.content))
        return Code(str(problem.get("code"))), str(problem.get("detail"))
    except (ValueError, AttributeError):
        status = answer.status_code
        code = Code.GONE if status == HTTPStatus.GONE else Code.INTERNAL
        return code, f"{status} {answer.reason_phrase}"


def path_of(*levels: str) -> str:
    """Return the URL path of levels of a topic, or of files; ``$`` is not escaped."""
    return "/" + "/".join(quote(level, safe="$=") for text in levels for level in text.split("/"))
