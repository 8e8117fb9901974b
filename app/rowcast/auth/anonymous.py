"""Callers without a name: accepted from this machine only, unless the operator decides otherwise.

It owns the rule "without users the server accepts anonymous callers on loopback only". It must not
know which protocol asks; the door's name is only passed on.
"""

from collections.abc import Callable
from functools import lru_cache
from ipaddress import ip_address
from typing import Literal

from rowcast.core.callers import ALL, NONE, Caller, Grants
from rowcast.core.listener_limits import PEERS_CACHED_MAX

STRANGER = Grants(read=True, write=True)
"""Grants of a caller without a user account that comes from elsewhere, or with a certificate.

Nobody administers that way, whatever the operator allows (P3).
"""

Policy = Literal["loopback", "everywhere", "nobody"]


def anonymous_from(policy: Policy) -> Callable[[str, str], Caller]:
    """Return the rule that makes a Caller of a peer's address and a door."""

    def caller(peer: str, door: str) -> Caller:
        here = is_loopback(peer)
        if policy == "nobody" or (policy == "loopback" and not here):
            return Caller("anonymous", NONE, door, peer=peer)
        return Caller("anonymous", ALL if here else STRANGER, door, peer=peer)

    return caller


@lru_cache(PEERS_CACHED_MAX)
def is_loopback(peer: str) -> bool:
    """Whether an address is on this machine's loopback; False for text that is no address."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
