"""Parts of every event stream: headers, the retry delay, a final error."""

import secrets
from collections.abc import Mapping

from rowcast.codecs import JSON, encode
from rowcast.core.errors import Code, Error
from rowcast.core.limits import STREAM_RETRY_SPREAD
from rowcast.doors.http.door import HttpDoor
from rowcast.doors.http.messages.asgi import HeaderList
from rowcast.doors.http.messages.problems import problem


def headers_for(media_type: str, more: HeaderList) -> HeaderList:
    """Return the headers of an event stream, which disable caching and buffering."""
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


def retry_block(edge: HttpDoor) -> bytes:
    """Return the retry delay, with jitter to spread reconnects (C17)."""
    least = edge.settings.sse_retry_ms
    return b"retry: %d\n\n" % (least + secrets.randbelow(STREAM_RETRY_SPREAD * least))


def problem_block(edge: HttpDoor, error: Error, instance: str) -> bytes:
    """Return the final event of a failed stream."""
    details = encode(problem(error, instance, edge.kernel.cursor), JSON)
    return b"event: problem\ndata: %b\n\n" % details


def notice_block(name: str, fields: Mapping[str, object]) -> bytes:
    """Return an event without ``id``, so that a browser's cursor does not change. Always JSON."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), encode(dict(fields), JSON))


def slow_reader(seconds: float) -> Error:
    """Return the Error for a reader that read nothing for so long (C18)."""
    return Error(
        Code.BUSY,
        f"the client read nothing of this stream for {seconds:g} s, so it ends; reconnect with "
        "the last id as Last-Event-ID, as EventSource does, and nothing that is logged is missed",
        reason="slow",
    )
