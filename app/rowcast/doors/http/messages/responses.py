"""Responses of FastAPI routes, with the same bytes and headers as all others of HTTP."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

from fastapi import Request, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from rowcast.codecs import JSON, encode
from rowcast.core.errors import Code, Error
from rowcast.doors.http.door import HttpDoor
from rowcast.doors.http.messages.asgi import HeaderList, Receive, Scope, Send, headers_of
from rowcast.doors.http.messages.replies import VARY, send_bytes, send_empty, send_problem

EDGE: Final = "rowcast.edge"
"""The key of the edge in the scope."""
PROBLEM: Final = {"$ref": "#/components/responses/Problem"}
"""The error response in a route's documentation."""
_PRIVATE: Final = (b"cache-control", b"no-store")


def edge_of(request: Request) -> Any:
    """Return the edge of a request: a dependency of routes."""
    return request.scope[EDGE]


class Answer(Response):
    """An answer that is sent by a function of ``replies``."""

    def __init__(self, reply: Callable[[Scope, Send], Awaitable[None]]) -> None:
        super().__init__()
        self._reply = reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send it."""
        await self._reply(scope, send)

    @classmethod
    def of(
        cls, model: BaseModel, status: int = HTTPStatus.OK, extra: HeaderList | None = None
    ) -> "Answer":
        """Respond with a model as JSON, not cacheable; unset fields are left out.

        For HEAD only the headers are sent.
        """
        body = encode(model.model_dump(exclude_unset=True), JSON)
        cached = (VARY, _PRIVATE)

        def reply(scope: Scope, send: Send) -> Awaitable[None]:
            head = scope["method"] == "HEAD"
            return send_bytes(send, status, JSON, body, extra, head=head, cached=cached)

        return cls(reply)

    @classmethod
    def empty(cls, extra: HeaderList) -> "Answer":
        """Respond without content."""
        return cls(lambda _, send: send_empty(send, HTTPStatus.NO_CONTENT, [*extra, _PRIVATE]))


async def refuse(request: Request, failure: Exception) -> Response:
    """Respond with problem details (RFC 9457): handles Errors, and unsupported methods."""
    edge: HttpDoor = edge_of(request)
    error = failure if isinstance(failure, Error) else _not_offered(request, failure)
    headers = headers_of(request.scope)
    return Answer(lambda scope, send: send_problem(edge.kernel, error, headers, scope, send))


def _not_offered(request: Request, failure: Exception) -> Error:
    """Return the error for a method that no route at a path supports; readable paths have two."""
    if (
        not isinstance(failure, HTTPException)
        or failure.status_code != HTTPStatus.METHOD_NOT_ALLOWED
    ):
        raise failure
    allowed = (failure.headers or {}).get("Allow", "").split(", ")
    allowed = ["GET", "HEAD"] if "GET" in allowed else allowed
    path = request.scope["path"].rstrip("/")
    return Error(Code.NOT_ALLOWED, f"{path} takes {' and '.join(allowed)}", allow=allowed)
