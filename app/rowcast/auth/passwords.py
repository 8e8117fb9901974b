"""Plain passwords: checked in threads, because hashing is meant to take long, and remembered.

A correct password is remembered by a keyed digest until its stored hash changes, so that a thousand
devices that reconnect cost no hashing. An unknown user costs the same work as a wrong password: one
argon2id, or one PBKDF2 for a share of the names while there are users who have nothing else. The
number of waiting checks is bounded, and callers take turns (``turns``).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from rowcast.auth.hash_queue import HashQueue
from rowcast.auth.hashes import Hash, decoy_hash, make_hash
from rowcast.auth.users import Check, User, Users, decoy, password_text, user_name
from rowcast.auth.verifier import Verifier, make_verifier, sign, wrong_password
from rowcast.core.authentication_limits import (
    PASSWORD_CACHE_ENTRIES_MAX,
    PASSWORD_ITERATIONS,
    PASSWORD_SALT_BYTES,
)
from rowcast.core.bounded import BoundedCache
from rowcast.core.errors import Error


class Run(Protocol):
    """Runs blocking work elsewhere: ``asyncio.to_thread``, or a test's own."""

    def __call__(self, call: Callable[[str], bool], password: str, /) -> Awaitable[bool]:
        """Return the call's result, later."""


class Passwords:
    """Finds the user of a name and password; ``key`` is fresh random bytes."""

    def __init__(
        self,
        users: Users,
        key: bytes,
        run: Run = asyncio.to_thread,
        turns: HashQueue | None = None,
        remembered_max: int = PASSWORD_CACHE_ENTRIES_MAX,
        decoy_iterations: int = PASSWORD_ITERATIONS,
    ) -> None:
        self._users = users
        self._key = key
        self._run = run
        self._turns = turns or HashQueue()
        self._decoy_iterations = decoy_iterations
        self._right: BoundedCache[bytes, None] = BoundedCache(remembered_max)
        """Digests of correct passwords, the oldest first."""

    def digest(self, name: str, password: bytes) -> bytes:
        """Return a digest that identifies equal attempts without revealing the password."""
        return sign(self._key, name.encode(errors="replace") + b"\0" + password)

    async def user(self, name: str, password: bytes, secret: bytes, lane: str = "") -> User:
        """Return the user; checks in the same lane wait for each other.

        Raises UNAUTHENTICATED, and BUSY when too many wait.
        """
        try:
            name, text = user_name(name), password_text(password)
        except Error:  # it can be nobody's; this tells nothing about who there is
            raise wrong_password() from None
        user = await self._users.find(name)
        check = user.check if user is not None else None
        if user is None or check is None:
            await self._check(self._decoy(name, secret), text, lane)
            raise wrong_password()
        known = sign(self._key, f"{name}\0{check}\0{text}".encode())
        if known in self._right:
            return user
        if not await self._check(check, text, lane):
            raise wrong_password()
        self._right.put(known, None)
        return user

    def _decoy(self, name: str, secret: bytes) -> Check:
        """Return a decoy hash, as costly to check as a user's; its kind follows from the name."""
        older, newer = self._users.kinds
        if older and (not newer or sign(secret, b"kind " + name.encode())[0] % 2):
            return decoy(name, secret, self._decoy_iterations)
        return decoy_hash(name, secret)

    async def _check(self, check: Check, password: str, lane: str) -> bool:
        """Compare in a thread, a few at a time."""
        async with self._turns.turn(lane):
            return await self._run(check.matches, password)


def keep_password(
    text: str,
    random: Callable[[int], bytes],
    *,
    scram: bool,
    iterations: int = PASSWORD_ITERATIONS,
) -> "Kept":
    """Return the hash to store for a prepared password; takes tens of milliseconds of CPU."""
    hashed = make_hash(text, random(PASSWORD_SALT_BYTES))
    if not scram:
        return None, hashed
    return make_verifier(text, random(PASSWORD_SALT_BYTES), iterations), hashed


Kept = tuple[Verifier | None, Hash]
"""The verifier for SCRAM, if SCRAM is offered, and the hash for plain passwords."""
