"""Who is it: what a peer showed at a door becomes a Caller, or a refusal.

Every door asks the one ``Authenticator``, so that a rule about users is stated once. It must not
know protocols: a door maps the Error that it raises to its own words.
"""

import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from app.auth.anonymous import Policy, anonymous_from
from app.auth.certificates import user_of
from app.auth.exchange import Exchange, ScramExchange
from app.auth.passwords import Passwords
from app.auth.scram import METHOD
from app.auth.users import User, Users, user_name
from app.auth.verifier import wrong_password
from app.core.callers import ALL, Caller
from app.core.errors import Code, Error

_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a peer showed: a name and password, a certificate, or only its address.

    ``certificate`` is what ``getpeercert()`` of a verified TLS connection returned, else None.
    """

    username: str | None = None
    password: bytes | None = None
    certificate: Mapping[str, object] | None = None
    client_id: str = ""
    peer: str = ""
    door: str = "server"


class Authenticator:
    """Makes the Caller of credentials.

    ``required`` are doors where everyone must sign in as soon as there are users; ``random`` gives
    so many unpredictable bytes; ``certificate_user`` is the rule of ``certificates.py:user_of``,
    empty when certificates name nobody.
    """

    def __init__(
        self,
        anonymous: Policy = "loopback",
        users: Users | None = None,
        required: Collection[str] = (),
        random: Callable[[int], bytes] = secrets.token_bytes,
        certificate_user: str = "Common Name",
    ) -> None:
        self._anonymous = anonymous_from(anonymous)
        self._users = users
        self._required = required
        self._random = random
        self._certificate_user = certificate_user
        self._passwords = Passwords(users, random(_KEY_BYTES)) if users is not None else None
        self.failures = 0
        """How many were refused."""

    async def identify(self, credentials: Credentials) -> Caller:
        """Return who it is. Raises UNAUTHENTICATED, DENIED, or BUSY when too many sign in."""
        try:
            return await self._identify(credentials)
        except Error:
            self.failures += 1
            raise

    async def _identify(self, shown: Credentials) -> Caller:
        secret = await self._users.secret() if self._users is not None else None
        named = bool(shown.certificate and self._certificate_user)
        if named and (shown.password is None or secret is None):
            return self.caller(await self._certified(shown, users=secret is not None), shown)
        nameless = shown.username is None and shown.password is None
        if self._passwords is None or secret is None or nameless:
            return self._nameless(shown, users=secret is not None)
        if shown.username is None or shown.password is None:
            raise Error(Code.UNAUTHENTICATED, "a user name and a password are needed together")
        user = await self._passwords.user(shown.username, shown.password, secret)
        return self.caller(user, shown)

    async def exchange(self, method: str) -> Exchange | None:
        """Return a dialogue of this method; None when it is not offered."""
        secret = await self._users.secret() if self._users is not None else None
        if self._users is None or secret is None or method != METHOD:
            return None
        return ScramExchange(self._users, secret, self._random)

    def caller(self, user: User, credentials: Credentials) -> Caller:
        """Return the Caller that a user is at a door."""
        return Caller(
            user.name,
            user.grants,
            credentials.door,
            client_id=credentials.client_id,
            peer=credentials.peer,
        )

    async def _certified(self, shown: Credentials, *, users: bool) -> User:
        """Return the user that a certificate names; when there are users, it is one of them."""
        try:
            name = user_name(user_of(shown.certificate, self._certificate_user))
        except Error as error:
            raise Error(Code.DENIED, f"the certificate's name: {error.message}") from None
        if shown.username not in {None, name}:
            raise Error(Code.DENIED, "the user name is another than the certificate's")
        if self._users is None or not users:
            return User(name, ALL)
        user = await self._users.find(name)
        if user is None:
            raise Error(Code.DENIED, f"the certificate's name {name!r} is no user's")
        return user

    def _nameless(self, credentials: Credentials, *, users: bool) -> Caller:
        caller = self._anonymous(credentials.peer, credentials.door)
        if users and credentials.door in self._required:
            raise Error(Code.DENIED, "a user name and a password are needed; sign in")
        if not caller.grants.read and not caller.grants.write:
            if credentials.username is not None:
                raise wrong_password()
            raise Error(
                Code.DENIED, "callers without a name are accepted from this machine only; sign in"
            )
        return replace(caller, client_id=credentials.client_id)
