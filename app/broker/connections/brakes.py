"""Brakes: who fails to sign in as a user is slowed down where a ban would keep the user out (L11).

An address from which a user has signed in lately is known for it. There a ban of both would be the
user's own, so tries as that user are let through now and then instead: on the average as many as
between two bans. And where many addresses guess one user's password, each a little, all that are
not known for it share that rate; the user goes on signing in from where it always does.

It decides over counts and times that are given; what it remembers is bounded and fades.
"""

from app.broker.connections.fading import Fading
from app.core.buckets import Bucket
from app.core.limits import BAN_PEER_FACTOR, GUARD_ENTRIES_MAX, GUARD_KNOWN_SECONDS


class Brakes:
    """``most`` failures within ``within_seconds`` brake for ``seconds``; 0 is never."""

    def __init__(self, most: int, within_seconds: float, seconds: float) -> None:
        self._most = most
        self._rate = most / seconds
        self._known: Fading[tuple[str, str], bool] = Fading(GUARD_KNOWN_SECONDS, GUARD_ENTRIES_MAX)
        self._failures: Fading[str, list[int]] = Fading(within_seconds, GUARD_ENTRIES_MAX)
        self._braked: Fading[tuple[str, ...], Bucket] = Fading(seconds, GUARD_ENTRIES_MAX)

    def succeeded(self, peer: str, who: str, now: float) -> None:
        """Remember an address from which a user has signed in."""
        if self._most:
            self._known.put((peer, who), True, now)

    def knows(self, peer: str, who: str, now: float) -> bool:
        """Tell whether a user has signed in from an address lately."""
        return self._known.get((peer, who), now) is not None

    def failed(self, who: str, now: float) -> None:
        """Count a failure as a user, from wherever it came."""
        if not self._most:
            return
        count = self._failures.get(who, now)
        if count is None:
            count = [0]
            self._failures.put(who, count, now)
        count[0] += 1
        if count[0] >= self._most * BAN_PEER_FACTOR:
            self._failures.drop(who)
            self.brake((who,), now)

    def brake(self, key: tuple[str, ...], now: float) -> None:
        """Brake a user at an address, or, alone, at all addresses that are not known for it."""
        self._braked.put(key, Bucket(self._rate, now), now)

    def wait(self, peer: str, who: str, now: float) -> float:
        """Return for how many seconds a try has to wait; 0 lets it through, and counts it."""
        if not len(self._braked):
            return 0
        keys: list[tuple[str, ...]] = [(peer, who)]
        if not self.knows(peer, who, now):
            keys.append((who,))
        buckets = [bucket for key in keys if (bucket := self._braked.get(key, now)) is not None]
        if all(bucket.take_if_room(1, now) for bucket in buckets):
            return 0
        return 1 / self._rate
