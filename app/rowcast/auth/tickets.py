"""Tickets: single-use credentials for browsers where they cannot send a header (C27).

A ticket is for one use within seconds, so that it is worth nothing where URLs are kept. It stands
for the caller who asked for it. Of a ticket only its digest is in memory.
"""

import hashlib
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from rowcast.core.authentication_limits import (
    TICKET_BYTES,
    TICKET_SECONDS,
    TICKETS_MAX,
    TICKETS_OF_USER_MAX,
)
from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error


class Tickets:
    """The tickets that nobody has shown yet, the oldest first."""

    def __init__(
        self,
        now: Callable[[], float],
        random: Callable[[int], bytes],
        tickets_max: int = TICKETS_MAX,
        of_user_max: int = TICKETS_OF_USER_MAX,
    ) -> None:
        self._tickets_max = tickets_max
        self._of_user_max = of_user_max
        self._now = now
        self._random = random
        self._waiting: dict[bytes, tuple[Caller, float]] = {}
        self._of_user: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._waiting)

    def make(self, caller: Caller) -> tuple[str, float]:
        """Return a ticket for a signed-in caller, and its expiry time. Raises BUSY."""
        now = self._now()
        while self._waiting:
            digest, (_, until) = next(iter(self._waiting.items()))
            if until > now:
                break
            self._drop(digest)
        full = len(self._waiting) >= self._tickets_max
        if full or self._of_user[caller.user] >= self._of_user_max:
            raise Error(Code.BUSY, "too many tickets were asked for and not used; try again")
        ticket = urlsafe_b64encode(self._random(TICKET_BYTES)).rstrip(b"=").decode()
        self._waiting[_digest(ticket)] = caller, now + TICKET_SECONDS
        self._of_user[caller.user] += 1
        return ticket, now + TICKET_SECONDS

    def take(self, ticket: str, peer: str, door: str) -> Caller:
        """Return the caller of a ticket and invalidate it. Raises UNAUTHENTICATED."""
        caller, until = self._drop(_digest(ticket))
        if caller is None or until <= self._now():
            raise Error(
                Code.UNAUTHENTICATED,
                f"the ticket was used, or is older than {TICKET_SECONDS} seconds; take a new one",
            )
        return replace(caller, peer=peer, door=door)

    def _drop(self, digest: bytes) -> tuple[Caller | None, float]:
        """Return whose ticket it was and until when, once."""
        caller, until = self._waiting.pop(digest, (None, 0.0))
        if caller is not None:
            self._of_user[caller.user] -= 1
            if not self._of_user[caller.user]:
                del self._of_user[caller.user]
        return caller, until


def _digest(ticket: str) -> bytes:
    return hashlib.sha256(ticket.encode(errors="replace")).digest()
