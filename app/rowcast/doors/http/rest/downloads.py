"""Downloads: a file as the body of a response, complete or a range (RFC 9110, section 14).

The file is read in chunks on a thread, so a large file needs little memory and does not block the
loop. For several ranges the complete file is sent, which is allowed (14.2).
"""

import asyncio
import re
from http import HTTPStatus
from typing import Final

from rowcast.core.export_limits import DOWNLOAD_PIECE_BYTES
from rowcast.doors.http.messages.asgi import HeaderList
from rowcast.doors.http.messages.replies import send_headers
from rowcast.doors.http.rest.conditions import check_read_condition, tags_of
from rowcast.doors.http.rest.request import Request
from rowcast.rows.download import Download

_RANGE: Final = re.compile(rb"bytes=\s*([0-9]{0,19})-([0-9]{0,19})\s*", re.IGNORECASE)

Range = tuple[int, int]
"""The first byte, and the one after the last."""


async def send_download(request: Request, download: Download) -> None:
    """Respond with a file, and close it."""
    try:
        await _send(request, download)
    finally:
        await asyncio.to_thread(download.close)


async def _send(request: Request, download: Download) -> None:
    headers, size = request.headers, download.size_bytes
    tag = f'"{download.tag}"'.encode()
    known: HeaderList = [(b"etag", tag), (b"accept-ranges", b"bytes")]
    check_read_condition(headers, tag)
    if _has(headers.get(b"if-none-match"), tag):
        await send_headers(request.send, HTTPStatus.NOT_MODIFIED, known)
        return
    wanted = None
    if not request.is_head and headers.get(b"if-range", tag) == tag:
        wanted = _range(headers.get(b"range", b""), size)
    if wanted is not None and wanted[0] >= wanted[1]:
        nothing = (b"content-range", f"bytes */{size}".encode())
        status = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
        await send_headers(request.send, status, [*known, nothing, (b"content-length", b"0")])
        return
    start, end = wanted or (0, size)
    known += [
        (b"content-type", download.media_type.encode("latin-1")),
        (b"content-length", str(end - start).encode()),
    ]
    status = HTTPStatus.OK
    if wanted is not None:
        status = HTTPStatus.PARTIAL_CONTENT
        known.append((b"content-range", f"bytes {start}-{end - 1}/{size}".encode()))
    if request.is_head:
        await send_headers(request.send, status, known)
        return
    await request.send({"type": "http.response.start", "status": status, "headers": known})
    await _pieces(request, download, start, end)


def _has(header: bytes | None, tag: bytes) -> bool:
    """Whether If-None-Match has the file's tag (weak comparison, 13.1.2)."""
    if header is None:
        return False
    tags = tags_of(header, "If-None-Match")
    return tags is None or any(f'"{text}"'.encode("latin-1") == tag for _weak, text in tags)


def _range(header: bytes, size: int) -> Range | None:
    """Return the requested range; None for all; a range after the end is empty."""
    found = _RANGE.fullmatch(header)
    if found is None or found[1] == found[2] == b"":
        return None
    if found[1] == b"":  # a suffix length
        return max(0, size - int(found[2])), size
    start = int(found[1])
    if found[2] == b"":
        return start, size
    if int(found[2]) < start:  # an invalid range is ignored (14.1.1)
        return None
    return start, min(size, int(found[2]) + 1)


async def _pieces(request: Request, download: Download, start: int, end: int) -> None:
    """Send the bytes; aborts the response if the file is shorter than announced."""
    send, at = request.send, start
    while at < end:
        request.check_rights()
        piece = await asyncio.to_thread(download.read, at, min(DOWNLOAD_PIECE_BYTES, end - at))
        if not piece:
            raise OSError(f"{request.topic!r} ended {end - at} bytes early")
        at += len(piece)
        await send({"type": "http.response.body", "body": piece, "more_body": at < end})
