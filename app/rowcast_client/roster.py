"""The subscriptions of a socket without I/O, over all its connections.

A filter has one subscription of a connection. So one that begins again waits for the answer to an
earlier one of its filter that was ended before its number was known.
"""

import asyncio
from collections.abc import Callable

from rowcast_client.problem import Problem
from rowcast_client.streams import Fields, Stream


class Roster:
    """Who hears what; ``say`` queues a command that is sent on the current connection."""

    def __init__(self, say: Callable[[Fields], None]) -> None:
        self._say = say
        self._streams: dict[Stream, None] = {}
        self._numbers: dict[object, Stream] = {}
        """Those that the server has begun on this connection, by its numbers."""
        self._asked: dict[object, Stream] = {}
        """Those that are not answered, by the id of their command."""
        self._deferred: list[Stream] = []
        self._last = 0
        self._is_connected = False
        self._stuffed: set[Stream] = set()
        """Those whose current records fill their queues: the connection is not read."""
        self._overdue: set[Stream] = set()
        """Those that were waited for in vain."""
        self.room = asyncio.Event()
        """Set when nothing keeps the connection from being read any longer."""

    # -- connections -----------------------------------------------------------------------------

    def begin(self) -> None:
        """Ask for all of them, on a new connection."""
        self._is_connected = True
        for stream in [*self._streams]:
            if not stream.is_behind or stream.is_low:
                self._subscribe(stream)

    def lost(self) -> None:
        """Note the end of a connection, and with it of what was begun there."""
        self._is_connected = False
        self._numbers.clear()
        self._asked.clear()
        self._deferred.clear()

    def end(self, problem: Problem | None) -> None:
        """End all of them."""
        for stream in self._streams:
            stream.end(problem)

    # -- what comes ------------------------------------------------------------------------------

    def receive(self, fields: Fields, size: int) -> None:
        """Take an event of so many bytes."""
        stream = self._numbers.get(fields.pop("subscription", None))
        if stream is None:
            return  # it has ended meanwhile
        if not stream.receive(fields, size):
            self._unsubscribe(stream)
        elif stream.is_full and not stream.can_resume and stream not in self._overdue:
            self._stuffed.add(stream)

    def answered(self, name: object, outcome: Fields | Problem) -> bool:
        """Take the answer to a ``subscribe``; False if it is another one."""
        stream = self._asked.pop(name, None)
        if stream is None:
            return False
        if isinstance(outcome, Problem):
            stream.end(outcome)
            self._forget(stream)
        else:
            self._numbers[outcome.get("subscription")] = stream
            if stream.is_closed:
                self._unsubscribe(stream)
            else:
                stream.opened(outcome)
        deferred, self._deferred = self._deferred, []
        for one in deferred:
            if not one.is_closed:
                self._subscribe(one)
        return True

    # -- readers ---------------------------------------------------------------------------------

    def add(self, stream: Stream) -> None:
        """Begin a subscription."""
        self._streams[stream] = None
        self._subscribe(stream)

    def remove(self, stream: Stream) -> None:
        """End a subscription."""
        stream.end()
        self._forget(stream)
        self._unsubscribe(stream)

    def taken(self, stream: Stream) -> None:
        """Note that the reader of a subscription has taken an event."""
        if not stream.is_low:
            return
        self._overdue.discard(stream)
        self._make_room(stream)
        if stream.is_behind and not stream.is_closed and stream not in self._asked.values():
            self._subscribe(stream)

    @property
    def is_stuffed(self) -> bool:
        """Whether the connection is better not read now."""
        return bool(self._stuffed)

    def wait_no_longer(self) -> None:
        """Read the connection all the same, until the readers have come half through."""
        self._overdue |= self._stuffed
        self._stuffed.clear()

    # -- parts -----------------------------------------------------------------------------------

    def _subscribe(self, stream: Stream) -> None:
        if not self._is_connected:
            return  # the next connection begins with it
        if any(one.is_closed and one.filter == stream.filter for one in self._asked.values()):
            self._deferred.append(stream)
            return
        self._last += 1
        name = f"s{self._last}"
        self._asked[name] = stream
        self._say({"id": name, "op": "subscribe"} | stream.words)

    def _unsubscribe(self, stream: Stream) -> None:
        """End it at the server, where it may begin again."""
        if stream.is_closed:
            self._forget(stream)
        for number in [number for number, one in self._numbers.items() if one is stream]:
            del self._numbers[number]
            self._say({"op": "unsubscribe", "subscription": number})

    def _forget(self, stream: Stream) -> None:
        self._streams.pop(stream, None)
        self._overdue.discard(stream)
        self._make_room(stream)

    def _make_room(self, stream: Stream) -> None:
        self._stuffed.discard(stream)
        if not self._stuffed:
            self.room.set()
