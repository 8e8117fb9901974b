"""Watching rows: live, from a cursor, and beside the topics that they are about (F3)."""

import random

import pytest

from build import ANN, BEN, Server, turns
from rowcast.core.callers import SERVER
from rowcast.core.events import CURRENT, DELETE, GAP, PUT, RESET, SNAPSHOT, Event
from rowcast.core.topic_tables import METRICS, message_id
from rowcast.core.topics import TopicFilter
from rowcast.features.hooks.hook import Hook
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.rows.topic_rows import Row
from rowcast.store.store import Keep
from rowcast.subscriptions.subscribed_filters import SubscribedFilter
from rowcast.subscriptions.subscription import Subscription

KEPT = TopicSettings()
MARKS = {CURRENT, RESET, GAP}


@pytest.fixture
async def room():
    return Server(topics=KEPT)


def watch(room, *filters, since=None, caller=ANN, current=True, client_id=""):
    """Subscribe; return the subscription."""
    found = Subscription(room.reader, client_id)
    for text in filters:
        interest = SubscribedFilter(TopicFilter(text))
        room.kernel.watch(found, interest, caller, since, current=current)
    return found


async def taken(live, limit=100, *, marks=False):
    """Take all that is due, without the marks."""
    pairs = []
    for _ in range(40):
        await turns(3)
        pairs += live.take(limit)
    return [pair for pair in pairs if marks or pair[0].kind not in MARKS]


def shown(pairs):
    """Return each event as it was said: rows by what they are about, with a prime."""
    return [f"{event.about}'" if isinstance(event, Row) else event.topic for event, _ in pairs]


async def test_a_message_is_a_row_at_once(room):
    """F3: whoever watches the table's rows is handed it as one."""
    await room.say("home/t", b"1")
    live = watch(room, "mqtt_home/#")
    await room.say("home/t", b"2", qos=1)
    await room.say("garden/t", b"3")
    await room.say("home", b"4")
    (pair,) = await taken(live)
    event = pair[0]
    assert event.topic == f"mqtt_home/{message_id(event.version, event.seq)}"
    assert (event.decoded["payload"], event.qos, event.kind) == (2, 1, PUT)


@pytest.mark.parametrize("text", ["mqtt_home/#", "mqtt_home/+"])
async def test_a_table_can_be_watched_before_it_is_there(room, text):
    """F3: the first message makes the table, and is its first row."""
    live = watch(room, text)
    await room.say("home/t", b"1")
    await room.say("home/t", b"2")
    assert [event.decoded["payload"] for event, _ in await taken(live)] == [1, 2]


async def test_a_table_that_comes_again_is_watched_again(room):
    """F14: the subscription outlives the table."""
    live = watch(room, "mqtt_home/#", "mqtt_home/x/#")
    await room.say("home/t", b"1")
    room.kernel.views.drop("mqtt_home")
    await room.say("home/t", b"2")
    room.kernel.views.define(room.topic_tables.named("mqtt_home").table)
    await room.say("home/t", b"3")
    payloads = [event.decoded["payload"] for event, _ in await taken(live)]
    assert payloads == [1, 3]
    room.kernel.close(live)
    assert not room.bus.subscriptions


async def test_one_row_is_current(room):
    """C12: a filter of one row begins with that row; of all rows, with the mark alone."""
    await room.say("home/t", b"1")
    event = room.store.read(0, 1)[0]
    text = f"mqtt_home/{message_id(event.version, event.seq)}"
    pairs = await taken(watch(room, text), marks=True)
    assert [pair[0].kind for pair in pairs] == [SNAPSHOT, CURRENT]
    assert (pairs[0][0].topic, pairs[0][0].decoded["payload"]) == (text, 1)
    every = await taken(watch(room, "mqtt_home/+"), marks=True)
    assert [pair[0].kind for pair in every] == [CURRENT]


async def test_a_cursor_is_continued_with_rows(room):
    """C10: the log is read as rows."""
    for n in range(5):
        await room.say("home/t", b"%d" % n)
    second = room.store.read(0, 9)[1].seq
    live = watch(room, "mqtt_home/#", since=room.kernel.cursor(second))
    await room.say("home/t", b"5")
    assert [event.decoded["payload"] for event, _ in await taken(live)] == [2, 3, 4, 5]


async def test_a_cursor_that_is_trimmed_is_told(room):
    """C11: as for any other table."""
    for n in range(4):
        await room.say("home/t", b"%d" % n)
    branch = room.topic_tables.named("mqtt_home").table.branch
    await room.committer.trim(branch, Keep(events=1), room.now(), 99)
    live = watch(room, "mqtt_home/#", since=room.kernel.cursor(1))
    assert [event.kind for event, _ in await taken(live, marks=True)] == [RESET, CURRENT]


async def test_an_event_that_is_due_twice_comes_twice(room):
    """X1: as a row and as itself; the position moves with the second."""
    live = watch(room, "home/#", "mqtt_home/+", "mqtt_home/#")
    await taken(live)
    await room.say("home/t", b"1")
    await turns()
    start = live.position
    row, *rest = live.take(1)
    assert (isinstance(row[0], Row), rest) == (True, [])
    assert row[0].leads
    assert {item.topics.text for item in row[1].merged} == {"mqtt_home/+", "mqtt_home/#"}
    assert (live.position, live.settled) == (start, start)
    itself, *rest = live.take(1)
    assert (itself[0].topic, rest) == ("home/t", [])
    assert live.position == itself[0].seq
    assert live.take(9) == []


async def test_a_reader_that_rests_between_the_two_has_each_once(room):
    """D27: a session that is suspended after the row goes on with the event itself."""
    live = watch(room, "home/#", "mqtt_home/+")
    await taken(live)
    await room.say("home/t", b"1")
    await turns()
    assert shown(live.take(1)) == ["home/t'"]
    position, interests = room.kernel.suspend(live)
    again = Subscription(room.reader)
    room.kernel.resume(again, position, interests, ANN)
    await room.say("home/u", b"2")
    assert shown(await taken(again)) == ["home/t", "home/u'", "home/u"]


@pytest.mark.parametrize("ended", ["home/#", "mqtt_home/+"])
async def test_ending_one_of_two_leaves_the_other(room, ended):
    """X5: what the one needs of the bus is not taken away with the other."""
    live = watch(room, "home/#", "mqtt_home/+")
    await taken(live)
    await room.say("home/t", b"1")
    await turns()
    assert room.kernel.unwatch(live, TopicFilter(ended))
    await room.say("home/u", b"2")
    prime = "'" if ended == "home/#" else ""
    assert shown(await taken(live)) == [f"home/t{prime}", f"home/u{prime}"]
    room.kernel.close(live)
    assert not room.bus.subscriptions


async def test_every_filter_that_ends_is_told(room):
    """G18: also one of which rows had a part."""
    ended = []
    room.kernel.hooks.unsubscribed = lambda _caller, text: ended.append(text)
    for filters in (("mqtt_home/#", "home/#"), ("home/#", "mqtt_home/#")):
        await room.say("home/t", b"1")
        room.kernel.close(watch(room, *filters))
        assert ended == list(filters)
        ended.clear()


async def test_what_is_for_nobody_is_passed_over(room):
    """M1: the branch's filter matches more than the branch; that holds nothing up."""
    live = watch(room, "mqtt_home/#")
    await room.say("home/t", b"1")
    await taken(live)
    for _ in range(5):
        await room.say("home", b"2")
    await room.say("home/t", b"3")
    await turns()
    assert shown(live.take(1)) == ["home/t'"]


async def test_a_filter_with_a_wildcard_first_selects_no_rows(room):
    """X1: nobody who wants everything is sent everything twice."""
    live = watch(room, "#", "+/#")
    await room.say("home/t", b"1")
    assert shown(await taken(live)) == ["home/t"]


async def test_no_local_is_of_rows_too(room):
    """MQTT-3.8.3-3."""
    live = Subscription(room.reader, "c")
    room.kernel.watch(live, SubscribedFilter(TopicFilter("mqtt_home/#"), no_local=True), ANN)
    await room.say("home/t", b"1", client="c")
    await room.say("home/t", b"2", client="d")
    assert [event.decoded["payload"] for event, _ in await taken(live)] == [2]


async def test_a_declared_table_below_the_level_is_no_row(room):
    """X1: a declared table's events are its own."""
    live = watch(room, "mqtt_Dog/#", "mqtt_dog/#")
    await room.put("Dog/1", b'{"name":"x"}')
    assert await taken(live) == []


async def test_no_table_hides_topics_that_are_in_use(room):
    """X3: a client may have topics whose first level is the name that a table would get."""
    await room.put("mqtt_home/x", b"1")
    await room.say("home/t", b"2")
    assert room.registry.route("mqtt_home/x").entry is None
    await room.put("mqtt_home/x", b"3")
    names = sorted(entry.table.name for entry in room.topic_tables)
    assert names[1] == "mqtt_mqtt_home"
    assert names[0].startswith("mqtt_home_")


# -- what may be read ------------------------------------------------------------------------------


class Blinds(Hook):
    """Ann is not shown what is secret."""

    def can_read(self, caller, topic):
        return caller.user != "ann" or "secret" not in topic


async def test_a_hidden_topic_is_no_row(room):
    """L12: live as well as current."""
    hooks = Hooks()
    hooks.add(Blinds())
    room = Server(topics=KEPT, hooks=hooks)
    ann, ben = watch(room, "mqtt_home/#"), watch(room, "mqtt_home/#", caller=BEN)
    await room.say("home/secret", b"1")
    await room.say("home/t", b"2")
    assert shown(await taken(ann)) == ["home/t'"]
    assert shown(await taken(ben)) == ["home/secret'", "home/t'"]
    secret = room.store.read(0, 1)[0]
    one = watch(room, f"mqtt_home/{message_id(secret.version, secret.seq)}")
    assert await taken(one) == []


# -- what the server tells of itself ---------------------------------------------------------------


async def measure(room, name, text, kind=PUT):
    event = Event(f"$SYS/broker/{name}", kind, text, None, 0, retain=True)
    await room.kernel.write(event, SERVER)


async def test_metrics_are_current_and_live(room):
    """F1, F22: the rows as they are, then each change."""
    await measure(room, "uptime", b"1")
    await measure(room, "version", b"x")
    live = watch(room, f"{METRICS}/#")
    one = watch(room, f"{METRICS}/$SYS/broker/uptime")
    some = watch(room, f"{METRICS}/$SYS/broker/+")
    for found in (live, one, some):
        events = [event for event, _ in await taken(found)]
        assert {event.kind for event in events} == {SNAPSHOT}
        assert len(events) == (1 if found is one else 2)
    await measure(room, "uptime", b"2")
    await measure(room, "clients/total", b"3")
    await measure(room, "version", b"", DELETE)
    values = [
        (event.kind, event.topic, event.decoded["value"] if event.kind == PUT else None)
        for event, _ in await taken(live)
    ]
    assert values == [
        (PUT, f"{METRICS}/$SYS/broker/uptime", 2),
        (PUT, f"{METRICS}/$SYS/broker/clients/total", 3),
        (DELETE, f"{METRICS}/$SYS/broker/version", None),
    ]
    assert shown(await taken(one)) == ["$SYS/broker/uptime'"]
    assert shown(await taken(some)) == ["$SYS/broker/uptime'", "$SYS/broker/version'"]


# -- the property ----------------------------------------------------------------------------------

FILTERS = (
    ("mqtt_home/#",),
    ("mqtt_home/+", "home/#"),
    ("mqtt_home/#", "#"),
    ("mqtt_home/+", "mqtt_garden/#", "garden/+", "Dog/#"),
    (f"{METRICS}/#", "mqtt_home/#", "mqtt_messages/+"),
)


def due(room, filters, after):
    """Return what a reader of these filters is to be handed of the log after a position."""
    wanted = []
    for event in room.store.read(after, 9_999):
        level = event.topic.partition("/")[0] if "/" in event.topic else "messages"
        name = METRICS if level == "$SYS" else f"mqtt_{level}"
        if event.table is None and any(text.startswith(name + "/") for text in filters):
            wanted.append(f"{event.seq}'")
        if any(TopicFilter(text).matches(event.topic) for text in filters):
            wanted.append(str(event.seq))
    return wanted


@pytest.mark.parametrize("seed", range(40))
async def test_rows_live_and_after_any_cut_are_the_log(seed):
    """M1, C10: whatever is cut, queued, read back or resumed: every row once, in order."""
    dice = random.Random(seed)
    reading = {
        "queue_events": dice.choice((2, 5, 100)),
        "log_page_events": dice.choice((2, 3, 50)),
    }
    room = Server(topics=KEPT, reading=reading)
    filters = FILTERS[seed % len(FILTERS)]
    live, got = watch(room, *filters, current=False), []
    start = room.committer.announced
    for n in range(120):
        act = dice.random()
        if act < 0.55:
            topic = dice.choice(("home/a", "home/b/c", "home", "garden/a", "Dog/1", "$SYS/x"))
            caller = SERVER if topic[0] == "$" else ANN
            payload = b'{"name":"%d"}' % n
            kept = topic[0] in "$D" or dice.random() < 0.3
            await (room.put if kept else room.say)(topic, payload, caller)
        elif act < 0.9:
            await turns(dice.randrange(3))
            got += live.take(dice.randrange(1, 6))
        elif act < 0.97:  # the reader goes and comes: at once, or with the cursor it was told
            position, interests = room.kernel.suspend(live)
            live = Subscription(room.reader)
            room.kernel.resume(live, position, interests, ANN)
        else:
            told = [event.seq for event, _ in got if event.seq and not _leads(event)]
            after = max(told, default=start)
            room.kernel.close(live)
            got = [pair for pair in got if pair[0].seq <= after]  # the row before is given again
            live = watch(room, *filters, since=room.kernel.cursor(after))
    got += await taken(live, dice.randrange(4, 9))
    seen = [
        f"{event.seq}{chr(39) if isinstance(event, Row) else ''}"
        for event, _ in got
        if event.kind not in MARKS
    ]
    assert seen == due(room, filters, start)
    room.kernel.close(live)
    assert not room.bus.subscriptions


def _leads(event):
    return isinstance(event, Row) and event.leads
