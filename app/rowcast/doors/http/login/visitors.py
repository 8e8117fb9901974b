"""Origin checks: requests of browsers' pages are served or refused by their origin first.

Without users, a page of another program on this machine may still read public data, without
credentials: for trying the server out (README). It may not write or open a WebSocket, which could
create the first administrator (P3).
"""

from typing import Final

from rowcast.core.errors import Error
from rowcast.doors.http.door import HttpDoor
from rowcast.doors.http.login.signing_in import is_own_page
from rowcast.doors.http.messages.asgi import Headers, Scope, Send, text_of
from rowcast.doors.http.messages.cors import SAFE, is_neighbour, with_cors

_PREFLIGHT: Final = b"access-control-request-method"
_READING: Final = frozenset({"GET", "HEAD"})


def admit(
    edge: HttpDoor, headers: Headers, scope: Scope, send: Send, *, public: bool
) -> tuple[Send, bool]:
    """Return the ``send`` for the answer, and whether the page's origin is allowed. Raises DENIED.

    ``public`` content is not confidential, and is served to every page.
    """
    try:
        edge.origins.check(headers)
    except Error:
        if is_own_page(edge, headers, scope):
            return send, False
        origin, host = text_of(headers, b"origin") or "", text_of(headers, b"host") or ""
        reading = _reads(headers, scope)
        if reading and is_neighbour(origin) and not edge.settings.authenticator.in_force:
            return with_cors(send, headers[b"origin"], credentials=False), False
        if reading and (public or edge.origins.is_trusted(origin, host)):
            return send, False  # for a same-origin page, ``hosts`` decides
        raise
    return with_cors(send, headers[b"origin"]), True


def _reads(headers: Headers, scope: Scope) -> bool:
    asked = text_of(headers, _PREFLIGHT)
    return scope["method"] in SAFE and (asked is None or asked in _READING)
