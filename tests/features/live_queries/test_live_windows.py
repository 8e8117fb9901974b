"""Live windows: how they are asked for, told, bounded and gone on with (M3)."""

import json
from unittest import mock

import pytest
from query_readers import Mqtt, OldMqtt, QueryServer, Sse, Ws, query_server
from related_dogs import most_in_a_turn

import mqtt_server as mqtt
from build import turns
from mqtt_server import Connect, Peer, Puback, Publish, Subscribe, user
from rightful import Rightful, person
from rowcast.core.callers import ALL, Caller, Grants
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.query_topics import named_filter
from rowcast.core.tables import Attribute, Table, Type
from rowcast.core.topics import TopicFilter
from rowcast.features.live_queries.feature import LiveQueriesOfTables
from rowcast.features.live_queries.live_queries import LiveQueries
from rowcast.features.live_queries.window import Window
from rowcast.features.live_queries.window_order import WindowOrder
from rowcast.features.live_queries.window_replay import replay
from rowcast.kernel.reauthorization import stay
from rowcast.reads.loop_turns import LOOP_TURN_ITEMS
from rowcast.subscriptions.live_query import step_of
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

SENSOR = Table(
    "Sensor",
    "Sensor",
    (
        Attribute("id", Type.ID, primary_key=True),
        Attribute("temp", Type.FLOAT),
        Attribute("site", Type.STRING),
    ),
)
TOP = "temp=gt=20&sort(-temp)&limit(2)"


def put(name, qos=1, **value):
    payload = json.dumps(value).encode()
    return Event(f"Sensor/{name}", PUT, payload, "application/json", qos, True)


def delete(name):
    return Event(f"Sensor/{name}", DELETE, b"", None, 1, True)


@pytest.fixture
async def hot():
    async with query_server(SENSOR) as opened:
        for name, temp in (("1", 90), ("2", 80), ("3", 70), ("4", 10)):
            await opened.write(put(name, temp=temp))
        yield opened


async def watch(kernel, text, caller, **options):
    """Return a reader of a filter, and a function that returns what it was handed."""
    reader = Subscription(kernel.reader, **options)
    kernel.watch(reader, SubscribedFilter(TopicFilter(named_filter(text))), caller)

    async def heard():
        found = []
        for _ in range(8):
            found += reader.take(1000)
            await turns(6)
        return [(step_of(event) or event.kind, event.topic[-1:]) for event, _ in found]

    return reader, heard


# -- asking and telling ----------------------------------------------------------------------------


@pytest.mark.parametrize("door", [Sse, Ws, Mqtt, OldMqtt])
async def test_m3_the_first_records_and_then_what_moves_up_and_out(hot, door):
    """M3: in order, and the end mark; a record that drops out leaves, the next one enters."""
    await hot.open(TOP, [door])
    (reader,) = hot.readers
    assert ["Sensor/1", "Sensor/2"] == list(reader.records)
    told = [
        (put("3", temp=85), "leave enter", {"1", "3"}),
        (put("1", temp=91), "change", {"1", "3"}),
        (put("4", temp=12), "", {"1", "3"}),
        (delete("1"), "leave enter", {"3", "2"}),
        (delete("2"), "leave", {"3"}),
    ]
    for event, steps, names in told:
        reader.heard.clear()
        await hot.write(event)
        await hot.settle()
        if door is not OldMqtt:
            assert steps.split() == reader.heard
        assert names == {topic[-1] for topic in reader.records}
        await hot.check()


async def test_m3_a_websocket_takes_sort_and_limit_as_members(hot):
    socket = Ws(hot)
    await socket.connect()
    words = {"where": "temp=gt=20", "sort": "-temp", "limit": 2}
    await socket.say(id=1, op="subscribe", topic="Sensor/+", **words)
    await socket.say(id=2, op="subscribe", topic="Sensor/+", sort="+temp", limit="1,2")
    await socket.say(id=3, op="subscribe", topic="Sensor/+", sort=["temp"], limit=[2])
    await socket.say(id=4, op="subscribe", topic="Sensor/+", limit=1, select="id,temp")
    await turns(40)
    heard = [json.loads(message["text"]) for message in socket.sent if "text" in message]
    told = [(it["subscription"], it["topic"]) for it in heard if it.get("kind") == "snapshot"]
    assert [(1, "Sensor/1"), (1, "Sensor/2"), (2, "Sensor/3"), (3, "Sensor/1")] == told
    shown = [it["value"] for it in heard if it.get("subscription") == 3 and "value" in it]
    assert [["id", "temp"]] == list(map(list, shown))
    assert "is not a limit" in next(it for it in heard if "error" in it)["error"]["detail"]
    await socket.cut()


async def test_m3_only_the_last_step_of_an_event_has_its_cursor(hot):
    """M3: a client that is cut off between the two goes on with both."""
    _, heard = await watch(hot.server.kernel, f"$query/Sensor/{TOP}", Caller("ann", ALL))
    assert [("snapshot", "1"), ("snapshot", "2"), ("current", "")] == await heard()
    before = hot.server.kernel.committer.announced
    await hot.open(TOP, [Sse])
    (reader,) = hot.readers
    steps = []
    take = reader.take
    reader.take = lambda *told: (steps.append((told[0], told[3])), take(*told))
    await hot.write(put("3", temp=99))
    await hot.settle()
    cursor = hot.server.kernel.cursor
    assert [("leave", cursor(before)), ("enter", cursor(before + 1))] == steps


# -- exactness -------------------------------------------------------------------------------------


async def test_m3_a_slow_reader_of_a_window_gets_the_same_steps(hot):
    """M3: its queue overflows; the log says what the window was."""
    kernel, ann = hot.server.kernel, Caller("ann", ALL)
    reader, heard = await watch(kernel, f"$query/Sensor/{TOP}", ann, queue_events_max=2)
    _, along = await watch(kernel, f"$query/Sensor/{TOP}", ann)
    await heard(), await along()
    for name, temp in (("3", 95), ("4", 99), ("1", 96), ("3", 1), ("4", 2), ("2", 3)):
        await hot.write(put(name, temp=temp))
    assert reader.fallbacks
    steps = await heard()
    assert steps == await along()
    assert ("enter", "4") in steps


async def test_m3_a_reader_that_takes_little_is_handed_no_more(hot):
    """M3: the steps of one event may be more than there is room for; the rest follows."""
    kernel = hot.server.kernel
    reader, heard = await watch(kernel, f"$query/Sensor/{TOP}", Caller("ann", ALL))
    await heard()
    for number in range(3):
        await hot.write(put("3", temp=99 - number))
        await hot.write(put("3", temp=1))
    steps = []
    while handed := reader.take(1):
        steps += [(str(step_of(event)), event.topic[-1]) for event, _ in handed]
    assert [("leave", "2"), ("enter", "3"), ("leave", "3"), ("enter", "2")] * 3 == steps
    assert reader.position == kernel.committer.announced


async def test_m3_a_window_reads_the_store_only_when_its_spare_records_are_used_up(hot):
    """M3: one record more leaves than are known behind it."""
    kernel, reads = hot.server.kernel, []
    for number in range(30):
        await hot.write(put(f"x{number}", temp=50 + number / 100))
    search = kernel.reader.search
    kernel.reader.search = lambda *asked: (reads.append(asked), search(*asked))[1]
    _, heard = await watch(kernel, f"$query/Sensor/{TOP}", Caller("ann", ALL))
    await heard()
    assert 1 == len(reads)
    for number in range(14, 30):
        await hot.write(delete(f"x{number}"))
    assert ([], 1) == (await heard(), len(reads))
    for name in ("1", "2", "3"):
        await hot.write(delete(name))
    assert ["leave", "enter"] * 3 == [step for step, _ in await heard()]
    assert 2 == len(reads)


async def test_m3_what_is_trimmed_begins_a_window_anew(hot):
    """M3, C11: nobody knows what it was; the reader is told to start over."""
    kernel = hot.server.kernel
    reader = Subscription(kernel.reader)
    interest = SubscribedFilter(TopicFilter(f"$query/Sensor/{TOP}"))
    position = kernel.committer.announced
    await hot.write(put("1", temp=91))
    kernel.reader.trimmed = lambda _sources: position + 1
    kernel.watch(reader, interest, Caller("ann", ALL), position)
    found = []
    for _ in range(8):
        found += reader.take(1000)
        await turns(6)
    assert ["reset", "snapshot", "snapshot", "current"] == [event.kind for event, _ in found]


async def test_m3_a_filter_that_is_subscribed_again_gets_its_records_again(hot):
    """M3, MQTT-3.8.4-3: what left before is told, and the records follow."""
    kernel, ann = hot.server.kernel, Caller("ann", ALL)
    reader, heard = await watch(kernel, f"$query/Sensor/{TOP}", ann)
    await heard()
    await hot.write(put("3", temp=99))
    kernel.watch(reader, SubscribedFilter(TopicFilter(f"$query/Sensor/{TOP}")), ann)
    steps = [("leave", "2"), ("enter", "3")]
    records = [("snapshot", "3"), ("snapshot", "1"), ("current", "")]
    assert steps + records == await heard()
    assert 1 == len(hot.server.live_queries)


async def test_m3_what_happens_while_the_records_are_read_is_in_them(hot):
    """M3: with the same cursor for all who wait."""
    kernel, ann = hot.server.kernel, Caller("ann", ALL)
    hot.server.readers.hold()
    both = [await watch(kernel, f"$query/Sensor/{TOP}", ann) for _ in range(2)]
    for reader, _ in both:
        reader.take(1)
    await turns(4)
    await hot.write(put("3", temp=99))
    hot.server.readers.release()
    for _, heard in both:
        assert [("snapshot", "3"), ("snapshot", "1"), ("current", "")] == await heard()
    await hot.write(put("2", temp=98))
    for _, heard in both:
        assert [("leave", "1"), ("enter", "2")] == await heard()


async def test_m3_a_window_of_too_many_bytes_is_refused(hot):
    """M3: it is in memory with its payloads."""
    with mock.patch.object(WindowOrder, "fits", False):
        _, heard = await watch(hot.server.kernel, "$query/Sensor/limit(2)", Caller("ann", ALL))
        with pytest.raises(Error, match="smaller limit"):
            await heard()


# -- rights ----------------------------------------------------------------------------------------


async def test_m3_changed_rights_begin_a_window_anew():
    """M3, M9: and then the window is that of the new rights."""
    server = Rightful()
    for number in "123":
        await server.write(f"Dog/{number}", {"owner": "ann", "name": "Rex"})
    vet = person("vi", "vet", grants=Grants(read=True))
    reader, heard = await watch(server.kernel, "$query/Dog/sort(-$id)&limit(2)", vet)
    assert [("snapshot", "3"), ("snapshot", "2"), ("current", "")] == await heard()
    await server.rule("no", filter="Dog/3", actions=["read"], effect="deny")
    stay(server.kernel, reader)
    assert ["reset", "snapshot", "snapshot", "current"] == [kind for kind, _ in await heard()]
    await server.write("Dog/4", {"owner": "ann", "name": "Rex"})
    assert [("leave", "1"), ("enter", "4")] == await heard()
    await server.write("Dog/3", {"owner": "ann", "name": "Max"})
    assert [] == await heard()


async def test_m3_one_does_not_sort_by_what_one_may_not_see():
    """M3, L13: the sentence is that of REST."""
    with pytest.raises(Error, match="that you may compare or sort by"):
        await watch(Rightful().kernel, "$query/Dog/sort(weight)&limit(2)", person("ann"))


# -- bounds ----------------------------------------------------------------------------------------


async def test_m3_windows_are_shared_counted_and_bounded(hot):
    """M3: by user as other live queries, and in records of the process."""
    kernel = hot.server.kernel
    kernel.views.queries = queries = LiveQueries(kernel, 3, window_records_max=40)
    ann, ben = Caller("ann", ALL), Caller("ben", ALL)
    readers = [(await watch(kernel, f"$query/Sensor/{TOP}", who))[0] for who in (ann, ann, ben)]
    assert (3, 1) == (len(queries), len(queries.windows))
    await watch(kernel, "$query/Sensor/limit(3)", ann)
    for who, text, why in ((ann, "limit(1)", "3 live queries"), (ben, "limit(4)", "40 records")):
        with pytest.raises(Error, match=why) as refused:
            await watch(kernel, f"$query/Sensor/{text}", who)
        assert Code.BUSY == refused.value.code
    assert (4, 2) == (len(queries), len(queries.windows))
    for reader in readers:
        kernel.close(reader)
    await watch(kernel, "$query/Sensor/limit(4)", ben)
    assert (2, 2) == (len(queries), len(queries.windows))


async def test_m3_a_write_beside_all_windows_touches_none(hot):
    """M3: they are found by the index of conditions."""
    kernel, ann = hot.server.kernel, Caller("ann", Grants(read=True))
    for number in range(50):
        await watch(kernel, f"$query/Sensor/site==s{number}&sort(-temp)&limit(2)", ann)
    (table,) = kernel.views.queries._tables.values()
    taken = []
    for window in table.windows.values():
        window.take = lambda event, name=window.query.name: (taken.append(name), ())[1]
    await hot.write(put("1", temp=1, site="elsewhere"))
    assert [] == taken
    await hot.write(put("1", temp=1, site="s7"))
    assert ["$query/Sensor/site==s7&sort(-temp)&limit(2)"] == taken


# -- sessions --------------------------------------------------------------------------------------


@pytest.mark.heavy
async def test_m3_p2_others_have_their_turn_while_a_window_is_read():
    """M3, P2: where most is withheld, a hundred thousand records are read for ten."""
    server = Rightful(features=[LiveQueriesOfTables()])
    for number in range(400):
        await server.write(f"Cat/{number}", {"name": "x"})
    await server.rule("all", filter="#", actions=["all"])
    await server.rule("no", filter="Cat/+", effect="deny", actions=["read"], users=["ann"])
    reader, _ = await watch(server.kernel, "$query/Cat/limit(10)", person("ann"))
    (window,) = server.kernel.views.queries.windows
    assert await most_in_a_turn(Window, "entry", window.known()) <= LOOP_TURN_ITEMS
    server.kernel.close(reader)


@pytest.mark.heavy
async def test_m3_p2_others_have_their_turn_while_a_window_is_put_back(hot):
    """M3, P2: ten thousand records may have been written since its reader left."""
    since = hot.server.committer.announced
    for number in range(400):
        await hot.write(put(number, temp=30))
    await watch(hot.server.kernel, f"$query/Sensor/{TOP}", Caller("a", ALL, "sse"))
    (window,) = hot.server.kernel.views.queries.windows
    await window.known()
    assert await most_in_a_turn(Window, "entry", replay(window, since)) <= LOOP_TURN_ITEMS


async def test_m3_messages_of_a_window_in_flight_at_a_kill_are_the_same_again():
    """M3: also of records that another one's event moved."""
    opened = QueryServer(SENSOR)
    for name, temp in (("1", 90), ("2", 80), ("3", 70)):
        await opened.write(put(name, 2 if name == "3" else 1, temp=temp))
    keep = {"session_expiry_interval": 3600}
    peer = Peer(opened.server, 5)
    peer.send(Connect(5, "c", clean_start=True, properties=keep))
    peer.send(Subscribe(7, (mqtt.Subscription(f"$query/Sensor/{TOP}", 2),)))
    await turns(30)
    for packet in peer.heard():
        if isinstance(packet, Publish):
            peer.send(Puback(packet.packet_id))
    await opened.write(Event("Sensor/1", DELETE, b"", None, 2, True))
    await opened.write(put("3", 2, temp=99))
    await turns(30)
    before = [(packet.topic, packet.payload, user(packet, "op")) for packet in peer.heard()]
    assert ["leave", "enter", "change"] == [op for _, _, op in before]
    opened.server.writer.hold()
    opened.server.readers.hold()
    again = QueryServer(SENSOR, store=opened.server.store)
    peer = Peer(again.server, 5)
    peer.send(Connect(5, "c", clean_start=False, properties=keep))
    await turns(40)
    _, *sent = peer.heard()
    assert before == [(packet.topic, packet.payload, user(packet, "op")) for packet in sent]
    peer.lose()
    await again.close()
