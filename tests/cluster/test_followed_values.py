"""A follower decodes what the log brings when somebody looks at it, as its writer did."""

from build import Server
from rowcast.cluster.forwarding import ForwardingCommitter
from rowcast.core.events import MISSING, PUT, Event
from rowcast.core.topics import TopicFilter
from rowcast.journal.follower_store import FollowerStore
from rowcast.log.batch import Batch
from rowcast.log.batch_content import Content
from rowcast.log.followed_log import FollowedLog
from rowcast.log.log import Head
from rowcast.store.sqlite import SqlStore
from virtual import turns

NAME = {"name": "Rex"}


class Applying:
    """An applier that does nothing: all is in the tail."""

    def start(self, *_):
        """Begin."""

    def push(self, _number):
        """Have a batch applied."""

    def hurry(self, _number):
        """Likewise, soon."""


class Follower(Server):
    """A process that follows."""

    def __init__(self, folder):
        tables = SqlStore(f"sqlite:///{folder / 'copy.db'}", synced=False)
        followed = FollowedLog(tables.epoch, Head(0, 0))
        super().__init__(store=FollowerStore(tables, followed, Applying(), lambda: 0))
        self.dog = self.registry.shapes["Dog"].table

    def _committer(self, bounds):
        parts = (self.store, self.bus, self.cache, self.clock, self.writer, bounds)
        return ForwardingCommitter(*parts, node="b")

    async def follow(self, *topics, payload=b'{"name": "Rex"}', content_type=None):
        """Take a batch with a put at each topic; return its events, as the tail has them."""
        events = [
            Event(topic, PUT, payload, content_type, 1, True, self.dog, "c", None, 0.0, seq, seq)
            for seq, topic in enumerate(topics, self.store.head() + 1)
        ]
        number = self.store.number + 1
        self.committer.follow(Batch.make(number, 1, self.store.head(), Content(events), 1))
        await turns()
        return list(self.store.tail._entries[-1].events)


class Reader:
    """A subscriber that notes what it was offered."""

    def __init__(self):
        self.decoded = []

    def offer(self, event):
        self.decoded.append(event.decoded)


async def test_what_nobody_reads_is_not_decoded(tmp_path):
    here, reader = Follower(tmp_path), Reader()
    here.bus.add(TopicFilter("Dog/read"), reader)
    found = await here.follow("Dog/unread", "Dog/read")
    assert [MISSING, NAME] == [event.decoded for event in found]
    assert [NAME] == reader.decoded
    assert (2, 2) == (here.committer.announced, here.committer.stored)
    assert here.clock.last == 2


async def test_a_record_in_memory_is_decoded_when_it_is_looked_at(tmp_path):
    here = Follower(tmp_path)
    await here.follow("Dog/1", "Dog/2")
    assert NAME == here.cache.get("Dog/1").decoded
    assert NAME == here.cache.whole("Dog/2").decoded


async def test_a_record_of_the_tail_is_decoded_when_it_is_looked_at(tmp_path):
    here = Follower(tmp_path)
    await here.follow("Dog/1")
    assert NAME["name"] == here.store.get(here.dog, "Dog/1").decoded["name"]


async def test_bytes_that_are_no_value_stay_bytes(tmp_path):
    here, reader = Follower(tmp_path), Reader()
    here.bus.add(TopicFilter("Dog/#"), reader)
    await here.follow("Dog/1", payload=b"\x00", content_type="application/octet-stream")
    assert [MISSING] == reader.decoded
    assert (b"\x00", MISSING) == (here.cache.get("Dog/1").payload, here.cache.get("Dog/1").decoded)
