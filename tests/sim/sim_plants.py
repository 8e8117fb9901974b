"""Mistakes to plant into the server, each a monkeypatch: a simulation that misses one is blind."""

from rowcast.bus.durable_filters import DurableFilters
from rowcast.core.errors import Code, Error
from rowcast.features.undeclared_topics import topic_tables
from rowcast.features.undeclared_topics.topic_tables import TopicTables
from rowcast.kernel.write_path import WritePath
from rowcast.reads.record_cache import RecordCache
from rowcast.subscriptions.backfill import CurrentRecords
from rowcast.subscriptions.catch_up import CatchUp
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.subscription import Subscription
from rowcast.writes.announced_first import goes_first
from rowcast.writes.commit import Committer
from rowcast.writes.group_commit import GroupCommit
from rowcast.writes.write import FactsWrite, Receipt


def announce_before_the_commit(monkeypatch):
    """Subscribers hear what a failing disk takes back."""
    write = Committer._append

    def early(self, work):
        for event in work.events:
            self._bus.publish(event)
        return write(self, work)

    monkeypatch.setattr(Committer, "_append", early)


def read_the_log_before_it_is_complete(monkeypatch):
    """A page of the log lacks what is announced and on its way to the disk."""
    monkeypatch.setattr(Committer, "unstored", lambda _self: None)


def announce_past_a_batch_on_its_way(monkeypatch):
    """A QoS 0 message overtakes writes that wait for the disk, and cursors pass over them."""
    run = Committer._run

    def careless(self, work, call, then):
        self._goes_ahead = True
        run(self, work, call, then)

    monkeypatch.setattr(Committer, "_run", careless)


def announce_numbers_that_are_not_reserved(monkeypatch):
    """A crash takes messages whose numbers others get after it."""
    monkeypatch.setattr(
        Committer, "_may_go_ahead", lambda _self, work: all(map(goes_first, work.batch.writes))
    )


def answer_before_the_commit(monkeypatch):
    """A writer is told "stored" when it only waits."""
    submit = Committer.submit

    def eager(self, writes, most=0):
        submit(self, writes, most)
        for write in writes:
            write.done(Receipt(write.event))
            write.done = lambda _outcome: None

    monkeypatch.setattr(Committer, "submit", eager)


def do_not_read_again_what_did_not_fit(monkeypatch):
    """A full queue forgets instead of falling back to the log."""
    monkeypatch.setattr(Subscription, "_has_room", lambda self, event: not self.queue.events)


def fill_the_cache_with_what_was_read(monkeypatch):
    """A slow read overwrites what was committed meanwhile."""

    def fill(self, topic, record, evictions):
        del evictions
        self._records[topic] = record

    monkeypatch.setattr(RecordCache, "fill", fill)


def ignore_evictions(monkeypatch):
    """A slow read fills in what the writer wrote, and evicted, meanwhile."""
    fill = RecordCache.fill

    def careless(self, topic, record, evictions):
        del evictions
        fill(self, topic, record, self.evictions)

    monkeypatch.setattr(RecordCache, "fill", careless)


def drop_one_offered_event(monkeypatch):
    """Every tenth event of a subscription is lost."""
    offer = Subscription.offer

    def lossy(self, event):
        self.__dict__["offers"] = self.__dict__.get("offers", 0) + 1
        if self.offers % 10:
            offer(self, event)

    monkeypatch.setattr(Subscription, "offer", lossy)


def hand_over_twice(monkeypatch):
    """The position is not moved by what is taken from the queue."""
    take = Subscription._take_queue

    def forgetful(self, out, limit):
        position = self.progress.position
        take(self, out, limit)
        self.progress.position = position

    monkeypatch.setattr(Subscription, "_take_queue", forgetful)


def let_messages_overtake(monkeypatch):
    """An unlogged message does not wait for the same caller's write."""

    commit_or_announce = WritePath.commit_or_announce

    def overtaking(self, writes, most=0):
        write = writes[0]
        if write.logged or write.depends or write.changes:
            commit_or_announce(self, writes, most)
            return
        self._committer.publish_unlogged(write.event)
        write.done(Receipt(write.event))

    monkeypatch.setattr(WritePath, "commit_or_announce", overtaking)


def keep_callers_pending(monkeypatch):
    """A refused write is never counted off."""
    answer = Committer._announce_and_answer

    def leaky(self, writes, outcomes, **options):
        answer(self, writes, outcomes, **options)
        for write, outcome in zip(writes, outcomes, strict=True):
            if not isinstance(outcome, Receipt):
                connection = write.caller.connection
                self.pending[connection] = self.pending.get(connection, 0) + 1

    monkeypatch.setattr(Committer, "_announce_and_answer", leaky)


def do_not_look_before_deciding(monkeypatch):
    """Conditions and patches see only what the cache happens to know."""

    def collect(self, cache, _clock):
        for write in self.batch.writes:
            if write.depends:
                self.current[write.event.topic] = cache._records.get(write.event.topic)
        return []

    monkeypatch.setattr(GroupCommit, "collect", collect)


def split_groups(monkeypatch):
    """A batch that should be whole is decided one by one."""
    submit = Committer.submit

    def apart(self, writes, most=0):
        for write in writes:
            write.group = None
        submit(self, writes, most)

    monkeypatch.setattr(Committer, "submit", apart)


def do_not_notice_the_trimmed_log(monkeypatch):
    """A reader behind the tail of the log goes on as if nothing were missing."""

    monkeypatch.setattr(CatchUp, "lost", lambda _self, _needs: {})


def take_records_that_are_too_new(monkeypatch):
    """The current records include some whose event follows as well."""
    init = CurrentRecords.__init__

    def endless(self, interest, limit):
        init(self, interest, limit)
        self.limit = 1 << 60

    monkeypatch.setattr(CurrentRecords, "__init__", endless)


def forget_the_record_in_memory(monkeypatch):
    """A commit does not reach the cache."""
    put_all = RecordCache.put_all

    def lazy(self, events, known=None):
        put_all(self, [event for event in events if event.seq % 5], known)

    monkeypatch.setattr(RecordCache, "put_all", lazy)


def tell_of_records_as_they_were_written(monkeypatch):
    """Memory gives another form of a record than the store."""
    monkeypatch.setattr(Reader, "_settled", lambda _self, written: written)


def let_one_failing_write_fail_them_all(monkeypatch):
    """What could be stored without its neighbour is not."""

    def refuse(self, work, _error):
        work.fail(Error(Code.INTERNAL, "no"))
        self._finish(work)

    monkeypatch.setattr(Committer, "_failed", refuse)


def keep_facts_of_refused_writes(monkeypatch):
    """A fact becomes true although its write was refused."""
    submit = Committer.submit

    def rash(self, writes):
        for write in writes:
            self.keep(write.changes)
        submit(self, writes)

    monkeypatch.setattr(Committer, "submit", rash)


def keep_facts_after_their_write(monkeypatch):
    """A crash comes between a write and what is remembered of it."""
    write = Committer._append

    def apart(self, work):
        work.packed = self._store.pack(work.events)
        write(self, work)
        if work.changes:
            self._store.append(self._store.pack([], work.changes))

    monkeypatch.setattr(Committer, "_append", apart)


def forget_facts_that_are_tried_alone(monkeypatch):
    """After a failing batch a write comes through, and its facts do not."""
    make = GroupCommit.__init__

    def poor(self, batch, *, alone=False):
        make(self, batch, alone=alone)
        for write in batch.writes if alone else ():
            write.changes = ()

    monkeypatch.setattr(GroupCommit, "__init__", poor)


def let_facts_overtake(monkeypatch):
    """Facts alone do not wait for the writes before them."""

    def keep(self, changes, done=None):
        self._waiting.appendleft(FactsWrite(changes, done))
        self._keeping += 1
        self._schedule()

    monkeypatch.setattr(Committer, "keep", keep)


def forward_what_a_durable_session_wants(monkeypatch):
    """A message takes the fast path although it must be in the log."""
    monkeypatch.setattr(DurableFilters, "wanted", lambda _self, _topic: False)


def drop_topic_tables_that_hold_something(monkeypatch):
    """History is lost that was to be kept."""
    monkeypatch.setattr(topic_tables, "_empty", lambda _figures: True)


def forget_topic_tables_with_the_process(monkeypatch):
    """After a restart nobody knows what is on disk."""
    monkeypatch.setattr(TopicTables, "restore", lambda _self, _tables, _facts: None)


def keep_counting_subscribers_that_are_gone(monkeypatch):
    """A topic table never ends."""
    monkeypatch.setattr(TopicTables, "gone", lambda _self, _owner: None)


PLANTS = (
    drop_topic_tables_that_hold_something,
    forget_topic_tables_with_the_process,
    keep_counting_subscribers_that_are_gone,
    keep_facts_of_refused_writes,
    keep_facts_after_their_write,
    forget_facts_that_are_tried_alone,
    let_facts_overtake,
    forward_what_a_durable_session_wants,
    announce_before_the_commit,
    read_the_log_before_it_is_complete,
    announce_past_a_batch_on_its_way,
    answer_before_the_commit,
    do_not_read_again_what_did_not_fit,
    fill_the_cache_with_what_was_read,
    ignore_evictions,
    drop_one_offered_event,
    hand_over_twice,
    let_messages_overtake,
    keep_callers_pending,
    do_not_look_before_deciding,
    split_groups,
    do_not_notice_the_trimmed_log,
    take_records_that_are_too_new,
    forget_the_record_in_memory,
    tell_of_records_as_they_were_written,
    let_one_failing_write_fail_them_all,
)
