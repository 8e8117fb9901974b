"""Topic tables: made on first use, counted exactly, dropped when they are over (F6-F32)."""

import asyncio

import pytest

from build import ANN, NOW, TABLES, Listener, Server, turns
from rowcast.core.query_text import parse_query
from rowcast.core.tables import Table
from rowcast.core.topic_tables import TopicRoot, TopicTable
from rowcast.core.topics import TopicFilter
from rowcast.features.retention.retention import Retention, RetentionSettings
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.store.store import Keep
from topic_watch import AT_ONCE, count, names, on_disk, watch

HOME = TopicTable("mqtt_home", TopicRoot("home"))


@pytest.fixture
async def room():
    return Server(topics=AT_ONCE)


async def rows(room, query=""):
    resource = room.kernel.resource("$SYS/topic_tables", ANN)
    return await resource.get(parse_query(query, Table("rows", None)) if query else None)


# -- making ----------------------------------------------------------------------------------------


async def test_a_subscription_makes_the_table_of_its_branch(room):
    """F8, F11, F19."""
    watch(room, "home/temperature")
    assert [HOME] == room.store.topic_tables()
    assert ("mqtt_home", 1, False) == (
        room.topic_tables.named("mqtt_home").table.name, count(room), await retained(room)
    )  # fmt: skip


async def retained(room, name="mqtt_home"):
    (row,) = [row for row in await rows(room) if row["name"] == name]
    assert row["has_retained"] == (row["retained"] > 0)
    return row["has_retained"]


async def test_a_message_makes_the_table_and_is_in_it(room):
    """F12, F20."""
    receipt = await room.say("home/temperature", b'{"temp": 22.5}')
    assert receipt.event.seq
    assert ["mqtt_home"] == on_disk(room)
    assert 1 == room.store.figures(TopicRoot("home")).events
    assert [b'{"temp": 22.5}'] == [e.payload for e in room.store.read(0, 9, [TopicRoot("home")])]


async def test_topics_of_one_level_share_a_table(room):
    """F4."""
    await room.say("lamp")
    watch(room, "door")
    assert ["mqtt_messages"] == on_disk(room)


@pytest.mark.parametrize(
    "text", ["home/#", "home/+", "+/temperature", "#", "$SYS/broker/uptime", "$SYS/#", "Dog/1"]
)
async def test_what_makes_no_table(room, text):
    """F8, F29: wildcards, the server's own topics, and what is declared."""
    watch(room, text)
    assert [] == names(room)
    assert 0 == count(room)


async def test_a_hundred_first_subscribers_make_one_table(room):
    """F11."""
    made = []
    room.store.fault = lambda what: made.append(what) if what == "define" else None
    room.writer.held = True
    subscriptions = [watch(room, f"home/{number}") for number in range(100)]
    room.writer.release()
    assert (["define"], 100) == (made, count(room))
    for subscription in subscriptions:
        room.kernel.close(subscription)
    assert 0 == count(room)


async def test_a_subscriber_and_a_writer_at_once_make_one_table(room):
    """F11, F12."""
    made = []
    room.store.fault = lambda what: made.append(what) if what == "define" else None
    room.writer.held = True
    said = asyncio.ensure_future(room.say("home/a"))
    watch(room, "home/b")
    await turns()
    room.writer.release()
    await said
    assert ["define"] == made


async def test_names_that_would_be_the_same_are_told_apart(room):
    """X3: also from a declared table's."""
    other = Server(tables=TABLES, topics=AT_ONCE)
    for topic in ("Home/a", "home/a", "a-b/x", "a_b/x", "messages/x", "sys_metrics/x", "/x"):
        await other.say(topic)
    found = names(other)
    assert 7 == len(set(found))
    assert {"mqtt_home", "mqtt_a_b", "mqtt_"} < set(found)
    assert not {"mqtt_messages", "mqtt_sys_metrics"} & set(found)


async def test_a_deletion_makes_no_table(room):
    """There is nothing that it could be the history of."""
    await room.delete("home/temperature")
    assert [] == names(room)


# -- every message is kept -------------------------------------------------------------------------


async def test_what_one_commit_needs_is_made_together(room, monkeypatch):
    """F11: one transaction, not one for each first level."""
    made, define = [], room.store.define
    monkeypatch.setattr(room.store, "define", lambda *some: made.append(len(some)) or define(*some))
    room.writer.held = True
    said = [asyncio.ensure_future(room.say(f"b{n}/a")) for n in range(9)]
    await turns()
    room.writer.release()
    await asyncio.gather(*said)
    assert (9, 9) == (max(made), len(on_disk(room)))


async def test_a_message_is_stored_before_it_is_announced(room):
    """X1, X9: of QoS 0 too."""
    listener = Listener(room)
    room.writer.held = True
    said = asyncio.ensure_future(room.say("home/temperature", qos=0))
    await turns()
    assert [] == listener.events
    room.writer.release()
    await said
    await turns()
    assert ["home/temperature"] == listener.topics
    assert listener.events[0].seq == room.store.head()


async def test_a_plain_broker_keeps_no_message():
    """X1: `route`."""
    plain = Server()
    receipt = await plain.say("home/temperature")
    assert (0, []) == (receipt.event.seq, plain.store.read(0, 9))


# -- counting --------------------------------------------------------------------------------------


async def test_a_client_counts_once_for_each_filter(room):
    """X5: not twice for the same one, and never below zero."""
    subscription = watch(room, "home/a", "home/a", "home/b", "home/#")
    assert 2 == count(room)
    for text in ("home/a", "home/a", "home/never", "home/#"):
        room.kernel.unwatch(subscription, TopicFilter(text))
    assert 1 == count(room)
    room.kernel.close(subscription)
    room.kernel.close(subscription)
    assert 0 == count(room)


async def test_who_is_away_still_counts(room):
    """X5: a session that outlives its connection."""
    session = object()
    subscription = watch(room, "home/a", owner=session)
    room.kernel.suspend(subscription)
    assert 1 == count(room)
    room.topic_tables.gone(session)
    assert 0 == count(room)


async def test_a_shared_filter_counts_under_its_whole_name(room):
    """X3: `$share/g/` is no first level."""
    tables, topics = room.topic_tables, TopicFilter("home/a")
    tables.subscribed("ann", topics, "$share/g/home/a")
    tables.subscribed("ann", topics, "$share/h/home/a")
    tables.unsubscribed("ann", "$share/g/home/a")
    assert (["mqtt_home"], 1) == (names(room), count(room))


async def test_the_row_of_a_table_is_not_a_topic(room):
    await room.say("home/a")
    watch(room, "mqtt_home/1700000000000-000000001")
    assert ["mqtt_home"] == names(room)


# -- retained values -------------------------------------------------------------------------------


async def test_has_retained_is_right_both_ways(room):
    """F13, X4."""
    assert not await told_retained(room)
    await room.put("home/a")
    await room.put("home/a")
    await room.put("home/b")
    assert 2 == room.store.figures(TopicRoot("home")).records
    await room.delete("home/a")
    assert await told_retained(room)
    await room.delete("home/b")
    assert not await told_retained(room)


async def told_retained(room):
    await room.say("home/x")
    return await retained(room)


async def test_rows_can_be_asked_for(room):
    """F6, X4: by REST, with conditions."""
    await room.put("home/a", b"12345")
    watch(room, "lamp")
    (home,) = await rows(room, "has_retained==true")
    created = home.pop("created")
    assert created.startswith("2023-11-14T22:13:20")
    assert {
        "name": "mqtt_home",
        "level": "home",
        "subscription_count": 0,
        "has_retained": True,
        "retained": 1,
        "events": 1,
        "bytes": 5,
        "stored": True,
    } == home
    assert {"mqtt_home", "mqtt_messages"} == {row["name"] for row in await rows(room)}


# -- a restart -------------------------------------------------------------------------------------


async def test_a_restart_knows_the_tables_again(room):
    """F6: with what is in them, and since when they are there."""
    await room.put("home/a")
    await room.stop()
    room.time = NOW + 1000
    again = Server(store=room.store, topics=AT_ONCE)
    again.time = NOW + 1000
    (row,) = await rows(again)
    assert ("mqtt_home", True, 1, True) == (
        row["name"], row["has_retained"], row["events"], row["stored"]
    )  # fmt: skip
    assert row["created"].startswith("2023-11-14T22:13:20")


# -- the end of a table ----------------------------------------------------------------------------


async def test_a_table_is_dropped_when_it_is_over(room):
    """F14, F21."""
    subscription = watch(room, "home/temperature")
    assert 0 == await room.topic_tables.clean()
    room.kernel.unwatch(subscription, TopicFilter("home/temperature"))
    assert 1 == await room.topic_tables.clean()
    assert ([], []) == (names(room), on_disk(room))
    await room.committer.durable()
    assert [] == room.store.states("topic table/")


async def test_one_of_several_subscribers_keeps_it(room):
    first, second = watch(room, "home/a"), watch(room, "home/a")
    room.kernel.close(first)
    assert 0 == await room.topic_tables.clean()
    room.kernel.close(second)
    assert 1 == await room.topic_tables.clean()


async def test_a_retained_value_keeps_it():
    """F14."""
    room = Server(topics=TopicSettings(grace_seconds=0, keep=Keep(seconds=1)))
    await room.put("home/a")
    await forget_history(room)
    assert 0 == await room.topic_tables.clean()
    await room.delete("home/a")
    await forget_history(room)
    assert [] == on_disk(room)


async def forget_history(room):
    room.time += 100
    settings = RetentionSettings(Keep(seconds=1), 60)
    await Retention(room.kernel, (), settings, room.now).sweep()


async def test_history_keeps_it_until_that_is_over():
    """X6: also one that nobody ever subscribed to; the sweep ends it."""
    room = Server(topics=TopicSettings(grace_seconds=0, keep=Keep(seconds=50)))
    await room.say("home/a")
    assert 0 == await room.topic_tables.clean()
    await forget_history(room)
    assert ([], []) == (names(room), on_disk(room))


async def test_a_grace_period_that_a_subscriber_ends():
    """F25."""
    room = Server(topics=TopicSettings(grace_seconds=60))
    room.kernel.close(watch(room, "home/a"))
    assert 0 == await room.topic_tables.clean()
    entry = room.topic_tables.named("mqtt_home")
    entry.left_at -= 59
    assert 0 == await room.topic_tables.clean()
    again = watch(room, "home/b")
    entry.left_at -= 1
    assert 0 == await room.topic_tables.clean()
    room.kernel.close(again)
    assert 0 == await room.topic_tables.clean(), "the period begins anew"
    entry.left_at -= 60
    assert 1 == await room.topic_tables.clean()
    await room.stop()


async def test_it_ends_by_itself(room):
    """F25: without a sweep, when the period is over."""
    room.kernel.close(watch(room, "home/a"))
    while names(room):  # noqa: ASYNC110 - the timer is the loop's
        await asyncio.sleep(0)
    assert [] == on_disk(room)


async def test_a_message_on_its_way_is_not_lost_with_its_table(room):
    """F14: written before the decision, or while the table is dropped."""
    for moment in ("before", "while it waits", "while it is dropped"):
        room.kernel.close(watch(room, f"{moment}/a"))
        entry = room.topic_tables.named(f"mqtt_{moment.replace(' ', '_')}")
        room.writer.held = True
        saying = None
        if moment == "before":
            saying = asyncio.ensure_future(room.say(f"{moment}/a", moment.encode()))
            await turns()
        cleaning = asyncio.ensure_future(room.topic_tables.clean())
        await turns()
        if moment == "while it is dropped":
            while not entry.leaving or len(room.writer.waiting) > 1:
                room.writer.step()
            room.writer.step()  # what was written before is stored
            await turns()
        if saying is None:
            saying = asyncio.ensure_future(room.say(f"{moment}/a", moment.encode()))
            await turns()
        room.writer.release()
        await saying
        await cleaning
        await turns()
        found = [event.payload for event in room.store.read(0, 9, [TopicRoot(moment)])]
        assert moment.encode() in found
        assert entry.defined, moment
        assert 1 == room.store.figures(TopicRoot(moment)).events, moment


async def test_rapid_subscribing_and_unsubscribing_ends_with_none(room):
    """F30: an edge case."""
    for _ in range(100):
        subscription = watch(room, "home/a")
        room.kernel.unwatch(subscription, TopicFilter("home/a"))
        await turns(1)
    while names(room):
        await room.topic_tables.clean()
        await turns()  # the timer may be at it
    assert (0, []) == (count(room), on_disk(room))
