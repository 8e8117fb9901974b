"""A log in memory: for tests and the simulation, with faults on request."""

import threading

from rowcast.core.errors import Code, Error
from rowcast.log.batch import Batch
from rowcast.log.log import Head


class MemoryLog:
    """Keeps encoded batches in a list, None for each that was trimmed.

    Several writers may share ``stored``, as they share an engine. ``refuse`` is how many appends
    the disk refuses next.
    """

    def __init__(self, epoch="00000000", stored=None, first=1):
        self.epoch = epoch
        self.stored = [None] * (first - 1) if stored is None else stored
        self.refuse = 0
        self._grown = threading.Condition()
        last = self._at(len(self.stored)) if any(self.stored) else None
        self.term = 1 if last is None else last.term + 1
        self.head = Head(first - 1) if last is None else Head(last.number, last.last)

    @property
    def trimmed(self):
        """Return the number of the last batch that is gone."""
        return self.stored.count(None)

    def _at(self, number):
        return Batch.read(self.stored[number - 1])

    def append(self, batch):
        if (batch.term, batch.number) != (self.term, len(self.stored) + 1):
            raise Error(Code.CONFLICT, f"batch {batch.number} cannot follow {len(self.stored)}")
        if self.refuse:
            self.refuse -= 1
            raise Error(Code.BUSY, "the disk is full")
        with self._grown:
            self.stored.append(batch.data)
            self.head = Head(batch.number, batch.last)
            self._grown.notify_all()

    def read(self, after, size):
        if after < self.trimmed:
            raise Error(Code.GONE, f"batches up to {self.trimmed} are gone")
        found = []
        for number in range(after + 1, len(self.stored) + 1):
            if size <= 0:
                break
            found.append(self._at(number))
            size -= len(self.stored[number - 1])
        return found

    def wait(self, after, seconds):
        with self._grown:
            return self._grown.wait_for(lambda: self.head.number > after, seconds)

    def trim(self, until):
        for number in range(min(until, len(self.stored) - 1)):
            self.stored[number] = None

    def close(self):
        """Nothing is open."""
