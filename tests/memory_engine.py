"""An engine in memory: for tests and the simulation, with answers that are lost on request."""

import threading

from rowcast.core.errors import Code, Error
from rowcast.log.engine import Lease, no_answer, not_the_next, too_large


class Shared:
    """What the servers of an engine keep, whoever is connected."""

    def __init__(self, epoch="00000000", first=1):
        self.epoch = epoch
        self.first = first
        self.entries = []
        self.lease = Lease()
        self.lock = threading.Lock()


class MemoryEngine:
    """One node's connection.

    ``fault`` is called before each append and returns what is wrong with it: ``"request"`` is lost
    before it is stored, ``"answer"`` after. ``late`` is how many of the newest entries reads miss.
    """

    entry_bytes_max = 1 << 20

    def __init__(self, shared=None, fault=None):
        self.shared = Shared() if shared is None else shared
        self.fault = fault or (lambda: "")
        self.late = lambda: 0

    @property
    def epoch(self):
        return self.shared.epoch

    def bounds(self):
        shared = self.shared
        with shared.lock:
            return shared.first, shared.first + len(shared.entries) - 1

    def append(self, number, data):
        if len(data) > self.entry_bytes_max:
            raise too_large(len(data), self.entry_bytes_max)
        fault = self.fault()
        if fault == "request":
            raise no_answer("the engine", "lost")
        shared = self.shared
        with shared.lock:
            if number != shared.first + len(shared.entries):
                raise not_the_next(number)
            shared.entries.append(data)
        if fault == "answer":
            raise no_answer("the engine", "lost")

    def read(self, after, size):
        shared, found = self.shared, []
        with shared.lock:
            if after + 1 < shared.first:
                raise Error(Code.GONE, f"entries up to {shared.first - 1} are gone")
            end = len(shared.entries) - self.late()
            for data in shared.entries[after + 1 - shared.first : max(0, end)]:
                if size <= 0:
                    break
                found.append(data)
                size -= len(data)
        return found

    def lease(self):
        return self.shared.lease

    def take_lease(self, known, holder):
        shared = self.shared
        with shared.lock:
            if shared.lease.version != known:
                raise Error(Code.CONFLICT, "another node has taken the lease")
            shared.lease = Lease(known + 1, holder)
            return shared.lease

    def trim(self, until):
        shared = self.shared
        with shared.lock:
            gone = min(until - shared.first + 1, len(shared.entries) - 1)
            if gone > 0:
                del shared.entries[:gone]
                shared.first += gone

    def close(self):
        """Nothing is open."""
