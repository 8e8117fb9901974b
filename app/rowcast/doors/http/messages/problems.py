"""Errors in HTTP and WebSocket: the table of codes, and problem details (RFC 9457).

All of HTTP maps Errors here and nowhere else, so a code always has the same status (B16). Other
exceptions are bugs: they are logged with an incident id, and the client only gets the id.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Final
from uuid import uuid4

from rowcast.codecs import CBOR, JSON, MSGPACK, encode, negotiate
from rowcast.core.errors import Code, Error
from rowcast.doors.http.messages.asgi import HeaderList

log = logging.getLogger("rowcast.doors.http")


@dataclass(frozen=True, slots=True)
class ErrorStatus:
    """The HTTP status, WebSocket close code and title of a code."""

    status: int
    close: int
    title: str


STATUSES: Final[Mapping[Code, ErrorStatus]] = MappingProxyType(
    {
        Code.INVALID: ErrorStatus(400, 1007, "Malformed"),
        Code.UNPROCESSABLE: ErrorStatus(422, 1007, "Wrong values"),
        Code.UNAUTHENTICATED: ErrorStatus(401, 4401, "Not signed in"),
        Code.DENIED: ErrorStatus(403, 4403, "Not permitted"),
        Code.NOT_FOUND: ErrorStatus(404, 4404, "Not found"),
        Code.NOT_ALLOWED: ErrorStatus(405, 4405, "Not offered here"),
        Code.CONFLICT: ErrorStatus(409, 4409, "Conflict"),
        Code.PRECONDITION: ErrorStatus(412, 4412, "Condition does not hold"),
        Code.GONE: ErrorStatus(410, 4410, "No longer kept"),
        Code.TOO_LARGE: ErrorStatus(413, 1009, "Too large"),
        Code.UNSUPPORTED: ErrorStatus(415, 1003, "Media type not understood"),
        Code.NOT_ACCEPTABLE: ErrorStatus(406, 1003, "No acceptable media type"),
        Code.BUSY: ErrorStatus(503, 1013, "Busy"),
        Code.INTERNAL: ErrorStatus(500, 1011, "Internal error"),
    }
)
"""For each code: HTTP status, WebSocket close code and title; those of MQTT are in
``doors/mqtt/packets/error_reasons.py``. Private close codes are 4000 plus the status (RFC 6455,
7.4.2)."""

_TYPES: Final = MappingProxyType(
    {
        JSON: "application/problem+json",
        CBOR: "application/problem+cbor",
        MSGPACK: "application/problem+msgpack",
    }
)
_RETRY_AFTER_SECONDS: Final = 1
QUIET_CHALLENGE: Final = (b"www-authenticate", b'Bearer realm="Rowcast"')
"""The challenge for requests of scripts, for which browsers show no login dialog."""
CHALLENGE: Final = (b"www-authenticate", b'Basic realm="Rowcast", charset="UTF-8"')
"""The challenge of a 401 (RFC 9110, 11.6.1; RFC 7617)."""


def as_error(failure: BaseException, what: str) -> Error:
    """Return the failure if it is an Error; else log it, and return one that hides its text."""
    if isinstance(failure, Error):
        return failure
    incident = uuid4().hex[:8]
    log.error("incident %s: %s failed", incident, what, exc_info=failure)
    return Error(
        Code.INTERNAL,
        f"the server failed; its log says why at incident {incident}",
        incident=incident,
    )


def usual_status(error: Error) -> int:
    """Return the HTTP status of an error's code."""
    return STATUSES[error.code].status


def status_of(error: Error) -> int:
    """Return the HTTP status of an error.

    429 for an exceeded rate of the caller, 421 for a host that is not served, 408 for a body that
    does not arrive.
    """
    if error.code is Code.INVALID and error.detail.get("slow"):
        return HTTPStatus.REQUEST_TIMEOUT
    if error.code is Code.DENIED and error.detail.get("misdirected"):
        return HTTPStatus.MISDIRECTED_REQUEST
    if error.code is Code.BUSY and error.detail.get("rate"):
        return HTTPStatus.TOO_MANY_REQUESTS
    return usual_status(error)


def problem(
    error: Error, instance: str, cursor_of: Callable[[int], str] | None = None
) -> dict[str, object]:
    """Return the problem details of an error: the members of RFC 9457, the code, and its facts.

    With ``cursor_of``, the position of a conflicting record is converted to its cursor.
    """
    facts = {name: _plain(value) for name, value in error.detail.items()}
    seq = error.detail.get("seq")
    if cursor_of is not None and isinstance(seq, int):
        facts["cursor"] = cursor_of(seq)
        del facts["seq"]
    return facts | {
        "type": f"urn:rowcast:error:{error.code}",
        "title": STATUSES[error.code].title,
        "status": int(status_of(error)),
        "detail": error.message,
        "instance": instance,
        "code": str(error.code),
    }


def _plain(value: object) -> object:
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    return value if type(value) in {str, int, float, bool, type(None)} else str(value)


def problem_body(details: dict[str, object], accept: str | None) -> tuple[str, bytes]:
    """Return the content type and the bytes of problem details; JSON when no format is accepted."""
    try:
        media_type = negotiate(accept, (JSON, CBOR, MSGPACK))
    except Error:
        media_type = JSON
    return _TYPES[media_type], encode(details, media_type)


def problem_headers(
    error: Error, cursor_of: Callable[[int], str], *, quiet: bool = False
) -> HeaderList:
    """Return the headers of an error: Allow, Retry-After, a challenge, the ETag."""
    detail, headers = error.detail, []
    allow, seq = detail.get("allow"), detail.get("seq")
    if isinstance(allow, list):
        headers.append((b"allow", ", ".join(map(str, allow)).encode("latin-1")))
    if error.code is Code.UNAUTHENTICATED:
        headers.append(QUIET_CHALLENGE if quiet else CHALLENGE)
    if error.code is Code.BUSY or "retry_after_seconds" in detail:
        seconds = detail.get("retry_after_seconds", _RETRY_AFTER_SECONDS)
        headers.append((b"retry-after", str(seconds).encode("latin-1")))
    if error.code is Code.PRECONDITION and isinstance(seq, int):
        headers.append((b"etag", f'"{cursor_of(seq)}"'.encode()))
    return headers
