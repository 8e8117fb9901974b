"""Signing in over HTTP: the Authorization header as credentials (RFC 7617), once for each request.

Only a request that has the header is looked at; who is nobody in particular costs nothing here.
"""

import binascii
from base64 import b64decode
from typing import TYPE_CHECKING, Final

from app.auth.authenticator import Credentials
from app.core.callers import NONE, Caller
from app.core.errors import Code, Error
from app.http.asgi import Headers, Scope
from app.http.problems import FACES

if TYPE_CHECKING:
    from app.http.edge import Edge

SIGNED_IN: Final = "rowcast.caller"
"""Where the scope holds the caller who signed in."""


async def sign_in(edge: "Edge", headers: Headers, scope: Scope, door: str) -> None:
    """Note in the scope who it is, if the header is there. Raises UNAUTHENTICATED, DENIED, BUSY."""
    header = headers.get(b"authorization")
    if header is None:
        return
    client = scope.get("client")
    peer = client[0] if client else ""
    name = ""
    try:
        name, password = basic(header)
        shown = Credentials(name, password, peer=peer, door=door)
        scope[SIGNED_IN] = await edge.settings.authenticator.identify(shown)
    except Error as error:
        nobody = Caller(name or "anonymous", NONE, door, peer=peer)
        edge.engine.hooks.auth_failed(nobody, error.message)
        status = FACES[error.code].status
        edge.engine.hooks.tell("refused", nobody, reason=error.message, code=status)
        raise


def basic(header: bytes) -> tuple[str, bytes]:
    """Return the name and password of ``Basic <base64>``. Raises UNAUTHENTICATED."""
    scheme, _, value = header.partition(b" ")
    if scheme.lower() != b"basic":
        raise Error(Code.UNAUTHENTICATED, "sign in with Authorization: Basic; no other is offered")
    try:
        name, colon, password = b64decode(value.strip(), validate=True).partition(b":")
        if colon:
            return name.decode(), password
    except (UnicodeDecodeError, binascii.Error):
        pass
    raise Error(
        Code.UNAUTHENTICATED, "Authorization: Basic is followed by base64 of 'name:password', UTF-8"
    )
