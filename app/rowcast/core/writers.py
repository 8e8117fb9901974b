"""Writers: which user wrote an event, and by which door, as the event itself says (L15).

It stands among the event's properties, as the stamp does, and goes with it into the log and the
record; no protocol is told it unless it asks for metadata. Of who has no name there is nothing.
"""

from typing import Final

from rowcast.core.callers import Caller
from rowcast.core.events import Event

BY: Final = "by"
"""The property: door, colon, user. No door's name holds a colon."""
NAMELESS: Final = frozenset({"anonymous", "$server"})
"""Users of whom nothing is noted."""


def note_writer(event: Event, caller: Caller) -> None:
    """Give an event the user who writes it; whatever its sender said of that is not believed."""
    properties = event.properties
    if caller.door != "server" and caller.user not in NAMELESS:
        event.properties = {**(properties or {}), BY: f"{caller.door}:{caller.user}"}
    elif properties is not None and BY in properties and caller.door != "server":
        event.properties = {name: one for name, one in properties.items() if name != BY} or None


def writer_of(event: Event) -> tuple[str, str] | None:
    """Return user and door; None when that is not known."""
    by = (event.properties or {}).get(BY)
    if not isinstance(by, str):
        return None
    door, _, user = by.partition(":")
    return user, door
