"""Plain passwords: checked in threads, because hashing is meant to take long, and remembered.

A password that was right is recognised for as long as its user's verifier stays as it is, by a
keyed digest, so that a thousand devices that reconnect cost no hashing. An unknown user costs the
same work as a wrong password. How many may wait is bounded.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from app.auth.users import User, Users, decoy, password_text, user_name
from app.auth.verifier import Verifier, sign, wrong_password
from app.core.entry_limits import (
    PASSWORD_CACHE_ENTRIES_MAX,
    PASSWORD_CHECKS_AT_ONCE,
    PASSWORD_CHECKS_WAITING_MAX,
)
from app.core.errors import Code, Error


class Run(Protocol):
    """Runs blocking work elsewhere: ``asyncio.to_thread``, or a test's own."""

    def __call__(self, call: Callable[[str], bool], password: str, /) -> Awaitable[bool]:
        """Return the call's result, later."""


class Passwords:
    """Finds the user of a name and password; ``key`` is fresh random bytes."""

    def __init__(self, users: Users, key: bytes, run: Run = asyncio.to_thread) -> None:
        self._users = users
        self._key = key
        self._run = run
        self._turns = asyncio.Semaphore(PASSWORD_CHECKS_AT_ONCE)
        self._waiting = 0
        self._right: dict[bytes, None] = {}
        """Digests of what was right, the oldest first."""

    async def user(self, name: str, password: bytes, secret: bytes) -> User:
        """Return who it is. Raises UNAUTHENTICATED, and BUSY when too many wait."""
        try:
            name, text = user_name(name), password_text(password)
        except Error:  # it can be nobody's; this tells nothing about who there is
            raise wrong_password() from None
        user = await self._users.find(name)
        verifier = user.verifier if user is not None else None
        if user is None or verifier is None:
            await self._check(decoy(name, secret), text)
            raise wrong_password()
        known = sign(self._key, f"{name}\0{verifier}\0{text}".encode())
        if known in self._right:
            return user
        if not await self._check(verifier, text):
            raise wrong_password()
        if len(self._right) >= PASSWORD_CACHE_ENTRIES_MAX:
            del self._right[next(iter(self._right))]
        self._right[known] = None
        return user

    async def _check(self, verifier: Verifier, password: str) -> bool:
        """Compare in a thread, a few at a time."""
        if self._waiting >= PASSWORD_CHECKS_WAITING_MAX:
            raise Error(Code.BUSY, "too many are signing in; try again in a moment")
        self._waiting += 1
        try:
            async with self._turns:
                return await self._run(verifier.matches, password)
        finally:
            self._waiting -= 1
