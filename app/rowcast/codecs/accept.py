"""Which of the formats offered a client wants: proactive negotiation (RFC 9110, 12.5.1).

For each offer the most specific member of Accept that matches says its weight; the offer of the
highest weight wins, then the more specific match, then the one that the client named first, then
the order of the offers. A member matches by its other names too (``application/msgpack``,
``application/problem+json``). The answer depends on the header's text alone and clients send few
different ones, so it is remembered. This module must not know what is done with the answer.
"""

from collections.abc import Sequence
from functools import lru_cache

from rowcast.codecs import media_range
from rowcast.codecs.media_range import MediaRange
from rowcast.codecs.registry import CBOR, JSON, MSGPACK, find
from rowcast.core import limits
from rowcast.core.errors import Code, Error

_CHARSET = frozenset(
    (("charset", "utf-8"),)
)  # what every text here is in, so asking for it is no limit
_Rank = tuple[float, int, int]


def negotiate(accept: str | None, offered: Sequence[str] = (JSON, CBOR, MSGPACK)) -> str:
    """The media type to answer in, one of those offered; the first of them if any will do."""
    if not accept or accept == "*/*":
        return offered[0]
    return _negotiated(accept, tuple(offered))


@lru_cache(maxsize=limits.MEDIA_HEADER_CACHE_ENTRIES_MAX)
def _negotiated(accept: str, offered: tuple[str, ...]) -> str:
    members = media_range.parse(accept, "Accept")
    if not members:
        return offered[0]
    ranked = [(_rank(members, offer), offer) for offer in offered]
    best, choice = max(ranked, key=lambda pair: pair[0])  # the first of equals
    if best[0] == 0:
        known = ", ".join(dict.fromkeys(offered))
        raise Error(Code.NOT_ACCEPTABLE, f"Accept allows none of what is offered here: {known}.")
    return choice


def _rank(members: tuple[MediaRange, ...], offer: str) -> _Rank:
    """Weight, specificity and place in the header, of the member that decides about an offer."""
    (offered,) = media_range.parse(offer, "The offer")
    matches = [
        (specificity, -index, member.quality)
        for index, member in enumerate(members)
        if (specificity := _specificity(member, offered)) >= 0
    ]
    specificity, place, quality = max(matches, default=(0, 0, 0.0))
    return quality, specificity, place


def _specificity(member: MediaRange, offered: MediaRange) -> int:
    """How closely a member of Accept names an offer; -1 if it does not."""
    wanted = member.parameters - _CHARSET
    if not wanted <= offered.parameters:
        return -1
    if member.type == offered.type:
        return 100 + len(wanted)
    if (codec := find(member.type)) is not None and codec is find(offered.type):
        return 50 + len(wanted)
    if member.type == "*/*":
        return len(wanted)
    return 20 + len(wanted) if member.type == f"{offered.type.partition('/')[0]}/*" else -1
