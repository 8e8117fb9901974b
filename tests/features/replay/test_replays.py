"""Replays on every door: equal to what was live, exactly spaced, never of the present (V6, M6)."""

import asyncio
import random

import pytest
from replay_readers import DOORS, Mqtt, OldMqtt, Sse, Ws, replay_server

from mqtt_server import Connect, Peer, Subscribe, Subscription
from rowcast.core.events import PUT
from rowcast.features.replay.settings import ReplaySection
from rowcast.store.store import Keep

FILTERS = ("#", "Sensor/+", "Sensor/a", "home/#", "+/+")
SEEDS = 4


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_m6_a_replay_has_what_a_live_client_recorded(door, seed):
    """M6, V6: random streams, filters and starting points; records first, then the same events."""
    chance = random.Random(seed)
    async with replay_server() as it:
        await it.wander(chance, chance.randrange(1, 30))
        for _ in range(3):
            topics, start = chance.choice(FILTERS), it.cursor(it.head)
            live = await it.open(door)
            await live.live(topics)
            await it.settle()
            await it.wander(chance, chance.randrange(40))
            await it.settle()
            end = it.head
            replayed = await it.open(door)
            await replayed.replay(topics, start, speed=chance.choice(("0", "1000")))
            for _ in range(40):
                await it.settle()
                it.loop.advance(1.0)
            await it.until_end(replayed)
            assert live.events == replayed.events
            assert live.records == replayed.records
            assert live.kinds == replayed.kinds[:-1]
            assert ({False}, {True}) == (live.marked, replayed.marked)
            assert end == it.head, "a replay writes nothing"


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_m6_the_records_of_a_random_moment_are_those_of_asof(seed):
    """M6: at times and at cursors, by each door."""
    chance = random.Random(seed)
    async with replay_server() as it:
        begun = it.server.time
        await it.wander(chance, 60)
        for _ in range(8):
            milliseconds = round((begun + chance.random() * (it.server.time - begun)) * 1000)
            moment = chance.choice((str(milliseconds), it.cursor(chance.randint(1, it.head))))
            wanted = await it.asof("/Sensor/", moment)
            for door in DOORS:
                reader = await it.open(door)
                await reader.replay("Sensor/+", moment, speed="0")
                await it.until_end(reader)
                assert wanted == reader.records, (door, moment)
            reader = await it.open(Mqtt)
            await reader.subscribe(f"$asof/{moment}/Sensor/+")
            reader.prefix = f"$asof/{moment}/"
            await it.until_end(reader)
            assert wanted == reader.records
            assert reader.kinds == [*["snapshot"] * len(wanted), "current", "end"]
            await it.shut()


async def spaced(it, gaps):
    """Write one record several times, at these distances in seconds; return the start."""
    await it.write("Sensor/a", {"temp": -1})
    start = it.cursor(it.head)
    for number, gap in enumerate(gaps):
        it.server.time += gap
        await it.write("Sensor/a", {"temp": number})
    return start


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("speed", [0.1, 1, 10, 1000])
async def test_m6_events_are_spaced_as_they_were_at_a_speed(door, speed):
    """M6: by a clock that the test moves; the first event of a cursor comes at once."""
    gaps = [7.0, 0.5, 2.0, 0.25, 60.0]
    async with replay_server() as it:
        start = await spaced(it, gaps)
        reader = await it.open(door)
        await reader.replay("Sensor/+", start, speed=str(speed))
        await it.settle()
        due = it.loop.now
        for number, gap in enumerate(gaps[1:], 1):
            due += gap / speed
            it.loop.advance(due - 0.001 * gap / speed - it.loop.now)
            await it.settle()
            assert number == len(reader.events), "too early"
            it.loop.advance(due + 0.001 * gap / speed - it.loop.now)
            await it.settle()
            assert number + 1 == len(reader.events), "too late"
        assert ([len(gaps)], "end") == ([len(reader.events)], reader.kinds[-1])


async def test_m6_from_a_time_the_first_event_waits_for_its_time():
    """M6."""
    async with replay_server() as it:
        start = round(it.server.time * 1000)
        await it.write("Sensor/b", {"temp": 1})
        it.server.time += 10
        await it.write("Sensor/a", {"temp": 2})
        reader = await it.open(Sse)
        await reader.replay("Sensor/+", start, speed="2")
        await it.settle()
        assert ["snapshot", "current"] == reader.kinds
        it.loop.advance(4.9)
        await it.settle()
        assert [] == reader.events
        it.loop.advance(0.1)
        await it.settle()
        assert (1, "end", True) == (len(reader.events), reader.kinds[-1], reader.closed)
        assert b"true" == reader.headers[b"rowcast-replay"]


# -- to, and coming back ---------------------------------------------------------------------------


@pytest.mark.parametrize("door", DOORS)
async def test_m6_to_bounds_a_replay_and_nothing_new_is_in_it(door):
    """M6: what is written meanwhile is not of it."""
    async with replay_server() as it:
        seqs = [(await it.write("Sensor/a", {"temp": number})).seq for number in range(6)]
        reader = await it.open(door)
        await reader.replay("Sensor/a", it.cursor(seqs[1]), to=it.cursor(seqs[3]), speed="0")
        whole = await it.open(door)
        await whole.replay("Sensor/a", it.cursor(seqs[1]), speed="0.1")
        await it.until_end(reader)
        await it.write("Sensor/a", {"temp": 99})
        for _ in range(10):
            it.loop.advance(1000)
            await it.settle()
        assert [2, 3] == [told[2]["temp"] for told in reader.events]
        assert [2, 3, 4, 5] == [told[2]["temp"] for told in whole.events]


async def test_m6_an_event_source_goes_on_in_the_past_where_it_was_cut():
    """M6: Last-Event-ID is a position of the past; when nothing is left, it need not come again."""
    async with replay_server() as it:
        start, query = await spaced(it, [0.001] * 9), "topic=Sensor/%2B&speed=0&from="
        whole = await it.open(Sse)
        await whole.ask("/", query + start)
        await it.until_end(whole)
        for number, (*_, cursor) in enumerate(whole.events):
            rest = await it.open(Sse)
            await rest.ask("/", query + start, cursor)
            await it.settle()
            assert whole.events[number + 1 :] == rest.events
            assert "snapshot" not in rest.kinds
        assert (204, b"") == (rest.status, rest.body)


# -- pause, seek, speed ----------------------------------------------------------------------------


async def test_m6_a_websocket_pauses_seeks_and_changes_the_speed():
    """M6: by the number of the replay; what waited for the reader before a seek is not sent."""
    async with replay_server() as it:
        start = await spaced(it, [10.0] * 6)
        reader = await it.open(Ws)
        await reader.replay("Sensor/+", start)
        await it.settle()
        await reader.say(id=2, op="pause", replay=1)
        await it.settle()
        it.loop.advance(1000)
        await it.settle()
        assert 1 == len(reader.events)
        await reader.say(id=3, op="resume", replay=1)
        await reader.say(id=4, op="speed", replay=1, speed=2)
        await it.settle()
        it.loop.advance(4.9)
        await it.settle()
        assert 1 == len(reader.events)
        it.loop.advance(0.2)
        await it.settle()
        assert [0, 1] == [told[2]["temp"] for told in reader.events]
        reader.told.clear()
        await reader.say(id=5, op="seek", replay=1, at=it.cursor(int(start.split(":")[1]) + 4))
        await reader.say(id=6, op="speed", replay=1, speed=0)
        await it.until_end(reader)
        assert ["snapshot", "current", "put", "put", "end"] == reader.kinds
        assert [3, 4, 5] == [told[2]["temp"] for told in reader.told if told[2] and told[1]]
        await reader.say(id=7, op="stop", replay=1)
        await reader.say(id=8, op="stop", replay=1)
        await reader.say(id=9, op="pause", replay=1)
        await it.settle()
        acks = [answer.get("ack") for answer in reader.replies]
        assert [1, 2, 3, 4, 5, 6, 7, None, None] == acks
        assert {404} == {answer["error"]["status"] for answer in reader.replies[-2:]}
        assert 0 == len(it.server.replays)


async def test_m6_a_live_filter_and_replays_share_one_websocket():
    """M6: live events are not of the replay, and those of the past are not of the live filter."""
    async with replay_server() as it:
        start = await spaced(it, [0.001] * 3)
        reader = await it.open(Ws)
        await reader.live("Sensor/+")
        await reader.say(id=2, op="replay", topic="Sensor/+", speed=0, **{"from": start})
        await reader.say(id=3, op="replay", topic="#", speed=0, **{"from": start})
        await it.settle()
        await it.write("Sensor/a", {"temp": 50})
        await it.settle()
        values = [told[2]["temp"] for told in reader.events]
        assert sorted([0, 1, 2] * 2 + [50]) == sorted(values)


async def test_m6_an_old_client_of_mqtt_has_a_replay_below_its_prefix():
    """M6: MQTT 3.1.1 knows it by the topic; QoS 0 is granted, whatever is asked."""
    async with replay_server() as it:
        start = await spaced(it, [0.001] * 3)
        reader = await it.open(OldMqtt)
        await reader.replay("Sensor/+", start, speed="0")
        await it.until_end(reader)
        assert (0,) == reader.answer.reasons
        assert ["snapshot", "current", "put", "put", "put", "end"] == reader.kinds


async def test_m6_a_replay_is_not_kept_with_a_session():
    """M6: it ends with its connection, also for a client whose session stays."""
    async with replay_server() as it:
        start = await spaced(it, [10.0] * 3)
        keep = {"session_expiry_interval": 3600}
        peer = Peer(it.server, 5)
        peer.send(Connect(5, "kept", clean_start=True, properties=keep))
        peer.send(Subscribe(1, (Subscription(f"$replay/{start}/Sensor/+", 1),)))
        await it.settle()
        assert 1 == len(it.server.replays)
        peer.lose()
        await it.settle()
        assert 0 == len(it.server.replays)
        peer = Peer(it.server, 5)
        peer.send(Connect(5, "kept", clean_start=False, properties=keep))
        await it.settle()
        it.loop.advance(100)
        await it.settle()
        assert 0 == len(it.server.replays)
        assert 1 == len(peer.heard())


# -- bounds and refusals ---------------------------------------------------------------------------


async def test_m6_a_slow_reader_holds_no_more_than_the_bound():
    """M6: the rest stays in the log until it reads on."""
    async with replay_server() as it:
        start = await spaced(it, [0.001] * 700)
        reader = await it.open(Ws)
        await reader.connect()
        await it.settle()
        held = []

        async def wait(message):
            held.append(message)
            await it.gate.wait()

        it.gate = asyncio.Event()
        reader._send = wait
        await reader.connect()
        it.gate.set()
        await it.settle()
        it.gate.clear()
        await reader.say(id=1, op="replay", topic="Sensor/+", speed=0, **{"from": start})
        await it.settle()
        (running,) = it.server.replays._running.values()
        assert 256 >= running.feed._events > 0
        it.gate.set()
        for _ in range(30):
            await it.settle()
        assert 700 == sum('"kind":"put"' in message.get("text", "") for message in held)


def words(reader):
    """Return the sentence with which a reader was refused."""
    if isinstance(reader, Sse):
        return reader.problem["detail"]
    if isinstance(reader, Ws):
        return reader.replies[-1]["error"]["detail"]
    text = dict(reader.answer.properties)["reason_string"]
    return text.partition("': ")[2]


@pytest.mark.parametrize(
    ("start", "extra", "said"),
    [
        ("nonsense", {}, "from is a time such as"),
        ("2090-01-01T00:00:00Z", {}, "is to come"),
        ("deadbeef:1", {}, "is of another log"),
        ("0badcafe:999", {}, "is beyond the end of the log"),
        ("0badcafe:3", {"to": "0badcafe:2"}, "a replay begins before it ends"),
        ("0badcafe:3", {"to": "soon"}, "to is a time such as"),
        ("0badcafe:3", {"speed": "5000"}, "speed is a number from 0.1 to 1000"),
        ("0badcafe:3", {"speed": "fast"}, "speed is a number from 0.1 to 1000"),
    ],
)
async def test_m6_each_mistake_is_refused_with_the_same_words_on_every_door(start, extra, said):
    """M6, P5."""
    async with replay_server() as it:
        await spaced(it, [1.0] * 5)
        heard = []
        for door in DOORS:
            reader = await it.open(door)
            await reader.replay("Sensor/+", start, **({"speed": "1"} | extra))
            await it.settle()
            heard.append(words(reader).partition("; and there is no shared")[0])
        assert said in heard[0]
        assert 1 == len(set(heard)), heard
        assert 0 == len(it.server.replays)


async def test_m6_the_number_of_replays_is_bounded_with_the_same_words():
    """M6: of one user, and of all."""
    for settings, said in (({"max_per_user": 2}, "may have no more"), ({"max": 2}, "no more are")):
        async with replay_server(settings=ReplaySection(**settings)) as it:
            start = await spaced(it, [10.0] * 3)
            for _ in range(2):
                reader = await it.open(Ws)
                await reader.replay("Sensor/+", start)
            await it.settle()
            heard = []
            for door in DOORS:
                reader = await it.open(door)
                await reader.replay("Sensor/+", start, speed="1")
                await it.settle()
                heard.append(words(reader))
            assert said in heard[0]
            assert 1 == len(set(heard)), heard
            assert 2 == len(it.server.replays)


async def test_m6_a_trimmed_part_is_refused_and_never_left_out():
    """M6: records that are not certain any more, and events that are gone."""
    async with replay_server() as it:
        begun = it.server.time
        it.server.time += 1
        start = await spaced(it, [10.0] * 6)
        slow = await it.open(Ws)
        await slow.replay("Sensor/+", start)
        await it.settle()
        it.server.store.trim(it.server.tables[0], Keep(events=2), it.server.time, 100)
        heard = []
        for door in DOORS:
            reader = await it.open(door)
            await reader.replay("Sensor/+", start, speed="1")
            await it.settle()
            heard.append(words(reader))
        assert "the log no longer has all of" in heard[0]
        assert 1 == len(set(heard)), heard
        early = await it.open(Sse)
        await early.replay("Sensor/+", round(begun * 1000), speed="0")
        await it.settle()
        assert ["end"] == early.kinds
        assert "gone" == early.told[0][2]["code"]
        await slow.say(id=2, op="seek", replay=1, at=start)
        await it.settle()
        assert 410 == slow.replies[-1]["error"]["status"]


async def test_m6_nothing_of_the_present_changes():
    """M6: neither the log nor a record."""
    async with replay_server() as it:
        start = await spaced(it, [0.001] * 5)
        head, now = it.head, (await it.rest.get("/Sensor/")).body
        listened = it.rest.listen()
        for door in DOORS:
            reader = await it.open(door)
            await reader.replay("#", start, speed="0")
            await it.until_end(reader)
        assert (head, now) == (it.head, (await it.rest.get("/Sensor/")).body)
        assert [] == listened
        assert PUT in reader.kinds
