"""Who asks: passed explicitly to every verb of the kernel; there is no current user.

The kernel, and no edge, decides from it what is allowed.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, cast

from rowcast.core.event_limits import EVENTS_NAME_CHARS_MAX


@dataclass(frozen=True, slots=True)
class Grants:
    """What a caller may do at all; rules per table and topic refine it.

    ``administer`` is to change users, roles and rules, and to end what others have begun.
    """

    read: bool = False
    write: bool = False
    administer: bool = False

    def __or__(self, other: "Grants") -> "Grants":
        return Grants(
            self.read or other.read,
            self.write or other.write,
            self.administer or other.administer,
        )

    def __and__(self, other: "Grants") -> "Grants":
        return Grants(
            self.read and other.read,
            self.write and other.write,
            self.administer and other.administer,
        )


ALL = Grants(read=True, write=True, administer=True)
NONE = Grants()
ADMIN: Final = "admin"
"""The role that may do everything; it need not be declared."""


@dataclass(frozen=True, slots=True, eq=False)
class Caller:
    """A user on one connection: compared by identity, so that its writes can be kept in order.

    ``door`` is ``mqtt``, ``http``, ``ws``, ``sse`` or ``server``; ``client_id`` is the MQTT client
    id or empty; ``peer`` is the remote address as text. ``claims`` are the user's attributes, such
    as ``sites``. ``issuer`` is who vouches for a token, empty for this server; ``issue`` counts how
    often the user's credentials were replaced before it signed in; ``until`` is when what it showed
    is over, in seconds since 1970 (UTC).
    """

    user: str = "anonymous"
    grants: Grants = NONE
    door: str = "server"
    client_id: str = ""
    peer: str = ""
    roles: frozenset[str] = frozenset()
    claims: Mapping[str, object] = field(default_factory=dict)
    issuer: str = ""
    issue: int = 0
    until: float = math.inf


_ESCAPED: Final = str.maketrans({c: f"%{ord(c):02X}" for c in "%/+#\0"})


def levels_of(caller: Caller) -> str:
    """Return where it stands below a level of ``$SYS`` what is told of a caller.

    A client id is one level, as in a URL; who has none, such as a reader of SSE, is named by its
    door and user.
    """
    if caller.client_id:
        return _level(caller.client_id)
    return f"{caller.door}/{_level(caller.user)}"


def _level(name: str) -> str:
    if len(name) > EVENTS_NAME_CHARS_MAX:
        digest = blake2b(name.encode(errors="replace"), digest_size=16).hexdigest()
        name = f"{name[: EVENTS_NAME_CHARS_MAX - len(digest) - 1]}~{digest}"
    return name.translate(_ESCAPED)


def caller_facts(caller: Caller) -> dict[str, object]:
    """Return what is kept of a caller whose write comes later: what it may, and as whom."""
    grants = caller.grants
    more = {
        "roles": sorted(caller.roles),
        "claims": dict(caller.claims),
        "issuer": caller.issuer,
        "issue": caller.issue,
    }
    may = 4 * grants.administer + 2 * grants.write + grants.read
    return {"user": caller.user, "may": may} | {name: it for name, it in more.items() if it}


def caller_of(facts: Mapping[str, object], door: str, client_id: str) -> Caller:
    """Return the caller again."""
    may = facts.get("may")
    if isinstance(may, int):
        grants = Grants(bool(may & 1), bool(may & 2), bool(may & 4))
    else:  # an earlier version of the server kept these two
        grants = Grants(bool(facts["read"]), bool(facts["write"]))
    return Caller(
        str(facts["user"]),
        grants,
        door,
        client_id,
        roles=frozenset(cast("list[str]", facts.get("roles", []))),
        claims=cast("Mapping[str, object]", facts.get("claims", {})),
        issuer=str(facts.get("issuer", "")),
        issue=cast("int", facts.get("issue", 0)),
    )


SERVER = Caller(user="$server", grants=ALL, roles=frozenset({ADMIN}))
"""The server itself: timers, resources in the background, tests."""
