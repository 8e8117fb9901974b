"""Authentication over HTTP: the credentials of a request, checked once per request or connection.

The Authorization header (Basic, RFC 7617; Bearer, RFC 6750) has precedence. A browser's page, which
cannot set headers on a stream, sends a one-time ticket in the URL, or the cookie of ``POST
/$SYS/login`` (C27, L14). Anonymous requests have no cost here.

Only passwords can be guessed, so only failures of passwords are counted (``auth.tries``); those of
cross-site requests are counted separately, so that they slow down nobody else (P3).
"""

import binascii
from base64 import b64decode
from dataclasses import replace
from typing import Final
from urllib.parse import unquote_plus

from rowcast.auth.authenticator import Credentials
from rowcast.core.callers import NONE, Caller
from rowcast.core.errors import Code, Error
from rowcast.doors.http.door import HttpDoor
from rowcast.doors.http.messages.asgi import SIGNED_IN, Headers, Scope, peer_of
from rowcast.doors.http.messages.cors import SAFE
from rowcast.doors.http.messages.problems import usual_status

COOKIE: Final = "rowcast"
LOGIN: Final = "/$SYS/login"
"""The path of login."""
LOGOUT: Final = "/$SYS/logout"
TICKETS: Final = "/$SYS/tickets"
ME: Final = "/$SYS/me"
PATHS: Final = frozenset({LOGIN, LOGOUT, TICKETS, f"{TICKETS}/", ME})
"""Paths of login (``routes``): no topics, so they are dispatched first."""
SHOWN: Final = frozenset({b"authorization", b"cookie"})
"""Headers with credentials."""
TICKET: Final = b"ticket="
"""The parameter of a URL with a ticket."""
_STREAMS: Final = frozenset({"ws", "sse"})


def is_nobody(scope: Scope) -> bool:
    """Whether a request is anonymous."""
    caller: Caller | None = scope.get(SIGNED_IN)
    return caller is None or caller.user == "anonymous"


async def sign_in(edge: HttpDoor, headers: Headers, scope: Scope, door: str) -> None:
    """Authenticate a request, setting its caller. Raises UNAUTHENTICATED, DENIED, BUSY."""
    peer = peer_of(scope)
    ticket = _ticket_of(scope) if door in _STREAMS else None
    name = ""
    try:
        if b"authorization" in headers:
            name, shown = credentials(headers[b"authorization"], peer, door)
            shown = replace(shown, foreign=is_foreign(edge, headers), host=host_of(headers))
            scope[SIGNED_IN] = await edge.settings.authenticator.identify(shown)
        elif ticket is not None:
            caller = edge.settings.authenticator.tickets.take(ticket, peer, door)
            scope[SIGNED_IN] = edge.kernel.reauthorization.current(caller)
        elif (token := cookie_of(headers)) is not None:
            check_origin(edge, headers, scope)
            shown = Credentials(peer=peer, door=door, token=token)
            scope[SIGNED_IN] = await edge.settings.authenticator.identify(shown)
    except Error as error:
        told_failed(edge, Caller(name or "anonymous", NONE, door, peer=peer), error)
        raise


def told_failed(edge: HttpDoor, nobody: Caller, error: Error) -> None:
    """Notify listeners of a failed authentication (L9)."""
    edge.kernel.hooks.auth_failed(nobody, error.message)
    status = usual_status(error)
    edge.kernel.listeners.notify("refused", nobody, reason=error.message, code=status)


def host_of(headers: Headers) -> str:
    """Return the host name of a request.

    In DNS rebinding the browser takes a foreign page for one of this server; only its host name
    differs, so tries are counted per host name (``auth.tries``).
    """
    return headers.get(b"host", b"").decode("latin-1").lower()


def is_foreign(edge: HttpDoor, headers: Headers) -> bool:
    """Whether a page of another site caused a request.

    Browsers send Sec-Fetch-Site over trustworthy connections, and Origin for all but plain GETs, to
    which no page can add an Authorization header.
    """
    origin = headers.get(b"origin", b"").decode("latin-1")
    if origin:
        return not edge.origins.is_trusted(origin, headers.get(b"host", b"").decode("latin-1"))
    return headers.get(b"sec-fetch-site", b"none") not in {b"none", b"same-origin"}


def credentials(header: bytes, peer: str, door: str) -> tuple[str, Credentials]:
    """Return the user name and the credentials of an Authorization header."""
    scheme, _, value = header.partition(b" ")
    if scheme.lower() == b"bearer":
        return "", Credentials(peer=peer, door=door, token=value.strip())
    name, password = basic(header)
    return name, Credentials(name, password, peer=peer, door=door)


def basic(header: bytes) -> tuple[str, bytes]:
    """Return the name and password of ``Basic <base64>``. Raises UNAUTHENTICATED."""
    scheme, _, value = header.partition(b" ")
    if scheme.lower() != b"basic":
        raise Error(
            Code.UNAUTHENTICATED, "sign in with Authorization: Basic or Bearer; no other is offered"
        )
    try:
        name, colon, password = b64decode(value.strip(), validate=True).partition(b":")
        if colon:
            return name.decode(), password
    except (UnicodeDecodeError, binascii.Error):
        pass
    raise Error(
        Code.UNAUTHENTICATED, "Authorization: Basic is followed by base64 of 'name:password', UTF-8"
    )


def cookie_of(headers: Headers) -> bytes | None:
    """Return the token in this server's cookie; None when the request has none."""
    wanted = f"{COOKIE}=".encode()
    for part in headers.get(b"cookie", b"").replace(b",", b";").split(b";"):
        if part.strip().startswith(wanted):
            return part.strip().removeprefix(wanted) or None
    return None


def check_origin(edge: HttpDoor, headers: Headers, scope: Scope) -> None:
    """Raise DENIED for possible cross-site request forgery with the cookie.

    Unsafe methods and every WebSocket need the Origin of an allowed page: this server's own, or a
    configured one (L14).
    """
    if scope["type"] == "http" and scope["method"] in SAFE:
        return
    origin = headers.get(b"origin", b"").decode("latin-1")
    host = headers.get(b"host", b"").decode("latin-1")
    if not edge.origins.is_trusted(origin, host):
        raise Error(
            Code.DENIED,
            "a request with a cookie must come from a page of this server, or of an origin in "
            "http.cors, and say so with Origin; other programs sign in with Authorization",
        )


def is_own_page(edge: HttpDoor, headers: Headers, scope: Scope) -> bool:
    """Whether a request is from this server's own page, under any host name.

    A rebound host name has no credentials, because the browser sends them to no other name. Without
    credentials, only addresses and configured origins are trusted (``cors``).
    """
    origin = headers.get(b"origin", b"").decode("latin-1")
    if not edge.settings.authenticator.in_force:  # then credentials are ignored
        return False
    shown = b"authorization" in headers or cookie_of(headers) is not None
    signs_in = shown or (scope["path"] == LOGIN if scope["type"] == "http" else _has_ticket(scope))
    return signs_in and edge.origins.is_trusted(origin, headers.get(b"host", b"").decode("latin-1"))


def _has_ticket(scope: Scope) -> bool:
    """Whether the URL has a ticket as a parameter, and not only as part of other text."""
    return any(part.startswith(TICKET) for part in scope["query_string"].split(b"&"))


def _ticket_of(scope: Scope) -> str | None:
    """Remove the ticket from a URL, so that later code neither sees nor logs it."""
    parts = scope["query_string"].split(b"&")
    found = [part for part in parts if part.startswith(TICKET)]
    if not found:
        return None
    scope["query_string"] = b"&".join(part for part in parts if part not in found)
    return unquote_plus(found[0].removeprefix(TICKET).decode("latin-1"))
