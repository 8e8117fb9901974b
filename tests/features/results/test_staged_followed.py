"""Large results where other processes follow the log: all show them at one position, or never.

A server stages and switches; a process that follows takes the same batches, one at a time.
"""

import sqlite3

import pytest
from test_bulk_commit import dogs
from test_staged_results import MANY, Staged, read, subscribed

from build import ANN, TABLES, Server
from rowcast.cluster.forwarding import ForwardingCommitter
from rowcast.core.events import PUT, Event
from rowcast.core.topics import TopicFilter
from rowcast.journal.applying import InlineApplying
from rowcast.journal.follower_store import FollowerStore
from rowcast.log.batch import Batch
from rowcast.log.batch_content import Content
from rowcast.log.followed_log import FollowedLog
from rowcast.log.log import Head
from rowcast.store.sqlite import SqlStore


class Follower(Server):
    """A process that follows, with tables of its own."""

    def __init__(self, path, epoch):
        self.tables_here = tables = SqlStore(path, epoch=epoch)
        followed = FollowedLog(epoch, Head(tables.applied(), tables.head()))
        store = FollowerStore(tables, followed, InlineApplying(tables, followed), lambda: 0)
        super().__init__(store=store)
        self.room = self

    def _committer(self, bounds):
        parts = (self.store, self.bus, self.cache, self.clock, self.writer, bounds)
        return ForwardingCommitter(*parts, node="one")

    def follow(self, batches):
        for batch in batches:
            if batch.number > self.store.number:
                self.committer.follow(batch)

    def seen(self):
        """Return how many records and how many events there are."""
        table = self.registry.shapes["Dog"].table
        page = self.store.scan(table, TopicFilter("Dog/#"), "", 10_000)
        return len(page.records), len(self.store.read(0, 10_000, [table]))


class Both:
    """A server, and one that follows it."""

    make = Staged

    def __init__(self, path):
        self.leader = self.make(path)
        self.room = self.leader.room
        self.batches = []
        self.room.store.on_appended = self.batches.append
        self.path = path / "follower.db"
        self.follower = Follower(self.path, self.room.store.epoch)

    def restart(self):
        self.follower.store.close()
        self.follower = Follower(self.path, self.room.store.epoch)

    def close(self):
        self.leader.store.close()
        self.follower.store.close()

    def names(self):
        """Return the name of the operation of each batch, empty for one of events."""
        contents = [batch.content({table.name: table for table in TABLES}.get)
                    for batch in self.batches]  # fmt: skip
        return ["".join(item.name for item in content.operations) for content in contents]


async def followed(both, until=None):
    """Have batches followed, all or those up to a number, and announced."""
    both.follower.follow(both.batches[:until])
    committer = both.follower.committer
    reached = committer._loop.create_future()

    def look():
        if committer.followed == both.follower.store.number and not reached.done():
            reached.set_result(None)

    committer.on_followed = look
    look()
    await reached


@pytest.mark.heavy
async def test_k1_a_follower_shows_a_staged_result_at_the_position_of_its_switch(tmp_path):
    both = Both(tmp_path)
    await both.room.put("Dog/d0000", b'{"name": "old"}')
    await followed(both)
    here = both.follower
    before = here.committer.announced
    live, one, other = (subscribed(here, it) for it in ("Dog/#", "Dog/d0007", "Dog/none"))
    here_first = await here.kernel.read("Dog/d0000", ANN)
    assert here_first.decoded["name"] == "old"
    await both.leader.write(dogs(**MANY))
    switch = both.names().index("switch")
    for until in range(1, switch + 1):
        await followed(both, until)
        assert here.seen() == (1, 1)
        assert here.committer.announced == before
    await followed(both)
    assert here.seen() == (2_500, 2_501)
    assert here.committer.announced == both.room.committer.announced
    again = await here.kernel.read("Dog/d0000", ANN)
    assert again.decoded["name"] == "new"
    got = await read(live, 2_500)
    assert [(event.topic, event.seq) for event in got] == [
        (event.topic, event.seq) for event in both.leader.log()[1:]
    ]
    assert [event.topic for event in await read(one, 1)] == ["Dog/d0007"]
    assert not other.progress.behind
    both.close()


@pytest.mark.heavy
async def test_a_follower_whose_tables_cannot_be_read_at_the_switch_tells_its_readers(tmp_path):
    """They would go on beyond the result without it."""
    both = Both(tmp_path)
    await followed(both)
    here = both.follower
    one = subscribed(here, "Dog/d0007")
    await both.leader.write(dogs(**MANY))
    read_at_first, failed = here.store.read, []

    def fails(*arguments):
        here.store.read = read_at_first
        failed.append(arguments)
        raise sqlite3.OperationalError("disk I/O error")

    here.store.read = fails
    await followed(both)
    assert len(failed) == 1
    assert [event.topic for event in await read(one, 1)] == ["Dog/d0007"]
    both.close()


@pytest.mark.heavy
async def test_a_follower_that_ends_between_two_pages_goes_on_with_what_it_has(tmp_path):
    both = Both(tmp_path)
    await both.leader.write(dogs(**MANY))
    pages = [at for at, name in enumerate(both.names()) if name == "stage"]
    assert len(pages) == 3
    await followed(both, pages[1] + 1)
    both.restart()
    assert both.follower.seen() == (0, 0)
    other = subscribed(both.follower, "Dog/none")
    await followed(both)
    assert both.follower.seen() == (2_500, 2_500)
    assert other.progress.behind  # it was not here for all topics
    both.close()


@pytest.mark.heavy
async def test_a_follower_forgets_what_another_writer_has_staged(tmp_path):
    """A node that begins to number says so with its first batch."""
    both = Both(tmp_path)
    await both.leader.write(dogs(**MANY))
    pages = [at for at, name in enumerate(both.names()) if name == "stage"]
    await followed(both, pages[-1] + 1)
    both.room.store.begin_term()
    term = both.batches[-1]
    content = term.content(lambda _: None)
    assert [item.name for item in content.operations] == ["abandon"]
    tables = both.follower.tables_here
    both.follower.store.take(_next(both.follower, content))
    assert not tables.staging.tables
    assert both.follower.seen() == (0, 0)
    event = Event("Dog/later", PUT, b"{}", None, 1, True, TABLES[0], seq=tables.head() + 1)
    both.follower.store.take(_next(both.follower, Content([event])))
    assert both.follower.seen() == (1, 1)
    both.close()


def _next(follower, content):
    log = follower.store.log
    return Batch.make(log.head.number + 1, 9, log.head.last, content, 0)


@pytest.mark.heavy
async def test_a_process_that_shares_the_tables_leaves_what_is_staged_to_their_writer(tmp_path):
    """It moves no rows that all see when it starts: their writer is at it."""
    both = Both(tmp_path)
    await both.leader.write(dogs(**MANY))
    await followed(both, both.names().index("switch"))
    tables = both.follower.tables_here
    tables.switch(both.room.committer.announced, [(TABLES[0], 2_500, 1)])
    reader = SqlStore(both.path, lock=False, moves=False)
    reader.open(TABLES)
    with reader._database.reading() as cursor:
        assert cursor.execute("SELECT count(*) FROM rowcast_staged").fetchone() == (2_500,)
        assert cursor.execute('SELECT count(*) FROM "Dog"').fetchone() == (2_500,)
    seen = []
    reader.follow_writer(seen.append)
    with reader._database.reading():
        assert seen == [tables.applied() + 1]  # it waits for the batch that has the switch
    reader.close()
    while tables.move_staged(1_000):
        """Nothing else has to be done."""
    assert both.follower.seen() == (2_500, 2_500)
    both.close()


@pytest.mark.heavy
async def test_columns_that_come_while_a_result_is_staged_are_seen_with_it(tmp_path):
    """A node that was restarted with another schema, in the middle of a result."""
    both = Both(tmp_path)
    await both.leader.write(dogs(**MANY))
    switch = both.names().index("switch")
    await followed(both, switch)
    tables = both.follower.tables_here
    with tables._database.writing() as cursor:
        cursor.execute('ALTER TABLE "Dog" ADD COLUMN "weight" INTEGER')
    tables.staging.switch([(tables._parts.of(TABLES[0]), 2_500, 1)], 1)
    with tables._database.reading() as cursor:
        (found,) = cursor.execute('SELECT count(*) FROM "Dog" WHERE "weight" IS NULL').fetchone()
    assert found == 2_500
    both.close()


@pytest.mark.heavy
async def test_the_numbers_that_a_result_leaves_out_are_events_on_no_node(tmp_path):
    """What a reader is behind is told without them, also after a start of the follower."""
    both = Both(tmp_path)
    await both.room.put("Dog/a")
    await both.leader.write(dogs(**MANY))
    await followed(both)
    for node in (both.room, both.follower):
        assert node.committer.events_after(1) == len(MANY)
    both.restart()
    await followed(both)
    assert both.follower.committer.events_after(1) == len(MANY)
    both.close()
