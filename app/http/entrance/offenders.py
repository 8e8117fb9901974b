"""Offenders: who failed to sign in too often is refused for a while, here as over MQTT (L11).

The counting is the guard's, which the wiring passes in. It must not know why somebody failed.
"""

from typing import TYPE_CHECKING

from app.auth.users import tried_name
from app.core.errors import Code, Error

if TYPE_CHECKING:
    from app.http.edge import Edge


def check_offender(edge: "Edge", peer: str, name: str) -> None:
    """Raise BUSY, which is told as 429, for a name at an address that failed too often."""
    banned = edge.settings.banned
    seconds = banned(peer, tried_name(name)) if banned is not None else 0
    if seconds:
        raise Error(
            Code.BUSY,
            "too many failed to sign in as this user from here; wait, then try again",
            rate=True,
            retry_after_seconds=max(1, round(seconds)),
        )


def count_offender(edge: "Edge", peer: str, name: str) -> None:
    """Count a name at an address that failed."""
    if edge.settings.offended is not None:
        edge.settings.offended(peer, tried_name(name))


def note_success(edge: "Edge", peer: str, name: str) -> None:
    """Remember that a name has signed in from an address."""
    if edge.settings.succeeded is not None:
        edge.settings.succeeded(peer, tried_name(name))
