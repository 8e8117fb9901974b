"""The entrance: where somebody signs in once and is given a token, a cookie or a ticket.

- ``POST /$SYS/login`` takes ``{"user", "password"}``, or an Authorization header, and gives a token
  (``{"cookie": true}``: also as a cookie that no script can read).
- ``POST /$SYS/logout`` takes the cookie away; ``{"everywhere": true}`` ends all that the user has.
- ``POST /$SYS/tickets/`` gives a ticket for one stream, for who cannot send a header (C27).
- ``GET /$SYS/me`` tells who one is, and what one may do (``?read=``: ``questions``).

These are no topics: they are answered before anything is routed, and never logged.
"""

from dataclasses import asdict
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from rowcast.auth.authenticator import Credentials
from rowcast.codecs import JSON, decode, encode
from rowcast.core.callers import NONE, Caller
from rowcast.core.entry_limits import LOGIN_BODY_BYTES_MAX, LOGIN_BODY_SECONDS_MAX
from rowcast.core.errors import Code, Error
from rowcast.doors.http.login.questions import answered
from rowcast.doors.http.login.signing_in import (
    COOKIE,
    LOGIN,
    SIGNED_IN,
    host_of,
    is_foreign,
    peer_of,
    sign_in,
    told_failed,
)
from rowcast.doors.http.messages.asgi import HeaderList, Headers, Receive, Scope, Send
from rowcast.doors.http.messages.bodies import read_body
from rowcast.doors.http.messages.replies import send_bytes, send_empty
from rowcast.kernel.rows.system_rows import time_text

if TYPE_CHECKING:
    from rowcast.doors.http.edge import Edge

LOGOUT: Final = "/$SYS/logout"
TICKETS: Final = "/$SYS/tickets"
ME: Final = "/$SYS/me"
PATHS: Final = frozenset({LOGIN, LOGOUT, TICKETS, f"{TICKETS}/", ME})
_PRIVATE: Final = (b"cache-control", b"no-store")


async def enter(edge: "Edge", headers: Headers, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request at one of these paths. Raises what is against it."""
    path, method = scope["path"].rstrip("/"), scope["method"]
    allowed = ["GET", "HEAD"] if path == ME else ["POST"]
    if method not in allowed:
        raise Error(Code.NOT_ALLOWED, f"{path} takes {' and '.join(allowed)}", allow=allowed)
    if path == LOGIN:
        await _login(edge, headers, scope, receive, send)
        return
    try:
        await sign_in(edge, headers, scope, "http")
    except Error:
        if path != LOGOUT:  # a cookie that is over is taken away all the same
            raise
    if path == LOGOUT:
        await _logout(edge, headers, scope, receive, send)
    elif path == TICKETS:
        await _ticket(edge, scope, send)
    else:
        caller = edge.caller(scope, "http")
        facts = _facts(caller) | answered(edge, scope, caller)
        await _answer(send, facts, head=method == "HEAD")


async def _login(
    edge: "Edge", headers: Headers, scope: Scope, receive: Receive, send: Send
) -> None:
    asked = await _asked(headers, receive, ("user", "password", "cookie"))
    if "user" in asked or "password" in asked:
        caller = await _with_password(edge, headers, scope, asked)
    else:
        await sign_in(edge, headers, scope, "http")
        caller = edge.caller(scope, "http")
    authenticator = edge.settings.authenticator
    token, until = await authenticator.token(caller, edge.settings.token_seconds)
    extra = []
    if asked.get("cookie"):
        extra.append(_cookie(scope, token, edge.settings.token_seconds))
    facts = {"token": token, "token_type": "Bearer", "expires_at": time_text(until)}
    await _answer(send, facts | _facts(caller), extra)


async def _with_password(
    edge: "Edge", headers: Headers, scope: Scope, asked: dict[str, object]
) -> Caller:
    user, password = asked.get("user"), asked.get("password")
    if not isinstance(user, str) or not isinstance(password, str):
        raise Error(Code.INVALID, 'say {"user": "ann", "password": "..."}')
    peer, secret = peer_of(scope), password.encode(errors="replace")
    foreign, host = is_foreign(edge, headers), host_of(headers)
    shown = Credentials(user, secret, peer=peer, door="http", foreign=foreign, host=host)
    try:
        return await edge.settings.authenticator.identify(shown)
    except Error as error:
        told_failed(edge, Caller(user, NONE, "http", peer=peer), error)
        raise


async def _logout(
    edge: "Edge", headers: Headers, scope: Scope, receive: Receive, send: Send
) -> None:
    asked = await _asked(headers, receive, ("everywhere",))
    caller: Caller | None = scope.get(SIGNED_IN)
    if asked.get("everywhere"):
        if caller is None or edge.settings.revoke is None:
            raise Error(Code.UNAUTHENTICATED, "sign in, to sign out everywhere")
        await edge.settings.revoke(caller)
    await send_empty(send, HTTPStatus.NO_CONTENT, [_cookie(scope, "", 0), _PRIVATE])


async def _ticket(edge: "Edge", scope: Scope, send: Send) -> None:
    caller: Caller | None = scope.get(SIGNED_IN)
    if caller is None or caller.user == "anonymous":
        raise Error(Code.UNAUTHENTICATED, "sign in first; a ticket stands for who asks for it")
    ticket, until = edge.settings.authenticator.tickets.make(caller)
    facts: dict[str, object] = {"ticket": ticket, "expires_at": time_text(until)}
    await _answer(send, facts, status=HTTPStatus.CREATED)


async def _asked(headers: Headers, receive: Receive, names: tuple[str, ...]) -> dict[str, object]:
    """Return the members of a body, which may be empty. Raises INVALID."""
    body = await read_body(headers, receive, LOGIN_BODY_BYTES_MAX, LOGIN_BODY_SECONDS_MAX)
    value = decode(body, JSON) if body else {}
    if not isinstance(value, dict) or not set(value) <= set(names):
        raise Error(Code.INVALID, f"the body should be a JSON map with {', '.join(names)} at most")
    return value


def _facts(caller: Caller) -> dict[str, object]:
    over = None if caller.until == float("inf") else time_text(caller.until)
    return {
        "user": caller.user,
        "roles": sorted(caller.roles),
        "grants": asdict(caller.grants),
        "attributes": dict(caller.claims) if not caller.issuer else {},
        "until": over,
    }


async def _answer(
    send: Send,
    facts: dict[str, object],
    extra: HeaderList | None = None,
    status: int = HTTPStatus.OK,
    *,
    head: bool = False,
) -> None:
    body = encode(facts, JSON)
    await send_bytes(send, status, JSON, body, [*(extra or ()), _PRIVATE], head=head)


def _cookie(scope: Scope, token: str, seconds: float) -> tuple[bytes, bytes]:
    """Return the header that gives, or takes away, the cookie (RFC 6265; SameSite: L14)."""
    secure = "; Secure" if scope.get("scheme") in {"https", "wss"} else ""
    text = f"{COOKIE}={token}; Path=/; Max-Age={int(seconds)}; HttpOnly; SameSite=Strict{secure}"
    return b"set-cookie", text.encode("latin-1")
