"""The durable state of a bridge, as one fact: its position, and open items.

Open items, and events after the saved position, may have been sent after the save, so they are
marked as possible duplicates after a restart (H41).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from rowcast.codecs import CBOR, decode, encode
from rowcast.core.errors import Error
from rowcast.features.bridges.backlog import Backlog
from rowcast.features.bridges.outbox import Item, Outbox
from rowcast.features.bridges.plan import Plan
from rowcast.store.store import Change

OWNER: Final = "gateway/"
"""The prefix of owners of these facts, followed by the bridge's name."""
_PLACE: Final = "place"
_INTO: Final = "into"
"""The name of the fact with the filters that the inbound session has there."""
SETTINGS: Final = "settings"
"""The name of the fact with the settings of a bridge created at run time."""


@dataclass(frozen=True, slots=True)
class Saved:
    """Saved state: the number up to which events were read, and undone ones."""

    upto: int
    open: tuple[Item, ...]
    floor: int = 0
    holes: tuple[tuple[int, int], ...] = ()
    conflated: int = 0
    """The dropped ranges of the backlog."""
    producer: str = ""
    """The name under which the bridge numbers what it sends (``plan.py:Plan.producer``)."""
    first: int = 0
    """The number up to which no messages are sent, only records."""


def beginning(saved: Saved | None, plan: Plan, announced: int) -> Saved | None:
    """Return the state that a bridge begins with.

    With topics that it did not sync before it sends what the log has, so that the other site gets
    what there is; of messages only those after ``announced``, the log's last number.
    """
    if plan.syncs and (saved is None or saved.producer != plan.producer):
        return Saved(0, (), first=announced)
    return saved


def kept_of(outbox: Outbox, backlog: Backlog, producer: str = "", first: int = 0) -> Saved:
    """Return the state of an outbox to save.

    Without dead letters, which are records until delivered, and without unlogged events.
    """
    flying = outbox.flying
    return Saved(
        outbox.upto,
        tuple(
            Item(
                item.seq, item.topic, item.event, item.attempts, item.error,
                again=item.again or item.seq in flying,
            )
            for item in outbox
            if item.seq > 0 and not item.letter
        ),
        backlog.floor,
        tuple(backlog.holes),
        backlog.conflated,
        producer,
        first,
    )  # fmt: skip


def change_of(name: str, kept: Saved) -> Change:
    """Return the change that saves the state of a bridge."""
    items = [[item.seq, item.topic, item.attempts, item.error, item.again] for item in kept.open]
    facts = {"upto": kept.upto, "open": items, "floor": kept.floor,
             "holes": [list(hole) for hole in kept.holes], "conflated": kept.conflated,
             "producer": kept.producer, "first": kept.first}  # fmt: skip
    return Change(OWNER + name, _PLACE, encode(facts, CBOR))


def change_of_filters(name: str, filters: Sequence[str]) -> Change:
    """Return the change that saves which filters the inbound session has; it may have fewer."""
    return Change(OWNER + name, _INTO, encode(list(filters), CBOR) if filters else None)


def filters_in(facts: Sequence[tuple[str, str, bytes]]) -> dict[str, tuple[str, ...]]:
    """Return the filters that the inbound session of each bridge has."""
    found = [fact for fact in facts if fact[1] == _INTO]
    return {
        owner.removeprefix(OWNER): tuple(cast("list[str]", decode(value, CBOR)))
        for owner, _, value in found
    }


def saved_in(facts: Sequence[tuple[str, str, bytes]]) -> dict[str, Saved]:
    """Return the saved state of each bridge; unreadable ones are left out."""
    found: dict[str, Saved] = {}
    for owner, name, value in facts:
        if name != _PLACE:
            continue
        try:
            known = cast("dict[str, object]", decode(value, CBOR))
            items = cast("list[tuple[int, str, int, str, bool]]", known["open"])
            opened = tuple(
                Item(seq, topic, None, attempts, error, again=True)
                for seq, topic, attempts, error, _ in items
            )
            holes = cast("list[tuple[int, int]]", known.get("holes", []))
            found[owner.removeprefix(OWNER)] = Saved(
                cast("int", known["upto"]), opened, cast("int", known.get("floor", 0)),
                tuple((first, last) for first, last in holes),
                cast("int", known.get("conflated", 0)), str(known.get("producer", "")),
                cast("int", known.get("first", 0)),
            )  # fmt: skip
        except (Error, KeyError, TypeError, ValueError):
            continue
    return found
