"""Password hashes by argon2id, which makes guessing cost memory and not only time (RFC 9106).

They are for passwords that are shown as they are; SCRAM needs a ``Verifier`` beside it. Both may be
kept of one password. It must not know whose a hash is.
"""

from base64 import b64encode
from dataclasses import dataclass

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError
from argon2.low_level import ARGON2_VERSION, Type, hash_secret

from rowcast.auth.verifier import sign
from rowcast.core.authentication_limits import (
    HASH_BYTES,
    HASH_MEMORY_KIB,
    HASH_ROUNDS,
    HASH_TEXT_CHARS_MAX,
    HASH_THREADS,
    PASSWORD_SALT_BYTES,
)
from rowcast.core.errors import Code, Error

_START = "$argon2id$"


@dataclass(frozen=True, slots=True)
class Hash:
    """One hash with its parameters: ``$argon2id$v=19$m=19456,t=2,p=1$<salt>$<hash>``."""

    text: str

    def __str__(self) -> str:
        return self.text

    def matches(self, password: str) -> bool:
        """Whether the password matches; takes tens of milliseconds and much memory."""
        try:
            return PasswordHasher().verify(self.text, password)
        except (Argon2Error, InvalidHashError):
            return False


def make_hash(password: str, salt: bytes) -> Hash:
    """Return the hash to store for a prepared password."""
    made = hash_secret(
        password.encode(), salt, HASH_ROUNDS, HASH_MEMORY_KIB, HASH_THREADS, HASH_BYTES, Type.ID
    )
    return Hash(made.decode())


def read_hash(text: str) -> Hash:
    """Return the hash that a text is. Raises INVALID, without repeating the text."""
    if not text.startswith(_START) or not text.isascii() or len(text) > HASH_TEXT_CHARS_MAX:
        raise Error(Code.INVALID, f"is not {_START}v=19$m=…,t=…,p=…$<salt>$<hash>")
    return Hash(text)


def decoy_hash(name: str, secret: bytes) -> Hash:
    """Return a hash for a name that is no user's: nobody's password's, and as dear to check."""
    salt, digest = (sign(secret, kind + name.encode()) for kind in (b"salt ", b"hash "))
    parameters = f"m={HASH_MEMORY_KIB},t={HASH_ROUNDS},p={HASH_THREADS}"
    parts = (b64encode(one).rstrip(b"=").decode() for one in (salt[:PASSWORD_SALT_BYTES], digest))
    return Hash(f"{_START}v={ARGON2_VERSION}${parameters}${'$'.join(parts)}")
