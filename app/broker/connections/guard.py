"""The guard: who may connect now, and who is refused for a while (FEATURES D6, D56, D57).

It decides over counts and a clock that is passed in; it knows no socket, no session and no packet.
What it remembers of strangers is bounded and fades, so that a flood from a million addresses costs
a fixed amount of memory. An IPv6 peer is its /64 network: that is what one customer is given.

Connections that ended without a goodbye and failed logins are *offences*, counted from the first
one on for a fixed time. A client id is banned for its drops only; for failed logins it is banned at
the peer that tried, or anybody could lock out anybody. Many clients may share an address, so a peer
is banned for BAN_PEER_FACTOR times as many. Users are slowed down rather than banned where they are
known (``brakes``).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from app.broker.connections.brakes import Brakes
from app.broker.connections.fading import Fading
from app.core.buckets import Bucket
from app.core.limits import (
    BAN_PEER_FACTOR,
    GUARD_ENTRIES_MAX,
    GUARD_NAME_CHARS_MAX,
    RATE_BURST_SECONDS,
)
from app.mqtt.reasons import Reason

log = logging.getLogger("rowcast.mqtt")


class Refusal(NamedTuple):
    """Why a connection is not taken: the reason of its CONNACK, and a sentence."""

    reason: Reason
    message: str


class Ban(NamedTuple):
    """Somebody who is refused for a while: a ``peer``, a ``client`` id, or a client ``at`` a peer.

    ``name`` is the address, the client id, or both.
    """

    kind: str
    name: str
    why: str
    seconds_left: float


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """Limits; 0 is none."""

    sent_away: Reason | None = None
    """Why nobody is taken any more: Use another server or Server moved (MQTT 5, 4.11)."""
    full: Reason = Reason.QUOTA_EXCEEDED
    """What those over ``connections_max`` are told; Use another server, where there is one."""
    connections_max: int = 0
    connections_per_peer_max: int = 0
    connects_per_second: float = 0
    connects_per_peer_per_second: float = 0
    drops: int = 0
    """Connections of one client id that end without a goodbye, before it is banned."""
    failed_logins: int = 0
    """Failed logins of one client id at one peer, before they are banned."""
    within_seconds: float = 60
    ban_seconds: float = 300


class Guard:
    """Counts connections and offences; its numbers are plain counts."""

    def __init__(self, settings: GuardSettings, now: Callable[[], float]) -> None:
        self.settings = settings
        self._now = now
        self.connections = 0
        """Connections that were let in and are open."""
        self.shedding = False
        """Whether memory is so short that nobody is taken (FEATURES K9)."""
        self._by_peer: dict[str, int] = {}
        self._rate: Bucket | None = None
        rate = settings.connects_per_peer_per_second
        full_seconds = max(RATE_BURST_SECONDS, 1 / rate) if rate else 0
        self._peer_rates: Fading[str, Bucket] = Fading(full_seconds, GUARD_ENTRIES_MAX)
        """Buckets that are not full: one that fades is as good as new."""
        self._drops: _Offences = Fading(settings.within_seconds, GUARD_ENTRIES_MAX)
        self._failures: _Offences = Fading(settings.within_seconds, GUARD_ENTRIES_MAX)
        self._bans: Fading[_Who, str] = Fading(settings.ban_seconds, GUARD_ENTRIES_MAX)
        limits = settings.failed_logins, settings.within_seconds, settings.ban_seconds
        self._brakes = Brakes(*limits)
        self.refusals: dict[Reason, int] = {}
        """Connections refused, by reason."""
        self.banned = 0
        """Bans ever."""

    # -- connections -------------------------------------------------------------------------------

    def enter(self, address: str) -> Refusal | None:
        """Count a connection that is let in; return why it is not.

        Asked before anything is kept for it. Who was let in must ``exit``.
        """
        peer = _network(address)
        refusal = self._check(peer)
        if refusal is not None:
            return self._refuse(refusal)
        self.connections += 1
        if peer:
            self._by_peer[peer] = self._by_peer.get(peer, 0) + 1
        return None

    def exit(self, address: str) -> None:
        """Count a connection that is over."""
        peer = _network(address)
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
        if len(self._bans) and self._bans.get(("peer", peer), now):
            return _BANNED
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
        """Count a try; the peer's own rate first, so that one peer cannot use up everybody's."""
        limits = self.settings
        if limits.connects_per_peer_per_second and peer:
            bucket = self._peer_rates.get(peer, now)
            if bucket is None:
                bucket = Bucket(limits.connects_per_peer_per_second, now)
            self._peer_rates.put(peer, bucket, now)
            if not bucket.take_if_room(1, now):
                return False
        if not limits.connects_per_second:
            return True
        if self._rate is None:
            self._rate = Bucket(limits.connects_per_second, now)
        return self._rate.take_if_room(1, now)

    def seconds_banned(self, address: str, name: str) -> float:
        """Return for how long somebody of this name at this address is still refused; 0 is not."""
        peer, who = _network(address), _short(name)
        if not len(self._bans):
            return self._brakes.wait(peer, who, self._now())
        mine = {("peer", peer), ("at", peer, who)}
        left = [seconds for ban, _, seconds in self._bans.left(self._now()) if ban in mine]
        return max(left, default=0) or self._brakes.wait(peer, who, self._now())

    def seconds_braked(self, address: str, user: str) -> float:
        """Return how long a try as a user has to wait at this address; 0 lets it through."""
        return self._brakes.wait(_network(address), _short(user), self._now())

    def identify(self, address: str, client_id: str) -> Refusal | None:
        """Return why a client that says who it is is refused: it is banned."""
        if not len(self._bans):
            return None
        now, client = self._now(), _short(client_id)
        at = "at", _network(address), client
        if self._bans.get(("client", client), now) or self._bans.get(at, now):
            return self._refuse(_BANNED)
        return None

    def _refuse(self, refusal: Refusal) -> Refusal:
        self.refusals[refusal.reason] = self.refusals.get(refusal.reason, 0) + 1
        return refusal

    # -- offences ----------------------------------------------------------------------------------

    def dropped(self, address: str, client_id: str) -> None:
        """Count a connection of a known client that ended without a goodbye."""
        most, peer = self.settings.drops, _network(address)
        self._offend(self._drops, ("client", _short(client_id)), most, _FLAPS)
        self._offend(self._drops, ("peer", peer), most * BAN_PEER_FACTOR, _FLAPS)

    def failed(self, address: str, client_id: str) -> None:
        """Count a failed login."""
        most, peer = self.settings.failed_logins, _network(address)
        self._offend(self._failures, ("at", peer, _short(client_id)), most, _GUESSES)
        self._offend(self._failures, ("peer", peer), most * BAN_PEER_FACTOR, _GUESSES)

    def guessed(self, address: str, user: str) -> None:
        """Count a failed login as a user, whatever client it was."""
        peer, who, now = _network(address), _short(user), self._now()
        self._brakes.failed(who, now)
        if not self._brakes.knows(peer, who, now):
            self.failed(address, user)
            return
        most = self.settings.failed_logins
        self._offend(self._failures, ("peer", peer), most * BAN_PEER_FACTOR, _GUESSES)
        if self._counts(self._failures, ("at", peer, who), most):
            self._brakes.brake((peer, who), now)

    def guessed_as(self, user: str) -> None:
        """Count it for the user alone: the client and its peer have been counted."""
        self._brakes.failed(_short(user), self._now())

    def succeeded(self, address: str, user: str) -> None:
        """Remember where a user has signed in."""
        self._brakes.succeeded(_network(address), _short(user), self._now())

    def _offend(self, offences: "_Offences", who: "_Who", most: int, why: str) -> None:
        if self._counts(offences, who, most):
            self._bans.put(who, why, self._now())
            self.banned += 1
            log.warning("%s is banned for %g s: %s", " ".join(who), self.settings.ban_seconds, why)

    def _counts(self, offences: "_Offences", who: "_Who", most: int) -> bool:
        """Count an offence; tell whether there were so many that something is done about it."""
        if not most or who == ("peer", ""):
            return False
        now = self._now()
        count = offences.get(who, now)
        if count is None:
            count = [0]
            offences.put(who, count, now)
        count[0] += 1
        if count[0] < most:
            return False
        offences.drop(who)
        return True

    # -- bans --------------------------------------------------------------------------------------

    @property
    def bans(self) -> list[Ban]:
        """Who is refused now, those first whose ban ends first."""
        return [
            Ban(who[0], " ".join(who[1:]), why, left)
            for who, why, left in self._bans.left(self._now())
        ]


_Who = tuple[str, ...]
_Offences = Fading[_Who, list[int]]
"""How many, in a list of one, so that counting does not lengthen their time."""
_BANNED = Refusal(Reason.BANNED, "refused for a while, after many connections that failed")
_FLAPS = "connections that end without a goodbye"
_GUESSES = "failed logins"


def _short(client_id: str) -> str:
    """Return a client id, a long one by its beginning and a digest: it is a stranger's text."""
    if len(client_id) <= GUARD_NAME_CHARS_MAX:
        return client_id
    digest = blake2b(client_id.encode(errors="replace"), digest_size=16).hexdigest()
    return f"{client_id[: GUARD_NAME_CHARS_MAX - len(digest) - 1]}~{digest}"


def _network(address: str) -> str:
    """Return the peer that an address is; what is no IP address is itself."""
    if ":" not in address:
        return address
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(ip, IPv6Address):
        return address
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(IPv6Address(int(ip) >> 64 << 64)) + "/64"
