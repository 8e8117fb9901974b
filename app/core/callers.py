"""Who asks: passed explicitly to every verb of the engine; there is no current user.

The engine, and no edge, decides from it what is allowed (DESIGN, section 3, never 4).
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Grants:
    """What a caller may do; rules per table and topic refine it."""

    read: bool = False
    write: bool = False


ALL = Grants(read=True, write=True)
NONE = Grants()


@dataclass(frozen=True, slots=True, eq=False)
class Caller:
    """A user on one connection: compared by identity, so that its writes can be kept in order.

    ``door`` is ``mqtt``, ``http``, ``ws``, ``sse`` or ``server``; ``client_id`` is the MQTT client
    id or empty; ``peer`` is the remote address as text.
    """

    user: str = "anonymous"
    grants: Grants = NONE
    door: str = "server"
    client_id: str = ""
    peer: str = ""
    facts: dict[str, str] = field(default_factory=dict)


SERVER = Caller(user="$server", grants=ALL)
"""The server itself: timers, resources in the background, tests."""
