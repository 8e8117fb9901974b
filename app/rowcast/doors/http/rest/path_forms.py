"""Interpretations of a path: a record, a property of it, a format suffix."""

from collections.abc import Iterator
from dataclasses import dataclass

from rowcast.codecs import by_suffix
from rowcast.core.limits import HTTP_PROPERTY_DEPTH_MAX
from rowcast.core.tables import Table


@dataclass(frozen=True, slots=True)
class Reading:
    """One interpretation of a path: a record, a property of it, a format."""

    topic: str
    path: tuple[str, ...] = ()
    media_type: str | None = None


def readings(topic: str, table: Table | None) -> Iterator[Reading]:
    """Return the interpretations of a path, first all of it as an id (B5, B8)."""
    yield Reading(topic)
    if topic.endswith("/"):
        return
    head, slash, name = topic.rpartition("/")
    base = head + slash
    stem, dot, suffix = name.rpartition(".")
    codec = by_suffix(suffix) if dot else None
    media_type = None
    if codec is not None and (stem or base):
        name, media_type = stem, codec.media_type
        yield Reading(base + name, (), media_type)
    if table is None:
        return
    known = {item.name for item in table.attributes if not item.hidden}
    parts = name.split(".")
    for length in range(1, min(len(parts), HTTP_PROPERTY_DEPTH_MAX + 1)):
        stem, path = ".".join(parts[:-length]), tuple(parts[-length:])
        if stem and path[0] in known:
            yield Reading(base + stem, path, media_type)
