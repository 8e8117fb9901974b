"""SCRAM verifiers: enough to check a password, not enough to use it (RFC 5802, 3; RFC 7677).

The same verifier serves SCRAM-SHA-256 and plain passwords. It is written as PostgreSQL writes it:
``SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>``. It must not know whose it is.
"""

import binascii
import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass

from rowcast.core.authentication_limits import PASSWORD_ITERATIONS_MAX, PASSWORD_ITERATIONS_MIN
from rowcast.core.errors import Code, Error

_FORM = re.compile(r"SCRAM-SHA-256\$(\d{1,9}):([\w+/=]+)\$([\w+/=]+):([\w+/=]+)", re.ASCII)
_SHAPE = "is not SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>"
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Verifier:
    """The keys of RFC 5802 that a server keeps of one password."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __str__(self) -> str:
        salt, stored, server = (
            b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"SCRAM-SHA-256${self.iterations}:{salt}${stored}:{server}"

    def matches(self, password: str) -> bool:
        """Whether the password matches; takes tens of milliseconds of CPU."""
        own = make_verifier(password, self.salt, self.iterations)
        return hmac.compare_digest(own.stored_key, self.stored_key)


def make_verifier(password: str, salt: bytes, iterations: int) -> Verifier:
    """Return the verifier to store for a prepared password; its iterations set the time."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    client_key = sign(salted, b"Client Key")
    return Verifier(
        iterations, salt, hashlib.sha256(client_key).digest(), sign(salted, b"Server Key")
    )


def read_verifier(text: str) -> Verifier:
    """Return the verifier that a text is. Raises INVALID, without repeating the text."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise Error(Code.INVALID, _SHAPE)
    try:
        salt, stored, server = (b64decode(part, validate=True) for part in form.groups()[1:])
    except (ValueError, binascii.Error):
        raise Error(Code.INVALID, _SHAPE) from None
    iterations = int(form[1])
    if not PASSWORD_ITERATIONS_MIN <= iterations <= PASSWORD_ITERATIONS_MAX:
        raise Error(
            Code.INVALID,
            f"has {iterations} iterations; take {PASSWORD_ITERATIONS_MIN} to "
            f"{PASSWORD_ITERATIONS_MAX}",
        )
    if not salt or len(stored) != _KEY_BYTES or len(server) != _KEY_BYTES:
        raise Error(Code.INVALID, f"needs a salt and two keys of {_KEY_BYTES} bytes")
    return Verifier(iterations, salt, stored, server)


def sign(key: bytes, message: bytes) -> bytes:
    """Return the HMAC of RFC 5802: of SHA-256."""
    return hmac.digest(key, message, "sha256")


def wrong_password() -> Error:
    """Return the refusal of a wrong name or a wrong password, without revealing which."""
    return Error(Code.UNAUTHENTICATED, "the user name or the password is wrong")
