"""Authentication: turns the credentials of a peer into a Caller, or refuses them.

Every door asks the one ``Authenticator``, so that a rule about users is stated once; ``judge`` says
later whether a Caller is still who it was. It must not know protocols: a door maps the Error that
it raises to its own words.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from rowcast.auth.anonymous import STRANGER, Policy, anonymous_from
from rowcast.auth.certificates import user_of
from rowcast.auth.last_login import LastLogins
from rowcast.auth.passwords import Passwords, Run
from rowcast.auth.sasl import Exchange, ScramExchange
from rowcast.auth.scram import METHOD
from rowcast.auth.tickets import Tickets
from rowcast.auth.tokens import Token, Tokens, is_token
from rowcast.auth.tries import LoginAttempt, LoginRateLimit
from rowcast.auth.users import User, Users, exact_name, granted, rate_limit_name
from rowcast.auth.verifier import wrong_password
from rowcast.core.callers import ADMIN, NONE, Caller, Grants
from rowcast.core.errors import Code, Error
from rowcast.core.listener_limits import PEERS_CACHED_MAX
from rowcast.core.peers import site

_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of a peer: name and password, a token, a certificate, or only its address.

    ``certificate`` is what ``getpeercert()`` of a verified TLS connection returned, else None. A
    token may also come in the place of the password.
    """

    username: str | None = None
    password: bytes | None = None
    certificate: Mapping[str, object] | None = None
    client_id: str = ""
    peer: str = ""
    door: str = "server"
    token: bytes | None = None
    foreign: bool = False
    """Whether a page of another site has made a browser show it."""
    host: str = ""
    """The name that HTTP was asked by, with its port: what tells pages of a browser apart."""


class Authenticator:
    """Makes the Caller of credentials.

    ``required`` are doors where everyone must sign in as soon as there are users; ``random`` gives
    so many unpredictable bytes; ``certificate_user`` is the rule of ``certificates.py:user_of``,
    empty when certificates name nobody; ``foreign_grants`` is what a foreign token's user may do
    without roles; ``tries`` says how often somebody may try a password; ``run`` compares one on
    another thread.
    """

    def __init__(
        self,
        anonymous: Policy = "loopback",
        users: Users | None = None,
        required: Collection[str] = (),
        random: Callable[[int], bytes] = secrets.token_bytes,
        certificate_user: str = "Common Name",
        tokens: Tokens | None = None,
        foreign_grants: Grants = NONE,
        now: Callable[[], float] = time.time,
        tries: LoginRateLimit | None = None,
        run: Run = asyncio.to_thread,
    ) -> None:
        self._anonymous = lru_cache(PEERS_CACHED_MAX)(anonymous_from(anonymous))
        self._users = users
        self._required = required
        self._random = random
        self._certificate_user = certificate_user
        self._passwords = Passwords(users, random(_KEY_BYTES), run) if users is not None else None
        self._tokens = tokens or Tokens(now)
        self._foreign_grants = foreign_grants
        self._now = now
        self.tickets = Tickets(now, random)
        self.tries = tries or LoginRateLimit()
        self.sightings = LastLogins(now)
        self.failures = 0
        """How many were refused."""

    @property
    def in_force(self) -> bool:
        """Whether anybody can sign in: without users and trusted issuers, names mean nothing."""
        with_users = self._users is not None and self._users.in_force
        return with_users or self._tokens.foreign is not None

    async def identify(self, credentials: Credentials) -> Caller:
        """Return the Caller. Raises UNAUTHENTICATED, DENIED, or BUSY when too many sign in."""
        try:
            return await self._identify(credentials)
        except Error as error:
            self.failed(credentials.username or "", error)
            raise

    def at_once(self, peer: str, door: str, client_id: str) -> Caller | None:
        """Return the Caller of who shows nothing but its address; None: ``identify`` tells.

        That has to wait for a look at the users, or refuses it.
        """
        if self._users is not None and not self._users.look_ahead():
            return None
        try:
            return self._nameless(peer, door, client_id, users=self.in_force)
        except Error:
            return None

    def failed(self, name: str, error: Error) -> None:
        """Count a failed sign-in, under the name that it claimed (L9)."""
        if error.code is Code.BUSY:  # what it showed was not looked at
            return
        self.failures += 1
        if self.is_user(name):
            self.sightings.failed(name, error.message)

    async def _identify(self, shown: Credentials) -> Caller:
        secret = await self._users.secret() if self._users is not None else None
        foreign = self._tokens.foreign is not None
        data = shown.token
        if data is None and is_token(shown.password) and (secret is not None or foreign):
            data = shown.password
        if data is not None:
            return self._with_token(data, secret, shown)
        named = bool(shown.certificate and self._certificate_user)
        if named and (shown.password is None or secret is None):
            return self.caller(await self._certified(shown, users=secret is not None), shown)
        nameless = shown.username is None and shown.password is None
        if foreign and secret is None and not nameless:
            raise Error(Code.UNAUTHENTICATED, "there are no users with passwords; show a token")
        if self._passwords is None or secret is None or nameless:
            users, tried = secret is not None or foreign, shown.username is not None
            return self._nameless(shown.peer, shown.door, shown.client_id, users=users, tried=tried)
        if shown.username is None or shown.password is None:
            raise Error(Code.UNAUTHENTICATED, "a user name and a password are needed together")
        user = await self._with_password(self._passwords, shown.username, shown.password, shown)
        return self.caller(user, shown)

    async def _with_password(
        self, passwords: Passwords, name: str, password: bytes, shown: Credentials
    ) -> User:
        """Return whose name and password it is, unless too many guess (L11, P3)."""
        secret = await self._users.secret() if self._users is not None else None
        trial = self.trial(name, shown, passwords.digest(name, password))
        lane = f"{'known' if self.tries.knows(trial) else 'other'} {site(shown.peer)}"
        with self.tries.begin(trial) as attempt:
            try:
                user = await passwords.user(name, password, secret or b"", lane)
            except Error as error:
                if error.code is Code.UNAUTHENTICATED:
                    attempt.failed(is_user=self.is_user(trial.user))
                raise
            attempt.succeeded()
            return user

    def trial(self, name: str, shown: Credentials, secret: bytes = b"") -> LoginAttempt:
        """Return the key that sign-in attempts of a user are counted under."""
        device = f"client {shown.client_id}" if shown.client_id else f"HTTP {shown.host}".rstrip()
        tried = rate_limit_name(name)
        is_user = self.is_user(tried)
        return LoginAttempt(tried, shown.peer, device, shown.foreign, secret, is_user)

    def is_user(self, name: str) -> bool:
        """Whether a user of this name existed when the file was last read."""
        return self._users is not None and self._users.known(name) is not None

    async def exchange(self, method: str) -> Exchange | None:
        """Return a dialogue of this method; None when it is not offered."""
        secret = await self._users.secret() if self._users is not None else None
        if self._users is None or secret is None or method != METHOD:
            return None
        return ScramExchange(self._users, secret, self._random)

    def caller(self, user: User, credentials: Credentials) -> Caller:
        """Return the Caller that a user is at a door, with the rights that it has now.

        It was looked up before its proof was checked, which takes a while, or as long as a client
        likes. Raises UNAUTHENTICATED when it was removed or its password was replaced meanwhile,
        and DENIED when it is disabled.
        """
        users = self._users
        known = users.known(user.name) if users is not None else user
        if known is not user and users is not None and users.in_force:
            if known is None or known.issue != user.issue:
                raise wrong_password()
            user = known
        if user.disabled:
            raise _disabled(user.name)
        self.sightings.seen(user.name, credentials.door, credentials.peer)
        caller = self.as_caller(user, credentials.door)
        return replace(caller, client_id=credentials.client_id, peer=credentials.peer)

    def as_caller(self, user: User, door: str) -> Caller:
        """Return the caller that a user would be."""
        return Caller(
            user.name,
            self._rights(user),
            door,
            roles=user.roles,
            claims=user.attributes,
            issue=user.issue,
        )

    def anonymous(self, peer: str, door: str, client_id: str = "") -> Caller:
        """Return the Caller of a peer without a name; it administers only while nobody has one."""
        caller = self._anonymous(peer, door)
        grants, roles = caller.grants, caller.roles
        if grants.administer and self.in_force:
            grants = grants & STRANGER
        elif grants.administer:
            roles = _ADMIN
        return Caller(caller.user, grants, door, client_id, peer, roles)

    def _rights(self, user: User) -> Grants:
        return granted(user.grants, user.roles, self._users.roles if self._users else {})

    # -- tokens ------------------------------------------------------------------------------------

    async def token(self, caller: Caller, seconds: float) -> tuple[str, float]:
        """Return a token for a signed-in caller, and its expiry time.

        It holds no longer than what the caller showed. Raises UNAUTHENTICATED for who is nobody's
        user here.
        """
        user = await self._users.find(caller.user) if self._users is not None else None
        secret = await self._users.secret() if self._users is not None else None
        if user is not None and user.issue != caller.issue and not caller.issuer:
            raise _replaced(user.name)
        if user is None or secret is None or caller.issuer:
            raise Error(
                Code.UNAUTHENTICATED,
                "tokens are for this server's users: sign in with a name and password (rowcast "
                "user add)",
            )
        return self._tokens.make(user, secret, min(seconds, caller.until - self._now()))

    def _with_token(self, data: bytes, secret: bytes | None, shown: Credentials) -> Caller:
        if not self.in_force:
            raise Error(
                Code.UNAUTHENTICATED,
                "there are no users and no trusted issuers, so no token is taken here",
            )
        token = self._tokens.read(data, secret)
        if shown.username not in {None, "", token.user, token.said}:
            raise Error(Code.UNAUTHENTICATED, "the user name is another than the token's")
        known = self._users.known(token.user) if self._users is not None else None
        if token.issuer:
            if known is not None and known.disabled:
                raise _disabled(token.user)
            caller = self._foreign(token, shown)
        else:
            if known is None or known.issue != token.issue:
                raise Error(Code.UNAUTHENTICATED, "the token was revoked; sign in anew")
            caller = self.caller(known, shown)
        return replace(caller, until=token.until)

    def _foreign(self, token: Token, shown: Credentials) -> Caller:
        return Caller(
            token.user,
            self._foreign_rights(token.roles),
            shown.door,
            client_id=shown.client_id,
            peer=shown.peer,
            roles=token.roles,
            claims=token.claims,
            issuer=token.issuer,
        )

    def _foreign_rights(self, roles: frozenset[str]) -> Grants:
        return granted(self._foreign_grants, roles, self._users.roles if self._users else {})

    # -- later -------------------------------------------------------------------------------------

    def is_removed(self, name: str) -> bool:
        """Tell whether a name is nobody's; where others name users too, that is not known."""
        if self._users is None or not self._users.in_force or self._tokens.foreign is not None:
            return False
        return name != "anonymous" and self._users.known(name) is None

    def judge(self, caller: Caller) -> Caller:
        """Return a caller as it is now: itself, when nothing of it has changed (L8).

        Raises UNAUTHENTICATED when it has to sign in anew, DENIED when it may not be here.
        """
        if self._now() >= caller.until:
            raise Error(Code.UNAUTHENTICATED, "the token is over; sign in with a new one")
        if caller.user == "anonymous":
            try:
                fresh = self._nameless(caller.peer, caller.door, users=self.in_force)
            except Error as error:  # it was let in when nobody had a name
                raise Error(Code.UNAUTHENTICATED, error.message) from None
            return _renewed(caller, fresh.grants, fresh.roles, caller.claims)
        if self._users is None:
            return caller
        if not self._users.in_force and not caller.issuer:
            # Named by a certificate. What is kept of it may be from when it could administer.
            return _renewed(caller, caller.grants & STRANGER, frozenset(), caller.claims)
        caller = self._tokens.named(caller) if caller.issuer else caller
        user = self._users.known(caller.user)
        if user is not None and user.disabled:
            raise _disabled(caller.user)
        if caller.issuer:
            rights = self._foreign_rights(caller.roles)
            return _renewed(caller, rights, caller.roles, caller.claims)
        if user is None:
            raise Error(Code.UNAUTHENTICATED, f"the user {caller.user!r} was removed")
        if user.issue != caller.issue:
            raise _replaced(caller.user)
        return _renewed(caller, self._rights(user), user.roles, user.attributes)

    async def _certified(self, shown: Credentials, *, users: bool) -> User:
        """Return the user that a certificate names; when there are users, it is one of them."""
        try:
            name = exact_name(user_of(shown.certificate, self._certificate_user))
        except Error as error:
            raise Error(Code.DENIED, f"the certificate's name: {error.message}") from None
        if shown.username not in {None, name}:
            raise Error(Code.DENIED, "the user name is another than the certificate's")
        if self._users is None or not users:
            return User(name, STRANGER)  # its authority says who it is, and not what it may do
        user = await self._users.find(name)
        if user is None:
            raise Error(Code.DENIED, f"the certificate's name {name!r} is no user's")
        return user

    def _nameless(
        self, peer: str, door: str, client_id: str = "", *, users: bool, tried: bool = False
    ) -> Caller:
        """Return the Caller of a peer without a name; ``tried``: it has shown one.

        Raises DENIED, or UNAUTHENTICATED.
        """
        caller = self.anonymous(peer, door, client_id)
        if users and door in self._required:
            raise Error(Code.DENIED, "a user name and a password are needed; sign in")
        if not caller.grants.read and not caller.grants.write:
            if tried:
                raise wrong_password()
            raise Error(
                Code.DENIED, "callers without a name are accepted from this machine only; sign in"
            )
        return caller


_ADMIN = frozenset({ADMIN})


def is_same(one: Caller, other: Caller) -> bool:
    """Whether two callers have equal rights with equal expiry."""
    return (one.grants, one.roles, one.claims, one.issue, one.until) == (
        other.grants,
        other.roles,
        other.claims,
        other.issue,
        other.until,
    )


def _disabled(name: str) -> Error:
    return Error(Code.DENIED, f"the user {name!r} is disabled; ask an administrator")


def _replaced(name: str) -> Error:
    what = f"the password of {name!r} was changed, or its tokens and connections were ended"
    return Error(Code.UNAUTHENTICATED, f"{what}; sign in anew")


def _renewed(
    caller: Caller, grants: Grants, roles: frozenset[str], claims: Mapping[str, object]
) -> Caller:
    """Return the caller itself where all is the same, so that its writes stay in order."""
    if (caller.grants, caller.roles, caller.claims) == (grants, roles, claims):
        return caller
    return replace(caller, grants=grants, roles=roles, claims=claims)
