"""Responses as ASGI messages, for REST."""

import asyncio
from collections.abc import Coroutine, Sequence
from http import HTTPStatus
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.doors.http.messages.asgi import HeaderList, Headers, Receive, Scope, Send, text_of
from rowcast.doors.http.messages.problems import problem, problem_body, problem_headers, status_of
from rowcast.kernel.kernel import Kernel

EMPTY: Final = {"type": "http.response.body", "body": b""}
REVALIDATE: Final = (b"cache-control", b"private, no-cache")
"""Without it browsers may show an old record for a tenth of its age (RFC 9111, 4.2.2); what a
caller sees depends on its rights, so shared caches keep nothing."""
VARY: Final = (b"vary", b"Accept")
SELECTED: Final = (VARY, REVALIDATE)
"""The headers of everything that is read: of one format, and as it is now."""

HARMLESS: Final = (
    # Stored HTML must not run with the rights of this server's own pages.
    (b"content-security-policy", b"sandbox"),
    (b"x-content-type-options", b"nosniff"),
)


async def send_bytes(
    send: Send, status: int, media_type: str, body: bytes, extra: HeaderList | None = None,
    *, head: bool = False, cached: Sequence[tuple[bytes, bytes]] = SELECTED,
    kind: str = "http.response",
) -> None:  # fmt: skip
    """Send a complete response; for HEAD only its headers. ``cached`` is said to caches."""
    headers = [
        (b"content-type", media_type.encode("latin-1")),
        (b"content-length", str(len(body)).encode()),
        *cached,
        *(extra or ()),
    ]
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": b"" if head else body})


async def send_empty(
    send: Send, status: int, extra: HeaderList | None = None, kind: str = "http.response"
) -> None:
    """Send an answer without content."""
    headers = [*(extra or ())]
    if status not in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}:
        headers.append((b"content-length", b"0"))
    await send_headers(send, status, headers, kind)


async def send_headers(
    send: Send, status: int, headers: HeaderList, kind: str = "http.response"
) -> None:
    """Send an answer that is only these headers."""
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": b""})


async def send_problem(
    kernel: Kernel,
    error: Error,
    headers: Headers,
    scope: Scope,
    send: Send,
    kind: str = "http.response",
) -> None:
    """Send an error as problem details, in the format that the client accepts."""
    instance = (scope.get("raw_path") or b"").decode("utf-8", "replace")
    details = problem(error, instance, kernel.cursor)
    media_type, body = problem_body(details, text_of(headers, b"accept"))
    quiet = headers.get(b"sec-fetch-mode", b"navigate") != b"navigate"
    extra = problem_headers(error, kernel.cursor, quiet=quiet)
    if error.code is Code.TOO_LARGE or error.detail.get("close"):
        extra.append((b"connection", b"close"))  # do not read the rest of the body
    head = scope.get("method") == "HEAD"
    await send_bytes(send, status_of(error), media_type, body, extra, head=head, kind=kind)


async def unless_gone(receive: Receive, work: Coroutine[object, object, None]) -> None:
    """Run a response's work, and cancel it when the client disconnects."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((gone, task), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        gone.cancel()
        task.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
