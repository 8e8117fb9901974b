"""Known versions: which writes of other origins a write has seen, as a version vector.

A write of a topic that is kept equal at several sites says for each other origin the greatest
version that its site had at this topic when it was written. So whoever compares two writes knows
whether one followed the other, or both were made without knowledge of each other (Parker et al.,
Detection of Mutual Inconsistency in Distributed Systems, 1983). An event has two of these vectors:
``SEEN``, what its writer's site had seen, which travels with it; and ``KNOWN``, what this site has
seen of the topic by now, where that is more.

A vector has at most ``SEEN_ORIGINS_MAX`` origins, those with the greatest versions. What is left
out counts as not seen: then a conflict is reported that is none, and never the other way.
"""

from collections.abc import Iterable, Mapping
from typing import Final, cast

from rowcast.codecs import JSON, decode, encode
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.limits import ORIGIN_CHARS_MAX
from rowcast.writes.last_write_wins import Stamp

SEEN: Final = "seen"
"""The property with the versions that the writer's site had seen, as JSON."""
KNOWN: Final = "known"
"""The property with the versions that this site has seen, as JSON; else it is ``SEEN``."""
NOTHING_SEEN: Final = "{}"
SEEN_ORIGINS_MAX: Final = 16
"""Origins of one vector, which each synced event stores and sends: some 30 bytes each. More sites
than that hardly ever write at the same topic."""
SEEN_CHARS_MAX: Final = SEEN_ORIGINS_MAX * (ORIGIN_CHARS_MAX * 12 + 32)
"""Length of a vector as text: that of so many origins, each character a pair of escapes."""

Versions = Mapping[str, int]


def put_seen(event: Event, text: str) -> None:
    """Set what the writer of an event with a version had seen; raises INVALID for malformed text.

    Nobody has seen what is newer than the own write. Without such a bound a forged vector would
    hide all conflicts to come at the topic, because later writes take over what it names. A site
    whose clock was set back may name such versions: it gets a row too many, and none too few.
    """
    seen = versions_in(text).items()
    kept = {origin: version for origin, version in seen if version <= event.version}
    event.properties = {**(event.properties or {}), SEEN: text_of(kept)}


def versions_in(text: str) -> dict[str, int]:
    """Return the versions in a text from elsewhere; raises INVALID."""
    try:
        found = decode(text.encode(), JSON) if len(text) <= SEEN_CHARS_MAX else None
    except (Error, UnicodeError):
        found = None
    if not (isinstance(found, dict) and all(_is_entry(*item) for item in found.items())):
        raise Error(
            Code.INVALID,
            f'{text[:80]!r} is no version vector; expected {{"<origin>": '
            f"<version>}}, with at most {SEEN_ORIGINS_MAX} origins",
        )
    return joined([cast("dict[str, int]", found)])


def _is_entry(origin: object, version: object) -> bool:
    return (
        isinstance(origin, str)
        and len(origin) <= ORIGIN_CHARS_MAX
        and type(version) is int
        and 0 < version < 1 << 53
    )


def text_of(versions: Versions) -> str:
    """Return versions as text."""
    return encode(dict(versions), JSON).decode()


def seen_by(properties: Mapping[str, object] | None) -> dict[str, int]:
    """Return what the writer of an event with these properties had seen."""
    return _stored(properties, SEEN)


def known_with(properties: Mapping[str, object] | None) -> dict[str, int]:
    """Return what was seen here before an event with these properties."""
    return _stored(properties, KNOWN) or _stored(properties, SEEN)


def _stored(properties: Mapping[str, object] | None, name: str) -> dict[str, int]:
    text = properties.get(name) if properties is not None else None
    return cast("dict[str, int]", decode(text.encode(), JSON)) if isinstance(text, str) else {}


def joined(
    vectors: Iterable[Versions], stamp: Stamp | None = None, but: str = ""
) -> dict[str, int]:
    """Return the greatest version of each origin in the vectors and the stamp; ``but`` of one."""
    greatest: dict[str, int] = {}
    pairs = [item for versions in vectors for item in versions.items()]
    if stamp is not None and stamp[0]:
        pairs.append((stamp[1], stamp[0]))
    for origin, version in pairs:
        if origin != but and version > greatest.get(origin, 0):
            greatest[origin] = version
    if len(greatest) <= SEEN_ORIGINS_MAX:
        return greatest
    newest = sorted(greatest.items(), key=lambda item: item[1], reverse=True)
    return dict(newest[:SEEN_ORIGINS_MAX])


def had_seen(winner: Stamp, seen: Versions, loser: Stamp) -> bool:
    """Whether the site of a write had seen an older one: its own, or one that it names."""
    version, origin = loser
    return origin == winner[1] or version <= seen.get(origin, 0)
