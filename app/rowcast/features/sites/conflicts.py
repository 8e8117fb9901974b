"""Conflicts: the writes that lost against one that had not seen them, newest last (K3, K5).

Each is a fact, which is stored with the decision, and a row of ``$SYS/conflicts``. Its name is the
loser's version and origin and the topic, so that the same loser is one row however often it comes.
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Final, cast

from rowcast.codecs import CBOR, JSON, decode, encode
from rowcast.core.clock import WallClock, seconds_of
from rowcast.core.errors import Error
from rowcast.core.events import Event
from rowcast.features.sites.meeting import Conflict, Side
from rowcast.routes.system_rows import time_text
from rowcast.rows.transcoder import Transcoder
from rowcast.store.store import Change

OWNER: Final = "conflicts"
CONFLICTS_MAX: Final = 1_000
"""Rows that are kept, the newest: for a person, who looks at them within days."""
VALUE_BYTES_MAX: Final = 16 * 1024
"""Bytes of a loser's value in its row; with the number of rows at most 16 MiB in memory."""

MEMBERS: Final = (
    "id", "topic", "at", "winner_version", "winner_origin", "winner_deleted", "version", "origin",
    "written_at", "deleted", "value", "value_encoding", "content_type", "bytes",
)  # fmt: skip
"""Of each row."""

Row = dict[str, object]


class Conflicts:
    """The conflicts that one server has seen; ``most`` are kept."""

    def __init__(
        self,
        transcoder: Transcoder,
        now: WallClock,
        keep: Callable[[Sequence[Change]], None],
        most: int = CONFLICTS_MAX,
    ) -> None:
        """``keep`` stores changes of facts."""
        self._transcoder = transcoder
        self._now = now
        self._keep = keep
        self._most = most
        self._rows: dict[str, Row] = {}
        self.seen = 0
        """How many were found since the start; a loser that comes again is none."""
        self.on_change: Callable[[str], None] = lambda _name: None
        """Called with the name of a row that is there or gone."""

    def restore(self, facts: Sequence[tuple[str, str, bytes]]) -> None:
        """Restore the stored ones."""
        found = [(name, cast("Row", decode(value, CBOR))) for _, name, value in facts]
        self._rows = dict(sorted(found, key=lambda item: str(item[1]["at"])))
        self._trim()

    @property
    def names(self) -> list[str]:
        """The names of all rows, the oldest first."""
        return list(self._rows)

    def row(self, name: str) -> Row | None:
        """Return a row."""
        return self._rows.get(name)

    def pack(self, conflict: Conflict) -> Change:
        """Return the change that stores a conflict."""
        version, origin = conflict.loser.stamp
        name = f"{version}@{origin}/{conflict.topic}"
        return Change(OWNER, name, encode(self._row_of(conflict), CBOR))

    def add(self, stored: Change) -> None:
        """Take up a conflict that is stored; the oldest one goes where there are too many."""
        self.seen += self._rows.pop(stored.name, None) is None
        self._rows[stored.name] = cast("Row", decode(stored.value or b"", CBOR))
        self.on_change(stored.name)
        self._trim()

    def forget(self, name: str) -> bool:
        """Forget one, or all with an empty name; return whether there was any."""
        names = [name] if name in self._rows else [] if name else self.names
        self._forget(names)
        return bool(names)

    def _trim(self) -> None:
        if len(self._rows) > self._most:
            self._forget(self.names[: len(self._rows) - self._most])

    def _forget(self, names: Sequence[str]) -> None:
        for name in names:
            del self._rows[name]
            self.on_change(name)
        if names:
            self._keep([Change(OWNER, name, None) for name in names])

    # -- what is in a row --------------------------------------------------------------------------

    def _row_of(self, conflict: Conflict) -> Row:
        winner, loser = conflict.winner, conflict.loser
        return {
            "topic": conflict.topic,
            "at": time_text(self._now()),
            "winner_version": winner.stamp[0],
            "winner_origin": winner.stamp[1],
            "winner_deleted": winner.deleted,
            "version": loser.stamp[0],
            "origin": loser.stamp[1],
            "written_at": time_text(seconds_of(loser.stamp[0])),
            "deleted": loser.deleted,
            **self._value_of(loser),
        }

    def _value_of(self, side: Side) -> Row:
        """Return what was written: a value, else the beginning of its bytes."""
        event = side.event
        if event is None or side.deleted:
            return {"value": None, "value_encoding": None, "content_type": None, "bytes": 0}
        row: Row = {"content_type": event.content_type, "bytes": len(event.payload)}
        payload = self._payload(event)
        if len(payload) <= VALUE_BYTES_MAX and self._transcoder.structured(event):
            return {"value": decode(payload, JSON), "value_encoding": "value", **row}
        some = payload[:VALUE_BYTES_MAX]
        if b"\x00" not in some and _is_text(payload):
            return {"value": some.decode(errors="ignore"), "value_encoding": "text", **row}
        return {"value": b64encode(some).decode(), "value_encoding": "base64", **row}

    def _payload(self, event: Event) -> bytes:
        """Return the payload as readers may see it: as JSON if it is a value."""
        try:
            return self._transcoder.payload(event, JSON)
        except Error:  # plain bytes
            return event.payload


def _is_text(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True
