"""Messages that are announced before they are appended (``log.qos0: behind``).

A QoS 0 message that is not retained has no acknowledgement and changes no record, so no client is
told that it is stored. It need not wait for the disk: it is numbered and announced, and appended to
the log right after, with those of the next two milliseconds (``GATHER_SECONDS``), unless somebody
waits for the disk. If the server is killed in between, the history lacks it, and its number is not
used again.

It may only be announced while no batch of other writes is being appended: these have smaller
numbers, and a cursor would skip them. So such messages go first while the log is idle, or while
the current append has only such messages; ``commit.py`` ensures that.
"""

import asyncio
from collections import deque

from rowcast.core.events import MESSAGE
from rowcast.writes.batch import Batch
from rowcast.writes.group_commit import GroupCommit
from rowcast.writes.write import FactsWrite, FireAndForget, Write


def goes_first(item: Write | FactsWrite) -> bool:
    """Whether a write may be announced before it is durable."""
    if type(item) is not Write:
        return False
    done, event = item.done, item.event
    return (
        type(done) is FireAndForget
        and done.at_once
        and event.kind is MESSAGE
        and not event.qos
        and not (item.depends or item.versioned or item.on_writer_thread or item.changes)
        and item.conclude is None
        and item.group is None
        and (event.table is None or (item.shape is not None and not item.shape.numbered))
    )


class AnnouncedFirst:
    """The announced messages of one committer that are not durable yet."""

    __slots__ = ("lost", "next", "waiting")

    def __init__(self) -> None:
        self.next = GroupCommit(Batch())
        """What was announced while others are appended; it is appended after them."""
        self.lost = 0
        """Messages whose append failed: subscribers got them, the log lacks them."""
        self.waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Who waits until a number is stored: ``when_stored``."""

    def take(self, waiting: deque[Write | FactsWrite], most: int) -> list[Write]:
        """Take the first messages of a queue, up to one that has to wait for the disk."""
        taken: list[Write] = []
        while waiting and len(taken) < most and goes_first(waiting[0]):
            taken.append(waiting.popleft())  # type: ignore[arg-type]
        return taken

    def take_next(self) -> GroupCommit:
        """Return the messages to append next, and begin a new batch."""
        work, self.next = self.next, GroupCommit(Batch())
        return work

    def when_stored(self, seq: int) -> "asyncio.Future[None]":
        """Return what is done when everything up to a number is stored; all who wait share it."""
        if self.waiting and self.waiting[-1][0] == seq:
            return self.waiting[-1][1]
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((seq, future))
        return future

    def note(self, stored: int) -> None:
        """Resolve the futures for positions up to this one: all is stored, or lost."""
        waiting = self.waiting
        while waiting and waiting[0][0] <= stored:  # asked in the order of the numbers
            future = waiting.popleft()[1]
            if not future.done():
                future.set_result(None)
