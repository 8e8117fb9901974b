"""The guard: admission of connections, and temporary bans (D6, D56, D57).

It uses counts and a clock that is passed in; it knows neither sockets, sessions nor packets. Its
state is bounded and expires, so that a flood from a million addresses costs a fixed amount of
memory. An IPv6 peer is its /64 network, which one customer has.

Connections closed without DISCONNECT are *offences*, counted in a fixed window from the first one:
those of one client id, and, as many clients may share an address, BAN_PEER_FACTOR times as many of
one peer. They are counted per user, and checked after authentication; otherwise a client without a
password could lock out others (P3). Failed logins cause no ban: they are slowed down where
passwords are checked (``auth.tries``).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from rowcast.core.bounded import TtlMap
from rowcast.core.callers import Caller
from rowcast.core.limits import BAN_PEER_FACTOR, GUARD_ENTRIES_MAX
from rowcast.core.peers import network, short
from rowcast.core.rate_limit import KeyedRateLimit, TokenBucket
from rowcast.mqtt.reasons import Reason

log = logging.getLogger("rowcast.mqtt")


class Refusal(NamedTuple):
    """The refusal of a connection: the reason of its CONNACK, and a message."""

    reason: Reason
    message: str


class Ban(NamedTuple):
    """A temporary ban of a ``peer``, or a ``client`` id.

    ``name`` is the address or the client id, and its user, if any.
    """

    kind: str
    name: str
    why: str
    seconds_left: float


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """Limits; 0 is none."""

    sent_away: Reason | None = None
    """The reason to refuse all clients: Use another server or Server moved (MQTT 5, 4.11)."""
    full: Reason = Reason.QUOTA_EXCEEDED
    """The reason beyond ``connections_max``; Use another server, if there is one."""
    connections_max: int = 0
    connections_per_peer_max: int = 0
    connects_per_second: float = 0
    connects_per_peer_per_second: float = 0
    drops: int = 0
    """Connections of one client id closed without DISCONNECT, before it is banned."""
    within_seconds: float = 60
    ban_seconds: float = 300


class LoginThrottle:
    """Counts connections and offences."""

    def __init__(self, settings: GuardSettings, now: Callable[[], float]) -> None:
        self.settings = settings
        self._now = now
        self.connections = 0
        """Open connections."""
        self.shedding = False
        """Whether connections are refused because memory is short (K9)."""
        self._by_peer: dict[str, int] = {}
        self._rate: TokenBucket | None = None
        rate = settings.connects_per_peer_per_second
        self._peer_rates = KeyedRateLimit[str](rate, GUARD_ENTRIES_MAX) if rate else None
        self._drops: _Offences = TtlMap(settings.within_seconds, GUARD_ENTRIES_MAX)
        self._bans: TtlMap[_Who, str] = TtlMap(settings.ban_seconds, GUARD_ENTRIES_MAX)
        self.refusals: dict[Reason, int] = {}
        """Connections refused, by reason."""
        self.banned = 0
        """All bans so far."""

    # -- connections -------------------------------------------------------------------------------

    def enter(self, address: str) -> Refusal | None:
        """Admit and count a connection, or return the refusal.

        Called before any state is created. Admitted connections must ``exit``.
        """
        peer = network(address)
        refusal = self._check(peer)
        if refusal is not None:
            return self._refuse(refusal)
        self.connections += 1
        if peer:
            self._by_peer[peer] = self._by_peer.get(peer, 0) + 1
        return None

    def exit(self, address: str) -> None:
        """Count a closed connection."""
        peer = network(address)
        self.connections -= 1
        if peer:
            left = self._by_peer[peer] - 1
            if left:
                self._by_peer[peer] = left
            else:
                del self._by_peer[peer]

    def _check(self, peer: str) -> Refusal | None:
        limits = self.settings
        if self.shedding:
            return Refusal(Reason.SERVER_BUSY, "the server is short of memory; try again later")
        if limits.sent_away is not None:
            return Refusal(limits.sent_away, "this server takes no more connections")
        now = self._now()
        if limits.connections_max and self.connections >= limits.connections_max:
            return Refusal(limits.full, "the server has as many connections as it takes")
        most = limits.connections_per_peer_max
        if most and self._by_peer.get(peer, 0) >= most:
            return Refusal(
                Reason.QUOTA_EXCEEDED, f"an address may have {most} connections at a time"
            )
        if not self._within_rates(peer, now):
            return Refusal(
                Reason.CONNECTION_RATE_EXCEEDED, "too many connections at once; try again later"
            )
        return None

    def _within_rates(self, peer: str, now: float) -> bool:
        """Apply the rates; the peer's first, so that one peer cannot use up the global one."""
        limits = self.settings
        if self._peer_rates is not None and peer and not self._peer_rates.allows(peer, 1, now):
            return False
        if not limits.connects_per_second:
            return True
        if self._rate is None:
            self._rate = TokenBucket(limits.connects_per_second, now)
        return self._rate.take_if_room(1, now)

    def identify(self, address: str, client_id: str, user: str) -> Refusal | None:
        """Return the ban of an authenticated client, if any."""
        return self._refuse(_BANNED) if self.banned_now(address, client_id, user) else None

    def banned_now(self, address: str, client_id: str, user: str) -> bool:
        """Whether there is a ban of an authenticated client."""
        if not len(self._bans):
            return False
        now = self._now()
        return any(self._bans.get(who, now) for who in _names(address, client_id, user))

    def _refuse(self, refusal: Refusal) -> Refusal:
        self.refusals[refusal.reason] = self.refusals.get(refusal.reason, 0) + 1
        return refusal

    # -- offences ----------------------------------------------------------------------------------

    def dropped(self, address: str, client_id: str, user: str) -> None:
        """Count a connection of an authenticated client closed without DISCONNECT."""
        client, peer = _names(address, client_id, user)
        self._offend(client, self.settings.drops)
        self._offend(peer, self.settings.drops * BAN_PEER_FACTOR)

    def _offend(self, who: "_Who", most: int) -> None:
        if not self._counts(who, most):
            return
        self._bans.put(who, _FLAPS, self._now())
        self.banned += 1
        words, seconds = " ".join(who), self.settings.ban_seconds
        log.warning("%s is banned for %g s: %s", words, seconds, _FLAPS)

    def _counts(self, who: "_Who", most: int) -> bool:
        """Count an offence; return whether the limit is reached."""
        if not most or who[:2] == ("peer", ""):
            return False
        now = self._now()
        count = self._drops.get(who, now)
        if count is None:
            count = [0]
            self._drops.put(who, count, now)
        count[0] += 1
        if count[0] < most:
            return False
        self._drops.drop(who)
        return True

    # -- bans --------------------------------------------------------------------------------------

    @property
    def bans(self) -> list[Ban]:
        """Current bans, earliest expiry first."""
        return [
            Ban(who[0], " ".join(who[1:]), why, left)
            for who, why, left in self._bans.left(self._now())
        ]


_Who = tuple[str, ...]
_ANONYMOUS: Final = Caller().user
_Offences = TtlMap[_Who, list[int]]
"""The count, in a list of one, so that counting does not extend its expiry."""
_BANNED: Final = Refusal(Reason.BANNED, "refused for a while, after many connections that failed")
_FLAPS: Final = "connections that end without a goodbye"


def _names(address: str, client_id: str, user: str) -> tuple[_Who, _Who]:
    """Return the keys for offences of a client, and of its peer."""
    whose = () if user == _ANONYMOUS else (short(user),)
    return ("client", short(client_id), *whose), ("peer", network(address), *whose)
