"""Callers without a name: accepted from this machine only, unless the operator decides otherwise.

It owns the rule "without users the server accepts anonymous callers on loopback only" (DESIGN,
section 10). It must not know which protocol asks; the door's name is only passed on.
"""

from collections.abc import Callable
from ipaddress import ip_address
from typing import Literal

from app.core.callers import ALL, NONE, Caller

Policy = Literal["loopback", "everywhere", "nobody"]


def anonymous_from(policy: Policy) -> Callable[[str, str], Caller]:
    """Return the rule that makes a Caller of a peer's address and a door."""

    def caller(peer: str, door: str) -> Caller:
        allowed = policy == "everywhere" or (policy == "loopback" and is_loopback(peer))
        return Caller("anonymous", ALL if allowed else NONE, door, peer=peer)

    return caller


def is_loopback(peer: str) -> bool:
    """Tell whether an address is of this machine's loopback; what is no address is not."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
