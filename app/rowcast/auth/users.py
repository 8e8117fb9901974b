"""Users and roles: credentials and grants.

``Users`` hides where they are stored. This module also has the one rule for valid names and
passwords. A user has its own grants and those of its roles.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from rowcast.auth.hashes import Hash
from rowcast.auth.saslprep import saslprep
from rowcast.auth.verifier import Verifier, sign
from rowcast.core.authentication_limits import (
    PASSWORD_BYTES_MAX,
    PASSWORD_ITERATIONS,
    PASSWORD_SALT_BYTES,
    USER_NAME_BYTES_MAX,
)
from rowcast.core.callers import ADMIN, ALL, NONE, Grants
from rowcast.core.errors import Code, Error

_RESERVED = frozenset({"anonymous"})


class Check(Protocol):
    """The stored form of a password: a ``Hash`` or a ``Verifier``."""

    def matches(self, password: str) -> bool:
        """Whether the password matches; takes tens of milliseconds of CPU."""


@dataclass(frozen=True, slots=True)
class User:
    """A user account; without a hash or a verifier it cannot sign in with a password.

    ``grants`` are its own, without those of its roles. ``created`` is a time as rows spell it.
    ``issue`` grows whenever what it signs in with is replaced: older tokens and connections end.
    """

    name: str
    grants: Grants
    verifier: Verifier | None = None
    hashed: Hash | None = None
    roles: frozenset[str] = frozenset()
    attributes: Mapping[str, object] = field(default_factory=dict)
    disabled: bool = False
    created: str = ""
    issue: int = 0

    @property
    def check(self) -> Check | None:
        """Checks a password that is sent in plain text."""
        return self.hashed or self.verifier


@dataclass(frozen=True, slots=True)
class Role:
    """Grants shared by several users; ``note`` is a comment."""

    name: str
    grants: Grants = NONE
    note: str = ""


class Users(Protocol):
    """Where users are kept."""

    @property
    def roles(self) -> Mapping[str, Role]:
        """The roles, as last looked at; one that nobody declared grants nothing by itself."""

    @property
    def kinds(self) -> tuple[bool, bool]:
        """Whether users have a verifier and no hash, and whether users have a hash."""

    @property
    def in_force(self) -> bool:
        """Whether there are users to speak of, as last looked at."""

    @property
    def fresh(self) -> bool:
        """Whether ``secret`` and ``find`` need not look anew, so that they tell no more."""

    def look_ahead(self) -> bool:
        """Return the same; begin to look anew if that is due soon, so that nobody waits for it."""

    async def secret(self) -> bytes | None:
        """Return the same secret bytes for good; None while there are no users to speak of."""

    async def find(self, name: str) -> User | None:
        """Return the user of a prepared name."""

    def known(self, name: str) -> User | None:
        """Return the same at once, as last looked at."""


def granted(own: Grants, names: Iterable[str], roles: Mapping[str, Role]) -> Grants:
    """Return the grants of these roles together."""
    for name in names:
        if name == ADMIN:
            return ALL
        if name in roles:
            own |= roles[name].grants
    return own


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


def kept_name(text: str) -> str:
    """Return a name that somebody manages a user under. Raises INVALID in another spelling.

    To add a full-width ``ann`` would give ``ann`` another password, which nobody asked for.
    """
    name = user_name(text)
    if name != text:
        raise Error(Code.INVALID, f"a user of this name is written {name!r} (RFC 4013)")
    return name


def exact_name(text: str) -> str:
    """Return a name that somebody else vouches for, such as a certificate. Raises INVALID.

    It counts as it is written: an authority that signed for a full-width ``root`` has not signed
    for the user ``root``, and need not know that both are prepared alike (RFC 8265, 6.1).
    """
    name = user_name(text)
    if name != text:
        raise Error(
            Code.INVALID,
            f"it is not in the one spelling that names have here (RFC 4013): {name!r} is another "
            "name; have it issued for the name as it is kept",
        )
    return name


def rate_limit_name(text: str) -> str:
    """Return what tries to sign in are counted under: any spelling of a name is the same user."""
    try:
        return user_name(text)
    except Error:  # nobody's
        return text


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


def decoy(name: str, secret: bytes, iterations: int = PASSWORD_ITERATIONS) -> Verifier:
    """Return a verifier for a name that is no user's: the same each time, and nobody's password's.

    Whoever asks for a user's salt cannot tell from the answer whether there is such a user.
    """
    salt, stored, server = (
        sign(secret, kind + name.encode()) for kind in (b"salt ", b"stored ", b"server ")
    )
    return Verifier(iterations, salt[:PASSWORD_SALT_BYTES], stored, server)
