"""The facts of compaction: where they are, and what they say.

They are changed in the log before a trim, so every process that follows it has them when its own
tables are trimmed, as have a restart, a backup, and a node that takes over.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from rowcast.codecs import CBOR, decode, encode
from rowcast.features.compaction.tombstones import Tombstone
from rowcast.store.store import Change

OWNER: Final = "compaction/"
"""The prefix of all owners; with the name of a table, the owner of its tombstones."""
PLACE: Final = "compaction//place"
"""The owner of the place of each table; no name of a table has a slash."""


class Place(NamedTuple):
    """Up to where a table is compacted."""

    epoch: str = ""
    since: int = 0
    upto: int = 0
    spelling: tuple[str, ...] = ()
    """Of the keys of events that are kept."""
    turn: int = 0
    """Greater whenever any of the table's facts has changed."""


def kept_owner(name: str) -> str:
    """Return the owner of a table's kept events; no other one begins with it."""
    return f"compaction//kept/{name}/"


def place_of(value: bytes) -> Place:
    """Return a place that was stored, maybe by a version without keys."""
    cells = cast("list[object]", decode(value, CBOR))
    cells += [[], 0][len(cells) - 3 :]
    epoch, since, upto, spelling, turn = cast("tuple[str, int, int, list[str], int]", cells)
    return Place(epoch, since, upto, tuple(spelling), turn)


def place_change(name: str, place: Place) -> Change:
    """Return the change that stores the place of a table."""
    return Change(PLACE, name, encode([*place[:3], list(place.spelling), place.turn], CBOR))


def tombstone_change(name: str, record_id: str, made: Tombstone | None) -> Change:
    """Return the change that stores a tombstone of a table, or removes it."""
    value = None if made is None else encode([made.seq, made.version, made.noted_at], CBOR)
    return Change(OWNER + name, record_id, value)


def tombstones_of(facts: Sequence[tuple[str, str, bytes]], name: str) -> dict[str, Tombstone]:
    """Return the tombstones of a table among facts, by the id of the record, in order."""
    found: list[Tombstone] = []
    for owner, record_id, value in facts:
        if owner == OWNER + name:
            seq, version, at = cast("tuple[int, int, float]", decode(value, CBOR))
            found.append(Tombstone(record_id, seq, version, at))
    found.sort(key=lambda item: item.seq)
    return {item.record_id: item for item in found}
