"""The store as the server has it: a log first, and an applier that follows it in its own time.

Everything runs on one thread, so whoever would wait for the applier lets it work. It fails as the
disk does, its transactions are of any size, its reports may be lost, and it dies with the process:
the next one applies what the log has and the tables lack.
"""

from sim_store import EPOCH, SimTables, Truth

from memory_log import MemoryLog
from rowcast.core.errors import Code, Error
from rowcast.journal.applier import Applier
from rowcast.journal.applying import Applied
from rowcast.journal.journaled_store import JournaledStore
from rowcast.journal.tail import Tail

LAGS_SECONDS = (0.005, 0.1)
LAGS_EVENTS = (3, 50, 20_000)
LAGS_BATCHES = (2, 2_000)
REPORT_LOST = 0.05
"""How often an applier dies between its transaction and the report of it."""
READ_BYTES = (1, 1_000, 100_000)


class _Log(MemoryLog):
    """A log on a disk that fails."""

    def __init__(self, truth):
        super().__init__(EPOCH)
        self._truth = truth

    def append(self, batch):
        self._truth.write_fault("append")
        super().append(batch)


class _Tables(SimTables):
    """Tables that an applier writes: what it cannot write it tries again."""

    def __init__(self, truth):
        super().__init__(truth)
        self.fault = self._applier_fault

    def _applier_fault(self, name):
        truth = self._truth
        if truth.rng.random() < truth.trouble:
            truth.faults += 1
            truth.trace(f"fault {name} of the applier")
            raise Error(Code.BUSY, "the disk is full")

    def sync(self):
        """Do nothing: a transaction here is durable."""

    def finish_staged(self):
        """Do nothing: no result is so large that it is staged."""

    def declared_otherwise(self, tables):
        """Return the tables whose declaration has changed: none."""
        return set()

    def is_beyond(self, source, keep, now_seconds):
        """Tell whether a trim may find something."""
        return True

    def missing(self, tables):
        """Return which of these topic tables do not exist."""
        known = self.topic_tables()
        return [table for table in tables if table not in known]


class _Waiting:
    """In place of a condition: to wait is to let the applier work."""

    def __init__(self, work):
        self._work = work

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def notify_all(self):
        """Do nothing: nobody sleeps."""

    def wait_for(self, predicate, _seconds):
        while not predicate():
            self._work()
        return True


class _Applying:
    """An applier that works when the seed says so."""

    def __init__(self, loop, rng, log, tables):
        self._loop = loop
        self._rng = rng
        self._log = log
        self._tables = tables
        self._told = None

    def start(self, declared, after, told):
        self._applier = Applier(self._tables, declared, self._rng.choice((1, 5, 5_000)))
        self._told = told

    def push(self, number):
        delay = self._rng.choice((0, 0.002, self._rng.random() * 0.2))
        self._loop.call_later(delay, self._work_for, self._told)

    def hurry(self, number):
        """Do nothing: who waits makes it work."""

    def _work_for(self, told):
        """Work for the process that asked, if it still runs."""
        if told is not None and told is self._told:
            self.work()

    def work(self):
        """Make one attempt to apply what comes next, and report it."""
        tables, results, problem = self._tables, {}, ""
        before = tables.applied()
        try:
            results = self._applier.apply(self._log.read(before, self._rng.choice(READ_BYTES)))
        except Error as error:
            problem = error.message
        if self._rng.random() < REPORT_LOST:
            results = {}
        self._told(Applied(tables.applied(), results, problem=problem))

    def tidy(self, limit):
        return self._tables.tidy(limit)

    def stop(self):
        """Die with the process."""
        self._told = None


class SimJournal(Truth, JournaledStore):
    """A log, a tail and tables; ``open`` is the start of a process."""

    def __init__(self, rng, trace, now, loop, dice):
        Truth.__init__(self, rng, trace, now)
        self._loop = loop
        self._dice = dice
        tables, log = _Tables(self), _Log(self)
        applying = _Applying(loop, dice, log, tables)
        JournaledStore.__init__(self, tables, log, applying, now, self._new_tail(applying))

    def _new_tail(self, applying):
        choice = self._dice.choice
        lags = choice(LAGS_SECONDS), choice(LAGS_EVENTS), choice(LAGS_BATCHES)
        return Tail(*lags, self._loop.time, _Waiting(applying.work))

    def open(self, tables):
        """Start as a process does: with an empty tail, on a disk that works."""
        trouble, self.trouble = self.trouble, 0.0
        self.tail = self._new_tail(self.applying)
        super().open(tables)
        self.trouble = trouble

    def end(self):
        """End with the process: what is in the log stays."""
        self.applying.stop()

    def append(self, packed, *, may_outrun_tables=False):
        self.look()
        number = super().append(packed, may_outrun_tables=may_outrun_tables)
        self.stored(packed.events, packed.changes)
        self.look()
        return number

    def held(self, table, topic):
        """Return the record that the tables have, without any trouble."""
        return self._quietly(self._tables.held, table, topic)

    def all_held(self, table):
        """Return all records of a table, without any trouble."""
        return self._quietly(self._tables.all_held, table)

    def knows(self, owner, name):
        """Tell whether there is such a fact."""
        return bool(self._quietly(self.facts, [(owner, name)]))

    def _quietly(self, call, *arguments):
        trouble, self.trouble = self.trouble, 0.0
        try:
            self.caught_up()
            return call(*arguments)
        finally:
            self.trouble = trouble
