"""One subscription of a socket without I/O: its queue, and the cursor where it goes on.

A connection has other subscriptions and answers besides, so it is not simply left unread when one
reader is slow. What does not fit into the queue stays in the log: the subscription is ended at the
server, and begun again after the last event of the queue when its reader has come so far. Current
records have no cursor to go on from before all of them came; while these fill the queue, the
connection is not read, for a bounded time, unless somebody waits for an answer on it.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final

from rowcast.core.events import CURRENT, GAP, RESET, SNAPSHOT
from rowcast.core.query_topics import QUERY_PREFIX
from rowcast_client.bounds import SocketBounds
from rowcast_client.events import Event
from rowcast_client.following import Place, beginning
from rowcast_client.problem import Problem

Fields = dict[str, object]
_SELECTING: Final = ("topic", "where", "select", "sort", "limit")
_MARK: Fields = {"cursor": None, "topic": None, "kind": None, "version": None}
_SLOW: Fields = {"from": None, "to": None, "count": None, "reason": "slow"}
"""The gap of unlogged messages while a subscription was ended: nobody has counted them."""


class Stream:
    """One subscription of a socket, over all its connections."""

    def __init__(self, asked: Mapping[str, object], place: Place, bounds: SocketBounds) -> None:
        self._asked = dict(asked)
        self._bounds = bounds
        self.cursor, self._place = beginning(place)
        """The cursor to resume from: after the last event taken."""
        self._received = self.cursor
        """After the last event of the queue; empty where there is no place to go on from yet."""
        self._from_log = any(value != CURRENT for value in self._place.values())
        self._anew = not self._received and not self._from_log
        """Whether current records are coming, whose end is not reached."""
        self._shown = False
        self._queue: deque[tuple[Event, str, int]] = deque()
        self._bytes = 0
        self.changed = asyncio.Event()
        """Set when there is an event, or the end."""
        self.is_behind = False
        """Whether it is ended at the server until its reader has taken what is here."""
        self.is_closed = False
        self.problem: Problem | None = None
        """Why it ended; None if the caller closed it."""

    @property
    def name(self) -> str:
        """What it is about, for messages."""
        return str(self._asked.get("topic"))

    @property
    def filter(self) -> tuple[object, ...]:
        """What it selects, of which a connection has one subscription."""
        return tuple(self._asked.get(name) for name in _SELECTING)

    @property
    def words(self) -> Fields:
        """The members of the next ``subscribe``."""
        return self._asked | ({"since": self._received} if self._received else self._place)

    @property
    def can_resume(self) -> bool:
        """Whether there is a cursor to go on from."""
        return bool(self._received) and not self._anew

    @property
    def is_full(self) -> bool:
        """Whether no further event belongs into the queue."""
        most = self._bounds
        return len(self._queue) >= most.queue_events or self._bytes >= most.queue_bytes

    @property
    def is_low(self) -> bool:
        """Whether the reader has taken half of the queue."""
        most = self._bounds
        return len(self._queue) <= most.queue_events // 2 and self._bytes <= most.queue_bytes // 2

    def opened(self, answer: Mapping[str, object]) -> None:
        """Note that the server has begun it, with the members of its answer."""
        if self.is_behind:
            self.is_behind = False
            if not self._is_query:  # a live query has no messages
                self._add({"kind": GAP, "gap": dict(_SLOW)})
        elif self._shown and self._anew and not self._received:
            self._add({"kind": RESET})  # of what was shown in part, something may be gone meanwhile
        if self._from_log and not self._received:
            self._received = str(answer.get("cursor") or "")
            if not self._queue:
                self.cursor = self._received

    @property
    def _is_query(self) -> bool:
        return "where" in self._asked or self.name.startswith(QUERY_PREFIX)

    def receive(self, fields: Fields, size: int) -> bool:
        """Take an event of so many bytes; False if there is no room, so that it must be ended."""
        if self.is_full:
            if self.can_resume:
                self.is_behind = True
                return False
            if self._bytes + size > self._bounds.snapshot_bytes:
                self.end(_not_read(self.name, self._bytes))
                return False
        kind, cursor = fields.get("kind"), fields.get("cursor")
        self._anew = kind != CURRENT and (self._anew or kind in {SNAPSHOT, RESET})
        if cursor and not self._anew:
            self._received = str(cursor)
        self._shown = True
        self._queue.append((Event(fields), self._received, size))
        self._bytes += size
        self.changed.set()
        return True

    def _add(self, fields: Fields) -> None:
        """Queue an event of the client's own."""
        self._queue.append((Event(_MARK | fields), self._received, 0))
        self.changed.set()

    def take(self) -> Event | None:
        """Return the next event; None if there is none yet."""
        if not self._queue:
            return None
        event, self.cursor, size = self._queue.popleft()
        self._bytes -= size
        return event

    def end(self, problem: Problem | None = None) -> None:
        """End it: its reader gets what is in the queue, and then the problem."""
        if not self.is_closed:
            self.is_closed, self.problem = True, problem
        self.changed.set()


def _not_read(name: str, size: int) -> Problem:
    return Problem(
        0,
        {"code": "busy"},
        f"{size} bytes of the current records of {name!r} wait for their reader, while others wait "
        "for answers of this socket; read them up to 'current' first, or use another Socket",
    )
