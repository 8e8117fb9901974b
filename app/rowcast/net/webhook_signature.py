"""Signatures of webhooks (Standard Webhooks 1.0): HMAC-SHA256 over id, time and body.

``webhook-signature: v1,<base64>`` of ``<webhook-id>.<webhook-timestamp>.<body>``, with the secret
as its bytes; a secret that begins with ``whsec_`` is base64 after that.
"""

import binascii
from base64 import b64decode, b64encode
from hashlib import sha256
from hmac import digest
from typing import Final

_PREFIX: Final = "whsec_"


def key_of(secret: str) -> bytes:
    """Return the key of a secret; raises ValueError for a malformed one."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("should be base64 after whsec_") from None


def signed_headers(secret: str, message_id: str, at_seconds: int, body: bytes) -> dict[str, str]:
    """Return the headers of a call; without a secret, they have no signature."""
    headers = {"webhook-id": message_id, "webhook-timestamp": str(at_seconds)}
    if secret:
        content = f"{message_id}.{at_seconds}.".encode() + body
        signature = b64encode(digest(key_of(secret), content, sha256)).decode()
        headers["webhook-signature"] = f"v1,{signature}"
    return headers
