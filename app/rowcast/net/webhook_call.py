"""One call of a webhook; blocks, so it runs on a thread of its own.

The URL is from the server's configuration alone. Still the call must not become a way to what only
this host reaches: redirects are not followed, no proxy of the environment is used, the answer is
neither used nor shown but for its status, and addresses at which clouds hand out credentials
(link-local ones) are refused. The address is checked that is connected to, so that a name which
resolves differently the second time gains nothing. Each step has a bound, and so has the call.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import (
    HTTP_PORT,
    HTTPS_PORT,
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
)
from ipaddress import ip_address
from threading import Event, Thread, Timer
from typing import Final
from urllib.parse import SplitResult, urlsplit

from rowcast.core.webhook_limits import (
    WEBHOOK_ANSWER_BYTES_MAX,
    WEBHOOK_CALL_SECONDS_MAX,
    WEBHOOK_TIMEOUT_SECONDS,
)

USER_AGENT: Final = "rowcast"
_OK: Final = range(200, 300)


class CallError(Exception):
    """The call failed; the text says why, without the URL, which may contain a secret."""


def call(
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    timeout_seconds: float = WEBHOOK_TIMEOUT_SECONDS,
    whole_seconds: float = WEBHOOK_CALL_SECONDS_MAX,
) -> None:
    """Post a body as JSON; raises CallError unless the answer is a success.

    ``timeout_seconds`` bounds each step, ``whole_seconds`` all of them from the connection on.
    """
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    sent = {"content-type": "application/json", "user-agent": USER_AGENT, **headers}
    connection = _connection(parts, timeout_seconds)
    try:
        connection.connect()
        with _cut_after(whole_seconds, connection.sock):
            connection.request("POST", path, body, sent)
            response: HTTPResponse = connection.getresponse()
            response.read(WEBHOOK_ANSWER_BYTES_MAX)
            status = response.status
    except HTTPException as error:  # its text may be a part of the URL, or of the answer
        raise CallError(type(error).__name__) from None
    except (OSError, UnicodeError) as error:
        raise CallError(f"{type(error).__name__}: {error}"[:200]) from None
    finally:
        connection.close()
    if status not in _OK:
        raise CallError(f"it answered {status}")


def _connection(parts: SplitResult, timeout_seconds: float) -> HTTPConnection:
    secure = parts.scheme == "https"
    port = parts.port or (HTTPS_PORT if secure else HTTP_PORT)
    kind = HTTPSConnection if secure else HTTPConnection
    connection = kind(parts.hostname or "", port, timeout=timeout_seconds)
    connection._create_connection = _connect  # type: ignore[attr-defined]
    return connection


@contextmanager
def _cut_after(seconds: float, connected: socket.socket) -> Iterator[None]:
    """Bound what is done with a socket: a byte now and then would never exceed its own timeout."""
    over = Event()

    def cut() -> None:
        over.set()
        with suppress(OSError):
            socket.socket.shutdown(connected, socket.SHUT_RDWR)  # of TLS, the connection below

    timer = Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception:
        if over.is_set():
            raise CallError(f"it took longer than {seconds:g} s") from None
        raise
    finally:
        timer.cancel()
    if over.is_set():
        raise CallError(f"it took longer than {seconds:g} s")


async def in_thread(work: Callable[[], None]) -> None:
    """Do blocking work on a thread that does not hold up the end of the program."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def settle(error: Exception | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def run() -> None:
        failure: Exception | None = None
        try:
            work()
        except CallError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - whatever it is, the call failed
            failure = CallError(type(error).__name__)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, failure)

    Thread(target=run, name="webhook", daemon=True).start()
    await future


def _connect(
    address: tuple[str, int], timeout: float, source_address: tuple[str, int] | None = None
) -> socket.socket:
    """Connect to the first address of a host that is allowed and answers."""
    host, port = address
    failure: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, place in socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM):
        number = ip_address(str(place[0]).partition("%")[0])
        mapped = getattr(number, "ipv4_mapped", None) or number
        if mapped.is_link_local or mapped.is_multicast or mapped.is_unspecified:
            failure = OSError(f"{host} leads to the address {number}, which is not called")
            continue
        connected = socket.socket(family, kind, protocol)
        try:
            connected.settimeout(timeout)
            if source_address:
                connected.bind(source_address)
            connected.connect(place)
        except OSError as error:
            connected.close()
            failure = error
            continue
        return connected
    raise failure
