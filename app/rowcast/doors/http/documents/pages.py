"""The live page at ``/ui/``: static files of this package, with restrictive headers.

The files are read once, at start, and sent unchanged: there is no build step and no external
resource. The page uses only the public REST and WebSocket APIs with the rights of the signed-in
user, so the files themselves are public.
"""

from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.doors.http.messages.asgi import HeaderList, Headers, Scope, Send
from rowcast.doors.http.messages.replies import send_bytes, send_empty

ROOT: Final = "/ui"
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_GUARDS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
)
"""``no-cache``: browsers revalidate each time, so an old page never runs against a new server."""


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
    extra: HeaderList = [*_GUARDS, (b"etag", tag)]
    if headers.get(b"if-none-match") == tag:
        await send_empty(send, HTTPStatus.NOT_MODIFIED, extra)
    else:
        await send_bytes(send, HTTPStatus.OK, media_type, content, extra, head=method == "HEAD")
