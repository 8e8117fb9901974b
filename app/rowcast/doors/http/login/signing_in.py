"""Signing in over HTTP: what a request shows as credentials, once for each request or connection.

The Authorization header (Basic, RFC 7617; Bearer, RFC 6750) counts before all else. A browser's
page, which can set no header where it opens a stream, shows a one-use ticket in the URL, or the
cookie that ``POST /$SYS/login`` gave it (C27, L14). Only a request that has one of these
is looked at; who is nobody in particular costs nothing here.

Only passwords can be guessed, so only they are counted (``auth.tries``), and what a page of another
site makes a browser send is counted apart: it slows nobody else down (P3).
"""

import binascii
from base64 import b64decode
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_plus

from rowcast.auth.authenticator import Credentials
from rowcast.core.callers import NONE, Caller
from rowcast.core.errors import Code, Error
from rowcast.doors.http.messages.asgi import Headers, Scope
from rowcast.doors.http.messages.cors import SAFE
from rowcast.doors.http.messages.problems import FACES

if TYPE_CHECKING:
    from rowcast.doors.http.edge import Edge

SIGNED_IN: Final = "rowcast.caller"
"""Where the scope holds the caller who signed in."""
COOKIE: Final = "rowcast"
LOGIN: Final = "/$SYS/login"
"""Where somebody signs in who has nothing to show yet."""
LOGOUT: Final = "/$SYS/logout"
TICKETS: Final = "/$SYS/tickets"
ME: Final = "/$SYS/me"
PATHS: Final = frozenset({LOGIN, LOGOUT, TICKETS, f"{TICKETS}/", ME})
"""Paths of signing in (``routes``): no topics, so they are answered before anything is routed."""
_TICKET: Final = b"ticket="
_STREAMS: Final = frozenset({"ws", "sse"})


def shows_something(headers: Headers, scope: Scope) -> bool:
    """Tell whether a request has anything that could say who it is."""
    shown = b"authorization" in headers or b"cookie" in headers
    return shown or _TICKET in scope["query_string"]


def is_nobody(scope: Scope) -> bool:
    """Tell whether a request has shown nothing that makes it anybody's."""
    caller: Caller | None = scope.get(SIGNED_IN)
    return caller is None or caller.user == "anonymous"


async def sign_in(edge: "Edge", headers: Headers, scope: Scope, door: str) -> None:
    """Note in the scope who it is, if it says so. Raises UNAUTHENTICATED, DENIED, BUSY."""
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
            scope[SIGNED_IN] = edge.kernel.access.current(caller)
        elif (token := cookie_of(headers)) is not None:
            check_origin(edge, headers, scope)
            shown = Credentials(peer=peer, door=door, token=token)
            scope[SIGNED_IN] = await edge.settings.authenticator.identify(shown)
    except Error as error:
        told_failed(edge, Caller(name or "anonymous", NONE, door, peer=peer), error)
        raise


def told_failed(edge: "Edge", nobody: Caller, error: Error) -> None:
    """Tell listeners that somebody could not prove who it is (L9)."""
    edge.kernel.hooks.auth_failed(nobody, error.message)
    status = FACES[error.code].status
    edge.kernel.listeners.tell("refused", nobody, reason=error.message, code=status)


def peer_of(scope: Scope) -> str:
    """Return the address that a request comes from."""
    client = scope.get("client")
    return client[0] if client else ""


def host_of(headers: Headers) -> str:
    """Return the name that a request asks for.

    A page whose name somebody points here is to the browser one of this server's own; all that
    tells it from such is that name, so it has tries of its own (``auth.tries``).
    """
    return headers.get(b"host", b"").decode("latin-1").lower()


def is_foreign(edge: "Edge", headers: Headers) -> bool:
    """Tell whether a page of another site has made a browser send this.

    A browser says so with Sec-Fetch-Site where it trusts the way to the server, and with Origin for
    all but plain GETs, to which no page can add an Authorization header.
    """
    origin = headers.get(b"origin", b"").decode("latin-1")
    if origin:
        return not edge.origins.is_trusted(origin, headers.get(b"host", b"").decode("latin-1"))
    return headers.get(b"sec-fetch-site", b"none") not in {b"none", b"same-origin"}


def credentials(header: bytes, peer: str, door: str) -> tuple[str, Credentials]:
    """Return who an Authorization header says it is, and what it shows."""
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


def check_origin(edge: "Edge", headers: Headers, scope: Scope) -> None:
    """Raise DENIED for what a foreign page could have made a browser send with its cookie.

    Whatever changes something, and every WebSocket, has to come with the Origin of a page that may
    call: this server's own, or a configured one (L14).
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


def is_own_page(edge: "Edge", headers: Headers, scope: Scope) -> bool:
    """Tell whether a request is of this server's own page, at whatever name it was opened.

    A name that somebody else points here is told apart by what signs in: the browser sends it to
    no other name. Without that, only addresses and configured origins are believed (``cors``).
    """
    origin = headers.get(b"origin", b"").decode("latin-1")
    if not edge.settings.authenticator.in_force:  # then whoever shows anything is nobody
        return False
    shown = b"authorization" in headers or cookie_of(headers) is not None
    signs_in = shown or (scope["path"] == LOGIN if scope["type"] == "http" else _has_ticket(scope))
    return signs_in and edge.origins.is_trusted(origin, headers.get(b"host", b"").decode("latin-1"))


def _has_ticket(scope: Scope) -> bool:
    """Tell whether there is a ticket that signing in will take, and not only such letters."""
    return any(part.startswith(_TICKET) for part in scope["query_string"].split(b"&"))


def _ticket_of(scope: Scope) -> str | None:
    """Take the ticket out of a URL, so that nothing behind this sees or keeps it."""
    parts = scope["query_string"].split(b"&")
    found = [part for part in parts if part.startswith(_TICKET)]
    if not found:
        return None
    scope["query_string"] = b"&".join(part for part in parts if part not in found)
    return unquote_plus(found[0].removeprefix(_TICKET).decode("latin-1"))
