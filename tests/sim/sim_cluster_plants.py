"""Mistakes to plant into nodes that share a log: a simulation that misses one is blind."""

import sim_nodes

from rowcast.cluster.follower_link import FollowerLink
from rowcast.cluster.forwarding import ForwardingCommitter
from rowcast.cluster.proposals import Proposal
from rowcast.cluster.sequencer_links import SequencerLinks
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, Event
from rowcast.journal.follower_store import FollowerStore
from rowcast.reads.record_cache import Unknown
from rowcast.writes.followed_stages import FollowedStages
from rowcast.writes.staged_commit import StagedCommits


def verify_no_record(monkeypatch):
    """The sequencer carries out decisions that rest on records of the past."""
    of = Proposal.of.__func__

    def blind(cls, node, number, units, content):
        return of(cls, node, number, [unit._replace(reads=()) for unit in units], content)

    monkeypatch.setattr(Proposal, "of", classmethod(blind))


def judge_a_proposal_each_time_it_comes(monkeypatch):
    """What is sent again after an interruption is written again."""
    propose = SequencerLinks.propose

    def forgetful(self, life, proposal):
        life.number = 0
        propose(self, life, proposal)

    monkeypatch.setattr(SequencerLinks, "propose", forgetful)


def send_again_before_the_log_was_followed(monkeypatch):
    """A proposal is sent to a new sequencer although the log has it."""
    welcomed = FollowerLink._welcomed

    def hasty(self, term, number):
        welcomed(self, term, number)
        self.problem = ""
        self._send_proposal()

    monkeypatch.setattr(FollowerLink, "_welcomed", hasty)


def begin_without_a_batch(monkeypatch):
    """An earlier writer can still append after a new one has welcomed nodes."""
    monkeypatch.setattr(SequencerLinks, "begin", lambda _self: None)


def take_a_conflict_for_success(monkeypatch):
    """A sequencer that was replaced goes on acknowledging."""
    append = sim_nodes.Engine.append

    def careless(self, batch):
        try:
            append(self, batch)
        except Error as error:
            if error.code is not Code.CONFLICT:
                raise

    monkeypatch.setattr(sim_nodes.Engine, "append", careless)


def answer_from_the_past(monkeypatch):
    """A sequencer that was replaced tells that a condition is not met."""
    make = sim_nodes.SequencingCommitter

    def unconfirmed(*parts, confirms, **more):
        del confirms
        return make(*parts, **more)

    monkeypatch.setattr(sim_nodes, "SequencingCommitter", unconfirmed)


def do_not_ask_what_was_there(monkeypatch):
    """Nobody knows at the sequencer that a writer wants to hear about an earlier record."""
    of = Proposal.of.__func__

    def silent(cls, node, number, units, content):
        units = [unit._replace(wants_existed=False) for unit in units]
        return of(cls, node, number, units, content)

    monkeypatch.setattr(Proposal, "of", classmethod(silent))


def lose_facts_on_the_way(monkeypatch):
    """Tables of a follower lack the facts of the others."""
    take = FollowerStore.take

    def lossy(self, batch):
        take(self, batch)
        content = batch.content(self._declared.get)
        for change in content.changes:
            self._tables._states.pop(change.owner, None)
        return content

    monkeypatch.setattr(FollowerStore, "take", lossy)


def give_up_and_say_it_is_not_written(monkeypatch):
    """A writer that has waited for too long is told more than anybody knows."""

    def overdue(self, number):
        if self._committer.proposed == number:
            self._proposal = None
            self._committer.give_up(Error(Code.BUSY, "nothing was written"))

    monkeypatch.setattr(FollowerLink, "_overdue", overdue)


def forget_what_a_proposal_replaces(monkeypatch):
    """Readers at the sequencer are not told what left by the write of another node."""
    begin = sim_nodes.Leader.__init__

    def forgetful(self, world, name):
        begin(self, world, name)
        self.committer.remembers = lambda _table: False

    monkeypatch.setattr(sim_nodes.Leader, "__init__", forgetful)


def sweep_at_the_start(monkeypatch):
    """A node that is restarted forgets the pages of a result that is being staged."""
    monkeypatch.setattr(FollowerStore, "sweeps", True)


def announce_no_switch(monkeypatch):
    """Readers at a follower are not told of a large result."""
    monkeypatch.setattr(sim_nodes.ForwardingCommitter, "_show", ForwardingCommitter._take_found)


def keep_records_of_before_a_switch(monkeypatch):
    """A node that follows shows records that a large result has replaced."""
    show = ForwardingCommitter._show

    def stale(self, shown):
        known = {topic: self._cache.whole(topic) for topic in ("Dog/1", "Dog/2")}
        show(self, shown)
        for topic, record in known.items():
            if not isinstance(record, Unknown):
                self._cache.put_all([record or Event(topic, DELETE, b"")])

    monkeypatch.setattr(ForwardingCommitter, "_show", stale)


def tell_of_the_first_table_alone(monkeypatch):
    """Readers at a follower are not told what a large result writes in another table."""
    switch = FollowedStages.switch
    monkeypatch.setattr(FollowedStages, "switch", lambda *told: switch(*told)[:1])


def stage_beside_a_batch(monkeypatch):
    """A page is decided on the records from before a batch that is being written."""
    monkeypatch.setattr(StagedCommits, "_page_alone", StagedCommits._page)


RESULT_PLANTS = (
    sweep_at_the_start,
    announce_no_switch,
    keep_records_of_before_a_switch,
    tell_of_the_first_table_alone,
    stage_beside_a_batch,
)
CLUSTER_PLANTS = (
    verify_no_record,
    judge_a_proposal_each_time_it_comes,
    send_again_before_the_log_was_followed,
    begin_without_a_batch,
    take_a_conflict_for_success,
    answer_from_the_past,
    do_not_ask_what_was_there,
    lose_facts_on_the_way,
    give_up_and_say_it_is_not_written,
    forget_what_a_proposal_replaces,
)
