"""Why a WebSocket was not opened, or ended, as a Problem."""

import re
from collections.abc import Mapping
from typing import Final

import httpx
from websockets.exceptions import ConnectionClosed, InvalidStatus

from rowcast.core.errors import Code
from rowcast_client.problem import Problem, check, nobody

PRIVATE_CODES: Final = range(4400, 4600)
"""Close codes of Rowcast: 4000 and the status of HTTP (RFC 6455, 7.4.2)."""
_REGISTERED: Final[Mapping[int, tuple[int, Code]]] = {
    1003: (415, Code.UNSUPPORTED),
    1007: (400, Code.INVALID),
    1008: (403, Code.DENIED),
    1009: (413, Code.TOO_LARGE),
    1011: (500, Code.INTERNAL),
}
"""What other codes mean (RFC 6455, 7.4.1); after any that is not here, another try may succeed."""
_PRIVATE: Final[Mapping[int, Code]] = {
    401: Code.UNAUTHENTICATED,
    403: Code.DENIED,
    404: Code.NOT_FOUND,
    405: Code.NOT_ALLOWED,
    409: Code.CONFLICT,
    410: Code.GONE,
}
_LATER: Final = re.compile(r"come back in (\d{1,6}) ms")


def unopened(url: str, failure: Exception) -> Problem:
    """Return why no connection came about."""
    if not isinstance(failure, InvalidStatus):
        return nobody(url, failure)
    response = failure.response
    head, body = [*response.headers.raw_items()], bytes(response.body or b"")
    answer = httpx.Response(response.status_code, headers=head, content=body)
    try:
        check(answer)
    except Problem as problem:
        return problem
    return Problem(0, {"code": "busy"}, f"{url} answered {response.status_code} to a WebSocket")


def ended(url: str, closed: ConnectionClosed) -> Problem:
    """Return why a connection has ended; its status is 0 where another attempt may succeed."""
    if closed.rcvd is None or closed.rcvd_then_sent is False:  # this side has ended it
        return Problem(0, {"code": "busy"}, f"the connection to {url} was lost ({closed})")
    code, reason = closed.rcvd.code, closed.rcvd.reason
    status, known = _REGISTERED.get(code, (0, Code.BUSY))
    if code in PRIVATE_CODES:
        status = code - 4000
        known = _PRIVATE.get(status, Code.INVALID)
    message = reason or f"the server ended the connection with code {code}"
    return Problem(status, {"code": str(known)}, message)


def seconds_asked(problem: Problem | None) -> float:
    """Return the seconds after which a server that stops wants its clients back; 0 if none."""
    found = _LATER.search(problem.message) if problem else None
    return int(found[1]) / 1000 if found else 0
