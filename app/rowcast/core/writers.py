"""Writers: the user and the door that wrote an event, stored in the event (L15).

It is a property of the event, like the stamp, and is stored in the log and the record; clients
receive it only with metadata. Unnamed users are not recorded.
"""

from typing import Final

from rowcast.core.callers import Caller
from rowcast.core.events import Event

BY: Final = "by"
"""The property: door, colon, user. No door's name contains a colon."""
NAMELESS: Final = frozenset({"anonymous", "$server"})
"""Users that are not recorded."""


def note_writer(event: Event, caller: Caller) -> None:
    """Set the writer of an event; overwrites a value from the sender."""
    properties = event.properties
    if caller.door != "server" and caller.user not in NAMELESS:
        event.properties = {**(properties or {}), BY: f"{caller.door}:{caller.user}"}
    elif properties is not None and BY in properties and caller.door != "server":
        event.properties = {name: one for name, one in properties.items() if name != BY} or None


def writer_of(event: Event) -> tuple[str, str] | None:
    """Return user and door; None when unknown."""
    by = (event.properties or {}).get(BY)
    if not isinstance(by, str):
        return None
    door, _, user = by.partition(":")
    return user, door
