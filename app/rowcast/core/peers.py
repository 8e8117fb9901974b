"""Peers: the identity of a remote address for limits, and shortened untrusted text.

Limits and rates are counted per peer. An address is text; the module knows no sockets.
"""

from hashlib import blake2b
from ipaddress import IPv6Address, ip_address

from rowcast.core.limits import GUARD_NAME_CHARS_MAX


def network(address: str) -> str:
    """Return the peer of an address: for IPv6 its /64 network, which one customer has.

    Text that is no IP address is returned unchanged.
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
    """Return the site of an address: for IPv6 its /48, which has 65,536 networks.

    Fair queues take turns between sites.
    """
    ip = network(address).removesuffix("/64")
    if ":" not in ip:
        return ip
    try:
        return str(IPv6Address(int(IPv6Address(ip)) >> 80 << 80)) + "/48"
    except ValueError:
        return address


def short(text: str) -> str:
    """Return untrusted text, such as a client id; a long one as its beginning and a digest."""
    if len(text) <= GUARD_NAME_CHARS_MAX:
        return text
    digest = blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()
    return f"{text[: GUARD_NAME_CHARS_MAX - len(digest) - 1]}~{digest}"
