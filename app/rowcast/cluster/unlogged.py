"""Unlogged events between processes: announced here at once, and once a turn to the others.

They are stored nowhere. What a connection has no room for is lost for the process behind it.
"""

import asyncio
from collections.abc import Callable, Sequence

from rowcast.core.events import Event
from rowcast.writes.commit import Committer

Send = Callable[[Sequence[Event]], None]


class UnloggedEvents:
    """Stands between the committer, which announces, and the other processes."""

    def __init__(self, announcing: Committer, send: Send) -> None:
        self._announce = announcing.publish_unlogged
        self._announce_run = announcing.publish_unlogged_run
        self._send = send
        self._turn: list[Event] = []
        self._loop = asyncio.get_running_loop()
        announcing.publish_unlogged = self.publish
        announcing.publish_unlogged_run = self.publish_run

    def publish(self, event: Event) -> None:
        """Announce an event here, and pass it on."""
        self._announce(event)
        self._pass_on((event,))

    def publish_run(self, events: list[Event]) -> None:
        """The same for several events of one topic."""
        self._announce_run(events)
        self._pass_on(events)

    def take(self, events: Sequence[Event]) -> None:
        """Announce events of another process."""
        for event in events:
            self._announce(event)

    def _pass_on(self, events: Sequence[Event]) -> None:
        """Collect what others can have readers of: events of declared tables."""
        wanted = [event for event in events if event.table is not None]
        if wanted and not self._turn:
            self._loop.call_soon(self._flush)
        self._turn += wanted

    def _flush(self) -> None:
        turn, self._turn = self._turn, []
        self._send(turn)
