"""Of what a reader missed, only the newest of each record (M4)."""

from build import ANN, KEY, NOW, Server, turns
from rowcast.core.events import DELETE, MESSAGE, PUT, Event
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.subscriptions.conflation import superseded
from rowcast.subscriptions.gaps import Gap, GapCause
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

LAST = Table("Last", "Last", (KEY,), delivers_latest=True)
EVERY = Table("Every", "Every", (KEY,))


def event(seq, topic, kind=PUT, table=LAST):
    made = Event(topic, kind, b"", table=table)
    made.seq = seq
    return made


def test_only_what_a_later_one_of_the_same_record_replaces():
    page = [
        event(1, "Last/a"),
        event(2, "Last/b"),
        event(3, "Last/a", MESSAGE),
        event(4, "Every/a", table=EVERY),
        event(5, "Last/a", DELETE),
        event(6, "Every/a", table=EVERY),
        event(7, "Last/a", MESSAGE),
        event(8, "Last/a"),
    ]
    assert {1, 5} == superseded(page)
    assert frozenset() == superseded(page[1:3])


async def test_a_reader_that_comes_back_gets_the_newest_and_is_told_the_rest():
    room = Server((LAST, EVERY))
    assert NOW == room.time
    for topic in ("Last/a", "Last/a", "Last/b", "Every/a", "Last/a", "Every/a"):
        await room.put(topic)
    reader = Subscription(room.reader)
    room.kernel.watch(
        reader, SubscribedFilter(TopicFilter("#"), marks=False), ANN, 0, current=False
    )
    heard = []
    for _ in range(10):
        heard += [item for item, _ in reader.take(1)]
        await turns()
    came = [item.topic for item in heard if not isinstance(item, Gap)]
    told = [(item.why, item.count, item.last - item.after) for item in heard if item.topic == ""]
    assert ["Last/b", "Every/a", "Last/a", "Every/a"] == came
    assert ([(GapCause.CONFLATED, 2, 2)], {GapCause.CONFLATED: 2}) == (told, reader.losses.counts)
    assert reader.settled == room.committer.announced


async def test_a_reader_that_keeps_up_gets_every_event():
    room = Server((LAST,))
    reader = Subscription(room.reader)
    room.kernel.watch(reader, SubscribedFilter(TopicFilter("#"), marks=False), ANN, current=False)
    for _ in range(3):
        await room.put("Last/a")
    assert ["Last/a"] * 3 == [item.topic for item, _ in reader.take(10)]


async def test_what_was_told_is_not_told_again_after_a_cut():
    """The gap moves the position: it stands for what lies in it."""
    room = Server((LAST,))
    for _ in range(4):
        await room.put("Last/a")
    reader = Subscription(room.reader)
    room.kernel.watch(
        reader, SubscribedFilter(TopicFilter("#"), marks=False), ANN, 0, current=False
    )
    heard = []
    while not heard:
        heard += [item for item, _ in reader.take(1)]
        await turns()
    assert (GapCause.CONFLATED, 3) == (heard[0].why, heard[0].count)
    position, interests = room.kernel.suspend(reader)
    again = Subscription(room.reader)
    room.kernel.resume(again, position, interests, ANN)
    heard = []
    for _ in range(5):
        heard += [item.kind for item, _ in again.take(1)]
        await turns()
    assert [PUT] == heard
