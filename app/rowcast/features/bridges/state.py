"""What a bridge must know after a restart, as one fact: up to where it took, and what is open.

What was open, and what comes after the saved place, may have been sent later and not noted as such,
so what is sent after a restart says so: its receiver can tell a double (H41).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from rowcast.codecs import CBOR, decode, encode
from rowcast.core.errors import Error
from rowcast.features.bridges.backlog import Backlog
from rowcast.features.bridges.outbox import Item, Outbox
from rowcast.store.store import Change

OWNER: Final = "gateway/"
"""What the owners of these facts begin with; the bridge's name follows."""
_PLACE: Final = "place"
SETTINGS: Final = "settings"
"""The name of the fact that has the settings of a bridge made at run time."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What was saved: the number up to which events were taken, and those that were not done."""

    upto: int
    open: tuple[Item, ...]
    floor: int = 0
    holes: tuple[tuple[int, int], ...] = ()
    conflated: int = 0
    """What was dropped, as a backlog knows it."""


def kept_of(outbox: Outbox, backlog: Backlog) -> Saved:
    """Return what of an outbox is to be gone on with.

    Not dead letters, which are records until they are delivered, and not what was never logged.
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
    )  # fmt: skip


def change_of(name: str, outbox: Outbox, backlog: Backlog) -> Change:
    """Return the change that saves an outbox."""
    kept = kept_of(outbox, backlog)
    items = [[item.seq, item.topic, item.attempts, item.error, item.again] for item in kept.open]
    facts = {"upto": kept.upto, "open": items, "floor": kept.floor,
             "holes": [list(hole) for hole in kept.holes], "conflated": kept.conflated}  # fmt: skip
    return Change(OWNER + name, _PLACE, encode(facts, CBOR))


def saved_in(facts: Sequence[tuple[str, str, bytes]]) -> dict[str, Saved]:
    """Return what was saved of each bridge; one that cannot be read is left out."""
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
                cast("int", known.get("conflated", 0)),
            )  # fmt: skip
        except (Error, KeyError, TypeError, ValueError):
            continue
    return found
