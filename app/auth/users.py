"""Users: a name, what is kept of the password, what the user may do; and the interface to them.

Where users are kept is behind ``Users``: a file now, tables later. Here is also what a name and a
password may be, whoever makes or checks them.
"""

from dataclasses import dataclass
from typing import Protocol

from app.auth.saslprep import saslprep
from app.auth.verifier import Verifier, sign
from app.core.callers import Grants
from app.core.entry_limits import (
    PASSWORD_BYTES_MAX,
    PASSWORD_ITERATIONS,
    PASSWORD_SALT_BYTES,
    USER_NAME_BYTES_MAX,
)
from app.core.errors import Code, Error

_RESERVED = frozenset({"anonymous"})


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may sign in; without a verifier, not with a password."""

    name: str
    grants: Grants
    verifier: Verifier | None = None


class Users(Protocol):
    """Where users are kept."""

    async def secret(self) -> bytes | None:
        """Return the same secret bytes for good; None while there are no users to speak of."""

    async def find(self, name: str) -> User | None:
        """Return the user of a prepared name."""


def user_name(text: str) -> str:
    """Return a user's name as it is kept and compared. Raises INVALID."""
    if len(text.encode(errors="replace")) > USER_NAME_BYTES_MAX:
        raise Error(Code.INVALID, f"a user name has at most {USER_NAME_BYTES_MAX} bytes")
    name = saslprep(text)
    if not name or name.startswith("$") or name in _RESERVED or ":" in name:
        raise Error(
            Code.INVALID,
            "a user name is not empty, holds no ':', does not begin with '$', and is not "
            f"{' or '.join(sorted(_RESERVED))}",
        )
    return name


def password_text(data: bytes) -> str:
    """Return a password as it is hashed. Raises INVALID."""
    if len(data) > PASSWORD_BYTES_MAX:
        raise Error(Code.INVALID, f"a password has at most {PASSWORD_BYTES_MAX} bytes")
    try:
        text = saslprep(data.decode())
    except UnicodeDecodeError:
        raise Error(Code.INVALID, "a password is UTF-8 text") from None
    if not text:
        raise Error(Code.INVALID, "a password is not empty")
    return text


def decoy(name: str, secret: bytes) -> Verifier:
    """Return a verifier for a name that is no user's: the same each time, and nobody's password's.

    Whoever asks for a user's salt cannot tell from the answer whether there is such a user.
    """
    salt, stored, server = (
        sign(secret, kind + name.encode()) for kind in (b"salt ", b"stored ", b"server ")
    )
    return Verifier(PASSWORD_ITERATIONS, salt[:PASSWORD_SALT_BYTES], stored, server)
