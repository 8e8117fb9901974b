"""The caller: passed explicitly to every verb of the kernel; there is no current user.

The kernel, and no door, decides from it what is allowed.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, cast

from rowcast.core.event_limits import EVENTS_NAME_CHARS_MAX


@dataclass(frozen=True, slots=True)
class Grants:
    """A caller's global grants; rules per table and topic refine them.

    ``administer`` allows changing users, roles and rules, and ending connections of others.
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


ALL: Final = Grants(read=True, write=True, administer=True)
NONE: Final = Grants()
ADMIN: Final = "admin"
"""The role with all rights; it need not be declared."""


class _Connection:
    """What is another one for each connection, and nothing else."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class Caller:
    """A user on one connection: compared by identity, so that its writes can be kept in order.

    ``door`` is ``mqtt``, ``http``, ``ws``, ``sse`` or ``server``; ``client_id`` is the MQTT client
    id or empty; ``peer`` is the remote address as text. ``claims`` are the user's attributes, such
    as ``sites``. ``issuer`` is the issuer of a token, empty for this server; ``issue`` is the
    version of the user's credentials at sign-in; ``until`` is when the credentials expire, in
    seconds since 1970 (UTC).
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
    connection: _Connection = field(default_factory=_Connection, repr=False)
    """What stays the same when its rights are renewed: its waiting writes stay in order by it."""


_ESCAPED: Final = str.maketrans({c: f"%{ord(c):02X}" for c in "%/+#\0"})


def levels_of(caller: Caller) -> str:
    """Return the topic levels of a caller's entries below a level of ``$SYS``.

    A client id is one level, as in a URL; a caller without one, such as a reader of SSE, is named
    by its door and user.
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
    """Return the stored form of a caller whose write is delayed: its identity and rights."""
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
    """Restore a caller from ``caller_facts``."""
    may = facts.get("may")
    if isinstance(may, int):
        grants = Grants(bool(may & 1), bool(may & 2), bool(may & 4))
    else:  # stored by an earlier version of the server
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


SERVER: Final = Caller(user="$server", grants=ALL, roles=frozenset({ADMIN}))
"""The server itself: timers, resources in the background, tests."""
METRICS_WRITER: Final = Caller(user="$server", grants=ALL)
"""The writer of the server's own metrics, several times a second; nobody waits for its writes."""
EVENTS_WRITER: Final = Caller(user="$server", grants=ALL)
"""The writer of client events, with each connect; nobody waits for its writes, either."""
