"""Rate limits of sign-in attempts, so that guessing passwords is slow (L11).

The right password must always get in, whatever others try (P3), so nothing here bans an address or
a client id. Each attempt is counted in *lanes*, by user name and by origin, and only attempts in
its own lanes can slow it down:

- A device, which is an MQTT client id (or HTTP) that has signed in as this user from this address
  within a week, has a lane of its own.
- All else at an address from which the user has signed in within a week shares a second one.
- Elsewhere there are three: of this name at this address; of this name at all addresses where it
  is not known, so that many addresses together guess no faster; and of all users at this address,
  so that it cannot try one password on everybody. Only wrong passwords of users count in the last.
- Cross-site requests of a browser have lanes of their own: of this name at this address, of this
  name everywhere, and of all users at this address. Any program can claim to be such a page, so
  these are as narrow as those of strangers.

A lane allows a burst of failures, then its rate (token bucket). A successful attempt is given back
and costs nothing. The clock is passed in; the number of lanes is bounded, and idle ones expire.
"""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final, Self

from rowcast.core.bounded import TtlMap
from rowcast.core.errors import Code, Error
from rowcast.core.limits import BAN_PEER_FACTOR, GUARD_ENTRIES_MAX, GUARD_KNOWN_SECONDS
from rowcast.core.peers import network, short
from rowcast.core.rate_limit import TokenBucket

log = logging.getLogger("rowcast.auth")

_Lane = tuple[str, ...]
_OF_ADDRESS: Final = frozenset({"peer", "page peer"})
"""Lanes of all users whom an address tries."""


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """One attempt: the normalized user name, its origin, and a digest of the credentials."""

    user: str
    peer: str = ""
    device: str = ""
    """An MQTT client id, or the word for HTTP."""
    foreign: bool = False
    """Whether a page of another site has made a browser send it."""
    secret: bytes = b""
    """Digest of the credentials: equal attempts at the same time count once. Empty: unknown."""
    is_user: bool = True
    """Whether there is such a user: of names that are nobody's a stranger has any number."""


class LoginRateLimit:
    """``failures`` at once and within ``seconds``; 0 is any number.

    A lane that belongs to a user's own devices, or to many, is ``wide`` times as large.
    """

    def __init__(
        self,
        failures: int = 20,
        seconds: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
        wide: int = BAN_PEER_FACTOR,
        known_seconds: float = GUARD_KNOWN_SECONDS,
        entries_max: int = GUARD_ENTRIES_MAX,
    ) -> None:
        self._failures = failures
        self._seconds = seconds
        self._clock = clock
        self._wide = wide
        self._addresses: TtlMap[_Lane, bool] = TtlMap(known_seconds, entries_max)
        self._devices: TtlMap[_Lane, bool] = TtlMap(known_seconds, entries_max)
        self._budgets: TtlMap[_Lane, TokenBucket] = TtlMap(seconds, entries_max)
        """Those that are not full: one that fades is as good as new."""
        self._nobodys: TtlMap[_Lane, TokenBucket] = TtlMap(seconds, entries_max)
        """The same of names that are nobody's: apart, so that these push no user's out."""
        self._under_way: dict[_Key, _UnderWay] = {}

    def knows(self, trial: LoginAttempt) -> bool:
        """Whether this user has signed in from this address recently."""
        key = network(trial.peer), short(trial.user)
        return not trial.foreign and self._addresses.get(key, self._clock()) is not None

    def check(self, trial: LoginAttempt) -> None:
        """Raise BUSY (429 or 0x89) if an attempt has to wait; it is not counted then."""
        self._check(trial, [*self._counted(trial), *self._spread(trial)])

    def begin(self, trial: LoginAttempt) -> "PendingAttempt":
        """Count a try. Raises BUSY when it has to wait."""
        secret = trial.secret or object()
        keys = [(lane, secret) for lane in self._counted(trial)]
        fresh = [lane for lane, _ in keys if (lane, secret) not in self._under_way]
        if fresh:
            self._check(trial, [*fresh, *self._spread(trial)])
        for lane in fresh:
            self._under_way[lane, secret] = _UnderWay()
            self._take(trial, lane)
        for key in keys:
            self._under_way[key].count += 1
        return PendingAttempt(self, trial, keys)

    def succeeded(self, trial: LoginAttempt) -> None:
        """Remember the address and device from which a user has signed in."""
        if not self._failures or trial.foreign:
            return
        now, key = self._clock(), (network(trial.peer), short(trial.user))
        self._addresses.put(key, True, now)
        self._devices.put((*key, short(trial.device)), True, now)

    def end(self, trial: LoginAttempt, keys: list["_Key"], *, wrong: bool, is_user: bool) -> None:
        """Forget a try that was under way; when it was not wrong, nothing was taken."""
        for number, key in enumerate(keys):
            same = self._under_way[key]
            same.count -= 1
            same.wrong |= wrong
            if same.count:
                continue
            del self._under_way[key]
            budget = self._table(trial, key[0]).get(key[0], self._clock())
            if not same.wrong and budget is not None:
                budget.give_back()
            elif same.wrong and is_user and not number:
                for lane in self._spread(trial):
                    self._take(trial, lane, debt=self._failures)

    @property
    def slowed(self) -> Iterator[tuple[str, float]]:
        """Lanes that are used up, and the seconds until the next try is let through."""
        now = self._clock()
        for lane, budget, _ in chain(self._budgets.left(now), self._nobodys.left(now)):
            if seconds := budget.wait(now):
                yield " ".join(lane), seconds

    # -- lanes -------------------------------------------------------------------------------------

    def _counted(self, trial: LoginAttempt) -> list[_Lane]:
        """Return the lanes in which each try is counted when it begins."""
        if not self._failures:
            return []
        peer, who, now = network(trial.peer), short(trial.user), self._clock()
        if trial.foreign:
            return [("page", peer, who), ("page user", who)]
        device = peer, who, short(trial.device)
        if self._devices.get(device, now) is not None:
            return [("device", *device)]
        if self._addresses.get((peer, who), now) is not None:
            return [("known", peer, who)]
        return [("at", peer, who), ("user", who)]

    def _spread(self, trial: LoginAttempt) -> list[_Lane]:
        """Return the lane of an address that tries many users: failures of these count in it.

        Many devices that come back together, each another user, are no failures.
        """
        if not self._failures or self.knows(trial):
            return []
        return [("page peer" if trial.foreign else "peer", network(trial.peer))]

    def _table(self, trial: LoginAttempt, lane: _Lane) -> TtlMap[_Lane, TokenBucket]:
        """Return where a lane's budget is: those of an address are there whoever it tries."""
        return self._budgets if trial.is_user or lane[0] in _OF_ADDRESS else self._nobodys

    def _check(self, trial: LoginAttempt, lanes: list[_Lane]) -> None:
        now = self._clock()
        budgets = [self._table(trial, lane).get(lane, now) for lane in lanes]
        seconds = max((budget.wait(now) for budget in budgets if budget is not None), default=0.0)
        if not seconds:
            return
        whole = max(1, round(seconds))
        raise Error(
            Code.BUSY,
            f"too many fail to sign in as this user; try again in {whole} seconds, or from where "
            "it signs in usually",
            rate=True,
            retry_after_seconds=whole,
        )

    def _take(self, trial: LoginAttempt, lane: _Lane, debt: float = 0.0) -> None:
        now, table = self._clock(), self._table(trial, lane)
        budget = table.get(lane, now)
        if budget is None:
            narrow = lane[0] in {"at", "page"}
            most = self._failures * (1 if narrow else self._wide)
            budget = TokenBucket(most / self._seconds, now, most)
        budget.take(1, now, debt)
        table.put(lane, budget, now)
        if budget.wait(now):
            log.warning("tries are slowed down for a while: %s: failed logins", " ".join(lane))


class _UnderWay:
    """Tries in one lane with the same secret: how many, and whether it was wrong."""

    __slots__ = ("count", "wrong")

    def __init__(self) -> None:
        self.count = 0
        self.wrong = False


class PendingAttempt:
    """One try that is under way, while its ``with`` lasts; without a word it does not count."""

    __slots__ = ("_is_user", "_keys", "_trial", "_tries", "_wrong")

    def __init__(self, tries: LoginRateLimit, trial: LoginAttempt, keys: list["_Key"]) -> None:
        self._tries = tries
        self._trial = trial
        self._keys = keys
        self._wrong = False
        self._is_user = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tries.end(self._trial, self._keys, wrong=self._wrong, is_user=self._is_user)

    def succeeded(self) -> None:
        """Record success."""
        self._tries.succeeded(self._trial)

    def failed(self, *, is_user: bool) -> None:
        """Record failure, and whether the user exists at all."""
        self._wrong, self._is_user = True, is_user


_Key = tuple[_Lane, object]
