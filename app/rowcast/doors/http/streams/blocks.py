"""The parts that every event stream has: its headers, the pause before a reconnect, a last word."""

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rowcast.codecs import JSON, encode
from rowcast.core.errors import Code, Error
from rowcast.core.limits import STREAM_RETRY_SPREAD
from rowcast.doors.http.messages.asgi import HeaderList
from rowcast.doors.http.messages.problems import problem

if TYPE_CHECKING:
    from rowcast.doors.http.edge import Edge


def headers_for(media_type: str, more: HeaderList) -> HeaderList:
    """Return the headers of an event stream, which must not be kept or held back on its way."""
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),
        (b"vary", b"Accept"),
        *more,
    ]
    if media_type != JSON:
        headers.append((b"event-format", media_type.encode()))
    return headers


def retry_block(edge: "Edge") -> bytes:
    """Return how long to wait before a reconnect: not all come at the same moment (C17)."""
    least = edge.settings.sse_retry_ms
    return b"retry: %d\n\n" % (least + secrets.randbelow(STREAM_RETRY_SPREAD * least))


def problem_block(edge: "Edge", error: Error, instance: str) -> bytes:
    """Return the last event of a stream that cannot go on."""
    details = encode(problem(error, instance, edge.kernel.cursor), JSON)
    return b"event: problem\ndata: %b\n\n" % details


def notice_block(name: str, fields: Mapping[str, object]) -> bytes:
    """Return an event without ``id``: what a browser continues from stays as it is. Always JSON."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), encode(dict(fields), JSON))


def slow_reader(seconds: float) -> Error:
    """Return why a stream ended whose reader took nothing for so long (C18)."""
    return Error(
        Code.BUSY,
        f"nothing of this stream was taken for {seconds:g} s, so it ends here; connect anew with "
        "the last id as Last-Event-ID, as EventSource does, and nothing that is logged is missed",
        reason="slow",
    )
