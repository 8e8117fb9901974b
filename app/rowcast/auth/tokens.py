"""Tokens: JWTs that this server made, and those of issuers that its operator trusts (RFC 7519).

A token of this server's own is signed with a key from the file of users (HS256, ``kid`` rowcast)
and names the user and its ``issue``; what the user may do is looked up. A foreign one names its
user and roles by its claims; which algorithms count is the operator's list and never the token's
word (RFC 8725). Time is passed in. A token is never repeated in a message or a log.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import quote

import jwt
from jwt.types import Options

from rowcast.auth.keys import Keys
from rowcast.auth.users import User, exact_name
from rowcast.auth.verifier import sign
from rowcast.core.authentication_limits import (
    ROLE_NAME_CHARS_MAX,
    TOKEN_BYTES_MAX,
    TOKENS_CACHED_MAX,
    USER_ROLES_MAX,
)
from rowcast.core.bounded import BoundedCache
from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error

_OWN = "rowcast"
"""The ``kid`` and ``iss`` of tokens that are made here."""
USER_PREFIX: Final = "jwt:"
"""With a colon, which the name of no user of this server has."""
_LAST = 253_402_300_799.0
"""The end of the year 9999, behind which there is no time that could be told."""
_START = b"eyJ"
"""The beginning of every JWT: the base64 of ``{"``."""


@dataclass(frozen=True, slots=True)
class ForeignIssuer:
    """Whose tokens are believed, and how their claims are read; names of claims may be dotted.

    ``role_names`` says which of their roles are which here; empty takes their names as they are,
    but for ``admin``, which must be said.
    """

    keys: Keys
    issuer: str = ""
    audience: str = ""
    leeway_seconds: float = 0
    user_claim: str = "sub"
    roles_claim: str = "roles"
    role_names: Mapping[str, str] = field(default_factory=dict)
    user_prefix: str = USER_PREFIX
    """Prefix of the issuer's user names here; empty if the issuer names local users."""

    def name_here(self, said: str, issuer: str) -> str:
        """Return who somebody is here whom an issuer calls so: the issuer is a part of it.

        Where any issuer is believed, its own name is in it too.
        """
        if not self.user_prefix or self.issuer:
            return self.user_prefix + said
        return f"{self.user_prefix}{quote(issuer, safe='')}:{said}"


@dataclass(frozen=True, slots=True)
class Token:
    """What a token says that was found right; ``issuer`` is empty when it was made here.

    ``user`` is who that is here, ``said`` the name as it stands in the token.
    """

    user: str
    said: str
    until: float
    issuer: str = ""
    issue: int = 0
    roles: frozenset[str] = frozenset()
    claims: Mapping[str, object] = field(default_factory=dict)


def is_token(password: bytes | None) -> bool:
    """Whether a password has the form of a token."""
    return password is not None and password.startswith(_START) and password.count(b".") == 2


class Tokens:
    """Makes and judges tokens; ``now`` is in seconds since 1970 (UTC)."""

    def __init__(self, now: Callable[[], float], foreign: ForeignIssuer | None = None) -> None:
        self._now = now
        self.foreign = foreign
        self._right: BoundedCache[bytes, Token] = BoundedCache(TOKENS_CACHED_MAX)
        """Verified tokens by digest, the oldest first; cleared when a foreign key is removed."""

    def make(self, user: User, secret: bytes, seconds: float) -> tuple[str, float]:
        """Return a token for a user of this server, and when it is over."""
        now = int(self._now())
        until = now + int(seconds)
        claims = {"iss": _OWN, "sub": user.name, "iat": now, "exp": until, "issue": user.issue}
        key = sign(secret, b"token key")
        return jwt.encode(claims, key, "HS256", headers={"kid": _OWN}), float(until)

    def read(self, data: bytes, secret: bytes | None) -> Token:
        """Return the claims of a token. Raises UNAUTHENTICATED with the reason."""
        if len(data) > TOKEN_BYTES_MAX:
            raise _refused(f"has {len(data)} bytes; at most {TOKEN_BYTES_MAX} are accepted")
        if self.foreign is not None and self.foreign.keys.renewed():
            self._right.clear()
        digest = hashlib.sha256(data + b"\0" + (secret or b"")).digest()
        token = self._right.get(digest)
        if token is None:
            token = self._right.put(digest, self._judged(data, secret))
        if self._now() >= token.until:
            raise _refused("is over; take a new one")
        return token

    def _judged(self, data: bytes, secret: bytes | None) -> Token:
        try:
            header = jwt.get_unverified_header(data)
            own = header.get("kid") == _OWN and secret is not None
            claims = self._own(data, secret or b"") if own else self._foreign(data, header)
        except Error:
            raise
        except jwt.InvalidIssuerError:
            raise _refused("is of an issuer that is not trusted here") from None
        except jwt.InvalidAudienceError:
            raise _refused("is for another audience than this server") from None
        except jwt.MissingRequiredClaimError as error:
            raise _refused(f"has no {error.claim!r}") from None
        except jwt.InvalidSignatureError:
            raise _refused("is not signed with a key that is known here") from None
        except jwt.InvalidAlgorithmError:
            raise _refused("is signed by an algorithm that is not accepted here") from None
        except Exception:  # noqa: BLE001 - a stranger's bytes, taken apart by a library
            raise _refused("is none that can be read") from None
        leeway = 0 if own or self.foreign is None else self.foreign.leeway_seconds
        until = self._times(claims, leeway)
        return _own_token(claims, until) if own else self._foreign_token(claims, until)

    def _own(self, data: bytes, secret: bytes) -> Mapping[str, object]:
        key = sign(secret, b"token key")
        needed = _options(["exp", "sub"], audience=False)
        claims: dict[str, object] = jwt.decode(data, key, ["HS256"], needed, issuer=_OWN)
        return claims

    def _foreign(self, data: bytes, header: Mapping[str, object]) -> Mapping[str, object]:
        foreign = self.foreign
        if foreign is None:
            raise _refused("was not made here, and no other issuer is trusted (security.jwt)")
        key, algorithms = foreign.keys.find(header.get("kid"), str(header.get("alg")))
        needed = _options(["exp"], audience=bool(foreign.audience))
        claims: dict[str, object] = jwt.decode(
            data,
            key,
            algorithms,
            needed,
            issuer=foreign.issuer or None,
            audience=foreign.audience or None,
        )
        return claims

    def _times(self, claims: Mapping[str, object], leeway: float) -> float:
        """Return when it is over; raises when it is, or is not yet."""
        now, exp = self._now(), _time(claims, "exp") or 0.0
        if now >= exp + leeway:
            raise _refused("is over; take a new one")
        if max(_time(claims, "nbf") or now, _time(claims, "iat") or now) > now + leeway:
            raise _refused("is not valid yet; compare the clocks")
        return min(exp + leeway, _LAST)

    def _foreign_token(self, claims: Mapping[str, object], until: float) -> Token:
        foreign = self.foreign
        if foreign is None:
            raise _refused("is of nobody who is trusted")
        name = _at(claims, foreign.user_claim)
        if not isinstance(name, str):
            raise _refused(f"has no user in {foreign.user_claim!r}")
        roles = _roles(_at(claims, foreign.roles_claim), foreign.role_names)
        issuer, said = str(claims.get("iss") or "?"), _name(name)
        user = foreign.name_here(said, issuer)
        return Token(user, said, until, issuer, 0, roles, claims)

    def named(self, caller: Caller) -> Caller:
        """Return somebody whom an issuer vouches for, by the name that it has here now.

        What is kept of a caller may be from when the issuer was no part of its name.
        """
        foreign = self.foreign
        if foreign is None or caller.user.startswith(foreign.name_here("", caller.issuer)):
            return caller
        return replace(caller, user=foreign.name_here(caller.user, caller.issuer))


def _options(required: list[str], *, audience: bool) -> Options:
    """Return what the library is to look at: times are judged here, by the clock passed in."""
    return {
        "require": required,
        "verify_aud": audience,
        "verify_exp": False,
        "verify_nbf": False,
        "verify_iat": False,
    }


def _time(claims: Mapping[str, object], name: str) -> float | None:
    at = claims.get(name)
    if at is None:
        return None
    if type(at) not in {int, float} or not isinstance(at, int | float) or not abs(at) <= _LAST:
        raise _refused(f"has a {name!r} that is no time")
    return float(at)


def _own_token(claims: Mapping[str, object], until: float) -> Token:
    issue, said = claims.get("issue"), _name(str(claims["sub"]))
    return Token(said, said, until, "", issue if isinstance(issue, int) else -1)


def _name(text: str) -> str:
    try:
        return exact_name(text)
    except Error as error:
        raise _refused(f"names a user that cannot be: {error.message}") from None


def _at(claims: Mapping[str, object], path: str) -> object:
    """Return the claim at a dotted path; a claim of exactly that name wins."""
    if path in claims:
        return claims[path]
    value: object = claims
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _roles(value: object, names: Mapping[str, str]) -> frozenset[str]:
    """Return the roles that a claim lists, in one text or several, by the operator's names."""
    words = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
    said = [word for word in words if isinstance(word, str)]
    mapped = (names.get(word, "") if names else word for word in said)
    kept = [word for word in mapped if 0 < len(word) <= ROLE_NAME_CHARS_MAX]
    return frozenset(kept[:USER_ROLES_MAX]) - (frozenset() if names else {"admin"})


def _refused(words: str) -> Error:
    return Error(Code.UNAUTHENTICATED, f"the token {words}")
