"""Topic tables when something fails, or there are too many; how much they keep (F23-F32)."""

import pytest

from build import Server, refusal
from rowcast.core.callers import SERVER
from rowcast.core.errors import Code, Error
from rowcast.core.topic_tables import TopicRoot
from rowcast.features.retention.retention import Retention, RetentionSettings
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.store.store import Keep
from topic_watch import AT_ONCE, count, names, on_disk, watch


@pytest.fixture
async def room():
    return Server(topics=AT_ONCE)


# -- faults ----------------------------------------------------------------------------------------


class Refusing:
    """A store's fault: what is named fails."""

    def __init__(self, *what):
        self.what = set(what)
        self.asked = 0

    def __call__(self, what):
        if what in self.what:
            self.asked += 1
            raise Error(Code.BUSY, "the disk is full")


async def test_a_table_that_cannot_be_made_loses_nothing(room, caplog):
    """F23: logged, tried again on the next message, which is kept all the same."""
    room.store.fault = Refusing("define")
    watch(room, "home/a")
    assert "mqtt_home could not be made" in caplog.text
    await room.say("home/a", b"1")
    assert (2, []) == (room.store.fault.asked, on_disk(room))
    room.store.fault = None
    await room.say("home/a", b"2")
    assert ["mqtt_home"] == on_disk(room)
    assert [b"1", b"2"] == [e.payload for e in room.store.read(0, 9, [TopicRoot("home")])]
    assert 2 == room.topic_tables.failures


async def test_a_table_that_cannot_be_made_is_made_by_the_sweep(room):
    """F23: for those who only listen."""
    room.store.fault = Refusing("define")
    watch(room, "home/a")
    room.store.fault = None
    await room.topic_tables.clean()
    assert ["mqtt_home"] == on_disk(room)


async def test_a_table_that_cannot_be_dropped_stays_and_is_tried_again(room, caplog):
    """F23: its entry is kept, with no subscriber."""
    room.kernel.close(watch(room, "home/a"))
    room.store.fault = Refusing("drop")
    assert 0 == await room.topic_tables.clean()
    assert "mqtt_home could not be dropped" in caplog.text
    assert (["mqtt_home"], 0) == (names(room), count(room))
    room.store.fault = None
    assert 1 == await room.topic_tables.clean()
    assert ([], []) == (names(room), on_disk(room))


async def test_a_table_that_could_not_be_dropped_takes_messages(room):
    """F23: nothing is lost, whatever the failure left."""
    room.kernel.close(watch(room, "home/a"))
    room.store.fault = Refusing("drop")
    await room.topic_tables.clean()
    room.store.fault = None
    await room.say("home/a")
    assert 1 == room.store.figures(TopicRoot("home")).events


async def test_a_table_that_was_made_after_all_is_not_dropped_with_what_it_holds(room):
    """F23: who waited for it was told that it failed, and it was in the log."""
    define = room.store.define

    def late(*tables):
        define(*tables)
        raise Error(Code.BUSY, "the tables do not follow the log")

    room.store.define = late
    await room.put("home/a", b"{}")
    while room.topic_tables._cleaning is not None:  # of the grace period, which is over at once
        await room.topic_tables._cleaning
    assert 0 == await room.topic_tables.clean()
    assert ["mqtt_home"] == on_disk(room)
    assert 1 == room.store.figures(TopicRoot("home")).records


# -- the cap ---------------------------------------------------------------------------------------


async def test_a_message_beyond_the_cap_is_refused_in_words():
    """F32."""
    room = Server(topics=TopicSettings(grace_seconds=0, tables_max=2))
    await room.say("home/a")
    await room.say("lamp")
    with pytest.raises(Error, match=r"'barn/a' would need .* topics\.max_tables"):
        await room.say("barn/a")
    assert Code.TOO_LARGE == await refusal(room.put("barn/a"))
    await room.say("home/b")
    assert ["mqtt_home", "mqtt_messages"] == on_disk(room)


async def test_a_subscription_beyond_the_cap_works():
    """F32: it has no table, and gets one when there is room and something to keep."""
    room = Server(topics=TopicSettings(grace_seconds=0, tables_max=1))
    first = watch(room, "home/a")
    watch(room, "barn/a")
    assert (["mqtt_home"], 1) == (names(room), count(room, "barn"))
    room.kernel.close(first)
    await room.topic_tables.clean()
    await room.say("barn/a")
    assert (["mqtt_barn"], 1) == (names(room), count(room, "barn"))


async def test_what_the_server_says_of_itself_needs_no_table():
    room = Server(topics=TopicSettings(tables_max=1))
    await room.say("home/a")
    await room.put("$SYS/broker/version", b"1", caller=SERVER)
    assert ["mqtt_home"] == on_disk(room)


# -- how much is kept ------------------------------------------------------------------------------


async def test_each_table_keeps_what_is_set_for_it():
    """F26."""
    kept = TopicSettings(keep=Keep(events=5), keeps={"mqtt_barn": Keep(events=2)})
    room = Server(topics=kept)
    for number in range(10):
        await room.say("home/a", b"%d" % number)
        await room.say("barn/a", b"%d" % number)
    await Retention(room.kernel, (), RetentionSettings(Keep(), 60), room.now).sweep()
    assert [b"5", b"6", b"7", b"8", b"9"] == left(room, "home")
    assert [b"8", b"9"] == left(room, "barn")


def left(room, level):
    return [event.payload for event in room.store.read(0, 99, [TopicRoot(level)])]


async def test_others_hear_of_tables_before_they_are_written_to(room):
    """Whoever shows them has them in time, and no longer than they last."""
    heard = []
    room.topic_tables.on_begin.append(
        lambda table: heard.append(("begins", table.name, on_disk(room)))
    )
    room.topic_tables.on_end.append(lambda name: heard.append(("ends", name, on_disk(room))))
    room.kernel.close(watch(room, "home/a"))
    await room.topic_tables.clean()
    assert [("begins", "mqtt_home", []), ("ends", "mqtt_home", [])] == heard
