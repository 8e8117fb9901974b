"""A cursor: the token ``epoch:seq`` that names a position in one log.

The same token is the REST ETag and position header, the SSE ``id``, the WebSocket ``since`` and the
MQTT user property ``seq`` (M1). ``epoch`` names the log, so that a token of another log is
recognised and not taken for a position of this one. Clients treat it as opaque.

The ETag of a record in another format than its usual one has the format's suffix,
``epoch:seq.cbor``, since a strong validator differs between representations (RFC 9110, 8.8.1). As
a cursor it means the same.
"""

import re
from dataclasses import dataclass

from rowcast.core.errors import Code, Error

_CURSOR = re.compile(r"([0-9a-f]{8}):(0|[1-9][0-9]{0,18})(?:\.[a-z]{1,8})?")


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A position in the log that ``epoch`` names."""

    epoch: str
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.seq}"


def parse_cursor(text: str) -> Cursor:
    """Read ``epoch:seq``; raises INVALID for anything else."""
    match = _CURSOR.fullmatch(text.strip().strip('"'))
    if match is None:
        raise Error(
            Code.INVALID,
            f"{text[:80]!r} is not a cursor; use one that this server gave,"
            " such as '3f9a1c2e:1042'",
        )
    return Cursor(match[1], int(match[2]))


def is_cursor(text: str) -> bool:
    """Whether a text is a cursor, and nothing else."""
    return _CURSOR.fullmatch(text) is not None
