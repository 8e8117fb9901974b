"""The live page at ``/ui/``: static files of this package, with restrictive headers.

The files are read once, at start, and sent unchanged, compressed to those that take gzip: there is
no build step and no external resource. The page uses only the public REST and WebSocket APIs with
the rights of the signed-in user, so the files themselves are public.
"""

import gzip
import re
from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.doors.http.messages.asgi import HeaderList, Headers, Scope, Send
from rowcast.doors.http.messages.replies import send_bytes, send_empty
from rowcast.doors.http.rest.conditions import not_modified

ROOT: Final = "/ui"
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self' '%s'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_INLINE: Final = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


def hash_of_inline(page: bytes) -> str:
    """Return the source expression of the only inline script of a page (CSP 3, section 2.3.1)."""
    (script,) = _INLINE.findall(page)
    return f"sha256-{b64encode(sha256(script).digest()).decode()}"


def _read() -> dict[str, tuple[str, bytes, bytes]]:
    """Return media type, content and ETag of each file, by the path it is served at."""
    found = {}
    for file in files("rowcast.doors.http").joinpath("ui").iterdir():
        media_type = _TYPES.get(file.name.rpartition(".")[2])
        if media_type is not None:
            content = file.read_bytes()
            tag = f'"{sha256(content).hexdigest()[:16]}"'.encode()
            found[f"{ROOT}/{file.name}"] = (media_type, content, tag)
    found[f"{ROOT}/"] = found[f"{ROOT}/index.html"]
    return found


PAGES: Final = _read()
_GUARDS: Final = (
    (b"content-security-policy", (_POLICY % hash_of_inline(PAGES[f"{ROOT}/"][1])).encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
)
"""``no-cache``: browsers revalidate each time, so an old page never runs against a new server."""


_TAKES_GZIP: Final = re.compile(rb"\b(?:x-)?gzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))", re.IGNORECASE)
"""An ``Accept-Encoding`` that has gzip, and not to exclude it (RFC 9110 12.5.3)."""
_VARY: Final = (b"vary", b"accept-encoding")


@lru_cache(maxsize=len(PAGES))
def _compressed(path: str) -> tuple[bytes, bytes]:
    """Return a file's content as gzip, and the ETag of that form."""
    _, content, tag = PAGES[path]
    return gzip.compress(content, mtime=0), tag[:-1] + b'-gzip"'


def is_page(path: str) -> bool:
    """Whether a path belongs to the page; other paths below ``/ui`` are topics."""
    return path == ROOT or (path.startswith(f"{ROOT}/") and path in PAGES)


async def serve(headers: Headers, scope: Scope, send: Send) -> None:
    """Send a file of the page. Raises NOT_ALLOWED."""
    method = scope["method"]
    if method not in {"GET", "HEAD"}:
        raise Error(Code.NOT_ALLOWED, "the page is only read", allow=["GET", "HEAD"])
    if scope["path"] == ROOT:  # without the slash relative links would be resolved wrongly
        await send_empty(send, HTTPStatus.PERMANENT_REDIRECT, [(b"location", f"{ROOT}/".encode())])
        return
    media_type, content, tag = PAGES[scope["path"]]
    extra: HeaderList = [*_GUARDS, _VARY]
    if _TAKES_GZIP.search(headers.get(b"accept-encoding", b"")):
        content, tag = _compressed(scope["path"])
        extra.append((b"content-encoding", b"gzip"))
    extra.append((b"etag", tag))
    if b"if-none-match" in headers and not_modified(headers, tag, 0):
        await send_empty(send, HTTPStatus.NOT_MODIFIED, extra)
    else:
        head = method == "HEAD"
        await send_bytes(send, HTTPStatus.OK, media_type, content, extra, head=head, cached=())
