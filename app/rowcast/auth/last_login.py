"""Last logins: when and by which door each user signed in last, and when it last failed to.

They are in memory only, since the server started: writing a file at each login would cost more
than it tells. Only names that are users' are remembered, so that no stranger can fill it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from rowcast.core.authentication_limits import SIGHTINGS_MAX
from rowcast.core.bounded import BoundedCache


@dataclass(slots=True)
class LastLogin:
    """The last logins of one user; times are in seconds since 1970 (UTC)."""

    last_seen: float | None = None
    door: str | None = None
    peer: str | None = None
    last_failure: float | None = None
    failure: str | None = None
    failures: int = 0


class LastLogins:
    """By user name, the least recently seen first."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._known: BoundedCache[str, LastLogin] = BoundedCache(SIGHTINGS_MAX)

    def of(self, name: str) -> LastLogin:
        """Return the last logins of a user."""
        return self._known.get(name) or LastLogin()

    def seen(self, name: str, door: str, peer: str) -> None:
        """Note that a user has signed in."""
        sighting = self._touched(name)
        sighting.last_seen, sighting.door, sighting.peer = self._now(), door, peer

    def failed(self, name: str, message: str) -> None:
        """Note that somebody failed to sign in as this user (L9)."""
        sighting = self._touched(name)
        sighting.last_failure, sighting.failure = self._now(), message
        sighting.failures += 1

    def _touched(self, name: str) -> LastLogin:
        return self._known.use(name) or self._known.put(name, LastLogin())
