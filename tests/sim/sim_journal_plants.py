"""Mistakes to plant between the log and the tables: a simulation that misses one is blind."""

from rowcast.features.undeclared_topics.topic_tables import TopicTables
from rowcast.journal import journaled_store
from rowcast.journal.applier import Applier
from rowcast.journal.journaled_store import JournaledStore
from rowcast.journal.tail import NOTHING, Tail


def read_tables_that_are_behind(monkeypatch):
    """A reader does not see what was acknowledged."""
    monkeypatch.setattr(JournaledStore, "_caught_up", lambda self: self._tables)


def forget_deletions_in_the_tail(monkeypatch):
    """A deleted record is read again until the tables have the deletion."""
    find = Tail.find

    def forgetful(self, topic):
        known = find(self, topic)
        return NOTHING if known is None else known

    monkeypatch.setattr(Tail, "find", forgetful)


def look_for_records_in_the_tables_alone(monkeypatch):
    """A write is decided on a record that another has replaced."""
    monkeypatch.setattr(Tail, "find", lambda _self, _topic: NOTHING)


def start_without_the_log(monkeypatch):
    """What was not applied before a kill is never applied."""
    monkeypatch.setattr(journaled_store, "catch_up", lambda _tables, _log, _declared: 0)


def apply_one_batch_of_a_transaction(monkeypatch):
    """The tables skip what was read together."""
    apply = Applier.apply

    def hasty(self, batches, done=None):
        return apply(self, batches[-1:], done)

    monkeypatch.setattr(Applier, "apply", hasty)


def drop_what_was_made_late(monkeypatch):
    """A topic table is dropped with a record: its making had failed, and was in the log."""

    def careless(self, entry):
        self._missing.add(entry.table.branch.level)
        entry.defined = False
        self._store.drop(entry.table)
        return True

    monkeypatch.setattr(TopicTables, "_remove", careless)


JOURNAL_PLANTS = (
    read_tables_that_are_behind,
    look_for_records_in_the_tables_alone,
    apply_one_batch_of_a_transaction,
)
HIDDEN_JOURNAL_PLANTS = {
    start_without_the_log: (45, 87, 8),
}
"""Mistakes that only rough runs notice, and seeds of such."""
RARE_JOURNAL_PLANTS = (forget_deletions_in_the_tail, drop_what_was_made_late)
"""Those that no rough run of the seeds 0-99 notices. A cache of records mostly hides the first; the
conformance suite of the store notices it, with an applier that lags. Of the second only one seed in
hundreds has what it needs; tests/features/undeclared_topics/test_topic_tables_limits.py has it."""
