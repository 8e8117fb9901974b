"""Login routes: exchange credentials for a token, a cookie or a ticket.

They are dispatched before topics, and are never logged. FastAPI dispatches and documents them from
``models``; bodies and problems are handled as everywhere in this package.
"""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ValidationError

from rowcast.auth.authenticator import Credentials
from rowcast.codecs import JSON, decode
from rowcast.core.authentication_limits import (
    LOGIN_BODY_BYTES_MAX,
    LOGIN_BODY_SECONDS_MAX,
    QUESTIONS_MAX,
)
from rowcast.core.callers import NONE, Caller
from rowcast.core.errors import Code, Error
from rowcast.doors.http.door import HttpDoor
from rowcast.doors.http.login.models import (
    CallerFacts,
    LoginRequest,
    LogoutRequest,
    Me,
    SignedIn,
    Ticket,
)
from rowcast.doors.http.login.questions import administered, readable
from rowcast.doors.http.login.signing_in import (
    COOKIE,
    LOGIN,
    LOGOUT,
    ME,
    TICKETS,
    host_of,
    is_foreign,
    sign_in,
    told_failed,
)
from rowcast.doors.http.messages.asgi import SIGNED_IN, Headers, Scope, headers_of, peer_of
from rowcast.doors.http.messages.bodies import read_body
from rowcast.doors.http.messages.responses import PROBLEM, Answer, edge_of
from rowcast.routes.system_rows import time_text

M = TypeVar("M", bound=BaseModel)

router = APIRouter(tags=["Signing in"], responses={"default": PROBLEM})
EdgeOf = Annotated[HttpDoor, Depends(edge_of)]


# -- dependencies ----------------------------------------------------------------------------------


async def signed_in(request: Request, edge: EdgeOf) -> Caller | None:
    """Authenticate the caller; None without credentials. Raises UNAUTHENTICATED, DENIED, BUSY."""
    await sign_in(edge, headers_of(request.scope), request.scope, "http")
    caller: Caller | None = request.scope.get(SIGNED_IN)
    return caller


async def signed_in_or_over(request: Request, edge: EdgeOf) -> Caller | None:
    """Authenticate the caller if possible: an expired cookie is removed all the same."""
    with contextlib.suppress(Error):
        return await signed_in(request, edge)
    return None


def body_of(model: type[M]) -> Callable[[Request], Awaitable[M]]:
    """Return the dependency that reads a body of JSON, which may be empty, into a model."""

    async def read(request: Request) -> M:
        headers, receive = headers_of(request.scope), request.receive
        body = await read_body(headers, receive, LOGIN_BODY_BYTES_MAX, LOGIN_BODY_SECONDS_MAX)
        value = decode(body, JSON) if body else {}
        names = list(model.model_fields)
        if not isinstance(value, dict) or not set(value) <= set(names):
            raise Error(
                Code.INVALID, f"the body should be a JSON map with {', '.join(names)} at most"
            )
        try:
            return model.model_validate(value)
        except ValidationError:  # of names and passwords: flags accept any true value
            raise Error(Code.INVALID, _SAY) from None

    return read


def takes(model: type[BaseModel]) -> dict[str, object]:
    """Describe the body that ``body_of`` reads."""
    content = {JSON: {"schema": model.model_json_schema()}}
    return {"requestBody": {"required": False, "content": content}}


_SAY: Final = 'say {"user": "ann", "password": "..."}'
CallerOf = Annotated[Caller | None, Depends(signed_in)]


def _topics(text: str) -> Any:
    """Describe the topics or filters that somebody asks about."""
    most = {"maxItems": QUESTIONS_MAX}
    return Query(description=f"Topics or filters: {text}", json_schema_extra=most)


ToRead = Annotated[list[str], _topics("whether each may be read, told in `reads`.")]
ToAdminister = Annotated[
    list[str], _topics("whether each may be administered, told in `administers`.")
]


# -- the routes ------------------------------------------------------------------------------------


@router.post(
    LOGIN,
    operation_id="login",
    response_model=SignedIn,
    response_description="Signed in.",
    openapi_extra=takes(LoginRequest),
)
async def login(
    request: Request,
    edge: EdgeOf,
    asked: Annotated[LoginRequest, Depends(body_of(LoginRequest))],
) -> Answer:
    """Give a token, and a cookie if it is asked for."""
    if {"user", "password"} & asked.model_fields_set:
        caller = await _with_password(edge, headers_of(request.scope), request.scope, asked)
    else:
        await signed_in(request, edge)
        caller = edge.caller(request.scope, "http")
    seconds = edge.settings.token_seconds
    token, until = await edge.settings.authenticator.token(caller, seconds)
    extra = [_cookie(request.scope, token, seconds)] if asked.cookie else []
    given = SignedIn(
        token=token,
        token_type="Bearer",  # noqa: S106 - the scheme's name (RFC 6750)
        expires_at=time_text(until),
        **_facts(caller).model_dump(),
    )
    return Answer.of(given, extra=extra)


@router.post(
    LOGOUT,
    operation_id="logout",
    status_code=HTTPStatus.NO_CONTENT,
    response_description="Signed out.",
    openapi_extra=takes(LogoutRequest),
)
async def logout(
    request: Request,
    edge: EdgeOf,
    caller: Annotated[Caller | None, Depends(signed_in_or_over)],
    asked: Annotated[LogoutRequest, Depends(body_of(LogoutRequest))],
) -> Answer:
    """Take the cookie away, or end all that the user has signed in with."""
    if asked.everywhere:
        if caller is None or edge.settings.revoke is None:
            raise Error(Code.UNAUTHENTICATED, "sign in, to sign out everywhere")
        await edge.settings.revoke(caller)
    return Answer.empty([_cookie(request.scope, "", 0)])


@router.post(TICKETS, include_in_schema=False)
@router.post(
    f"{TICKETS}/",
    operation_id="ticket",
    status_code=HTTPStatus.CREATED,
    response_model=Ticket,
    response_description="A ticket.",
)
async def ticket(edge: EdgeOf, caller: CallerOf) -> Answer:
    """Give a ticket that opens one stream, to those who cannot send a header (C27)."""
    if caller is None or caller.user == "anonymous":
        raise Error(Code.UNAUTHENTICATED, "sign in first; a ticket stands for who asks for it")
    text, until = edge.settings.authenticator.tickets.make(caller)
    return Answer.of(Ticket(ticket=text, expires_at=time_text(until)), HTTPStatus.CREATED)


@router.head(ME, include_in_schema=False)
@router.get(ME, operation_id="me", response_model=Me, response_description="The caller.")
async def me(
    request: Request,
    edge: EdgeOf,
    _caller: CallerOf,
    read: ToRead = [],  # noqa: B006 - FastAPI copies it
    administer: ToAdminister = [],  # noqa: B006 - FastAPI copies it
) -> Answer:
    """Tell who one is, and what one may do."""
    caller = edge.caller(request.scope, "http")
    answer = Me(**_facts(caller).model_dump())
    if read:
        answer.reads = readable(edge, caller, read)
    if administer:
        answer.administers = administered(edge, caller, administer)
    return Answer.of(answer)


# -- parts -----------------------------------------------------------------------------------------


async def _with_password(
    edge: HttpDoor, headers: Headers, scope: Scope, asked: LoginRequest
) -> Caller:
    if not {"user", "password"} <= asked.model_fields_set:
        raise Error(Code.INVALID, _SAY)
    peer, secret = peer_of(scope), asked.password.encode(errors="replace")
    foreign, host = is_foreign(edge, headers), host_of(headers)
    shown = Credentials(asked.user, secret, peer=peer, door="http", foreign=foreign, host=host)
    try:
        return await edge.settings.authenticator.identify(shown)
    except Error as error:
        told_failed(edge, Caller(asked.user, NONE, "http", peer=peer), error)
        raise


def _facts(caller: Caller) -> CallerFacts:
    return CallerFacts(
        user=caller.user,
        roles=sorted(caller.roles),
        grants=asdict(caller.grants),
        attributes=dict(caller.claims) if not caller.issuer else {},
        until=None if caller.until == float("inf") else time_text(caller.until),
    )


def _cookie(scope: Scope, token: str, seconds: float) -> tuple[bytes, bytes]:
    """Return the header that sets or removes the cookie (RFC 6265; SameSite: L14)."""
    secure = "; Secure" if scope.get("scheme") in {"https", "wss"} else ""
    text = f"{COOKIE}={token}; Path=/; Max-Age={int(seconds)}; HttpOnly; SameSite=Strict{secure}"
    return b"set-cookie", text.encode("latin-1")
