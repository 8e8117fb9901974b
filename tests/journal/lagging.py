"""An applier on a thread that is always a little behind, so that the tail matters."""

import random
import threading

from rowcast.journal.applier import Applier
from rowcast.journal.applying import READ_BYTES, Applied
from rowcast.store.sqlite import SqlStore


class LaggingApplying:
    """Applies some batches at a time, after a pause; ``paused`` stops it.

    It writes with a store of its own, as another process does; ``tables`` only follow.
    """

    def __init__(self, tables, log, seed=0):
        self._tables = tables
        self._log = log
        self._rng = random.Random(seed)
        self._wanted = 0
        self._changed = threading.Condition()
        self._stopped = False
        self._pause = threading.Event()
        self.paused = False

    def start(self, declared, after, told):
        self._wanted, self._told = after, told
        self._tables.follow_writer()
        self._writer = SqlStore(self._tables.path, synced=False, lock=False)
        self._writer.open(declared)
        self._applier = Applier(self._writer, declared)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def push(self, number):
        with self._changed:
            self._wanted = number
            self._changed.notify()

    def hurry(self, number):
        pass

    def tidy(self, limit):
        return self._writer.tidy(limit)

    def _run(self):
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
                if self._writer.applied() >= self._wanted:
                    return
            self._pause.wait(self._rng.choice((0, 0, 0.002)))
            batches = self._log.read(self._writer.applied(), READ_BYTES)
            results = self._applier.apply(batches[: self._rng.randint(1, len(batches))])
            self._told(Applied(self._writer.applied(), results, self._writer.report()))

    def _has_work(self):
        waiting = self._writer.applied() < self._wanted
        return self._stopped or (waiting and not self.paused)

    def stop(self):
        with self._changed:
            self._stopped, self.paused = True, False
            self._changed.notify()
        self._thread.join()
        self._writer.close()
