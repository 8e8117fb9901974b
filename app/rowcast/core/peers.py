"""Peers: what counts as one of those who call, and how what a stranger says is kept short.

It is what limits and rates are counted by. It must not know sockets: an address is a text.
"""

from hashlib import blake2b
from ipaddress import IPv6Address, ip_address

from rowcast.core.limits import GUARD_NAME_CHARS_MAX


def network(address: str) -> str:
    """Return the peer that an address is: of IPv6 its /64 network, which is what one customer has.

    What is no IP address is itself.
    """
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


def site(address: str) -> str:
    """Return the site that an address is of: of IPv6 its /48, which has 65,536 networks.

    It is what turns are dealt by, where everybody gets one and nobody is refused for another.
    """
    ip = network(address).removesuffix("/64")
    if ":" not in ip:
        return ip
    try:
        return str(IPv6Address(int(IPv6Address(ip)) >> 80 << 80)) + "/48"
    except ValueError:
        return address


def short(text: str) -> str:
    """Return a stranger's text, such as a client id; a long one by its beginning and a digest."""
    if len(text) <= GUARD_NAME_CHARS_MAX:
        return text
    digest = blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()
    return f"{text[: GUARD_NAME_CHARS_MAX - len(digest) - 1]}~{digest}"
