"""The log of a follower: the batches that it received and that are not in its tables yet.

The log itself is elsewhere. What is kept here is what the applier of the node still needs; it
begins where the tables end, and is in memory only: after a restart the node asks for it again.
"""

import threading
from collections import deque

from rowcast.core.errors import Code, Error
from rowcast.log.batch import Batch
from rowcast.log.log import Head


class FollowedLog:
    """The end of a log that another node appends to."""

    def __init__(self, epoch: str, head: Head, checksum: int = 0) -> None:
        self.epoch = epoch
        """Eight hexadecimal digits that name the log."""
        self.head = head
        """The last batch that came."""
        self.checksum = checksum
        """Its checksum; 0 if that is not known."""
        self.term = 0
        """The term of the last batch; terms never go back."""
        self._batches: deque[Batch] = deque()
        self._grown = threading.Condition()

    @property
    def trimmed(self) -> int:
        """The number of the last batch that is not here any more."""
        return self.head.number - len(self._batches)

    def append(self, batch: Batch) -> None:
        """Refuse: the log is elsewhere. Raises CONFLICT."""
        raise Error(Code.CONFLICT, f"batch {batch.number}: this node follows, and appends nothing")

    def take(self, batch: Batch) -> None:
        """Take the next batch of the log. Raises CONFLICT for another one."""
        number = self.head.number + 1
        if batch.number != number or batch.term < self.term:
            what = f"batch {batch.number} of term {batch.term} where batch {number} is expected"
            raise Error(Code.CONFLICT, f"{what}, of term {self.term} or later")
        with self._grown:
            self._batches.append(batch)
            self.head, self.term = Head(batch.number, batch.last), batch.term
            self.checksum = batch.checksum
            self._grown.notify_all()

    def read(self, after: int, size: int) -> list[Batch]:
        """Return the batches after a number, in order, up to about ``size`` bytes, at least one.

        Empty at the end. Raises GONE when some of them are not here any more.
        """
        found: list[Batch] = []
        with self._grown:
            if after < self.trimmed:
                raise Error(Code.GONE, f"batches up to {self.trimmed} are no longer here")
            for batch in self._batches:
                if size <= 0:
                    break
                if batch.number > after:
                    found.append(batch)
                    size -= len(batch.data)
        return found

    def wait(self, after: int, seconds: float) -> bool:
        """Wait until a batch after a number is here, at most so long; tell whether it is."""
        with self._grown:
            return self._grown.wait_for(lambda: self.head.number > after, seconds)

    def trim(self, until: int) -> None:
        """Let go of batches up to a number, which the tables have."""
        with self._grown:
            while self._batches and self._batches[0].number <= until:
                self._batches.popleft()

    def close(self) -> None:
        """Nothing is open."""
