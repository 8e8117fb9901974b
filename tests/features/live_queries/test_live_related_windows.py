"""Live windows of queries with conditions on related records: steps, reads, bounds (M3)."""

import json
from unittest import mock

import pytest
from query_readers import Mqtt, OldMqtt, QueryServer, Sse, Ws
from related_dogs import BONN, SCHEMA, put, related, some_dogs, watch

import mqtt_server as mqtt
from build import turns
from mqtt_server import Connect, Peer, Puback, Pubcomp, Publish, Pubrec, Subscribe, user
from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, Event
from rowcast.features.live_queries.live_queries import LiveQueries
from rowcast.features.live_queries.related_past import Limits
from rowcast.features.live_queries.window_order import WindowOrder
from rowcast.schema import parse_schema
from rowcast.subscriptions.live_query import step_of

OLDEST = f"{BONN}&sort(-age)&limit(2)"
ANN = Caller("ann", ALL)


@pytest.fixture
async def dogs():
    async with related() as opened:
        await some_dogs(opened)
        await opened.write(put("Dog/5", age=0, owner_id="ann"))
        yield opened


# -- telling ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", [Sse, Ws, Mqtt, OldMqtt])
async def test_m3_a9_a_write_of_an_owner_moves_dogs_through_the_window(dogs, door):
    """M3, A9: records come in order, then what moves up, and out, at the position of the write."""
    await dogs.open(OLDEST, [door])
    (reader,) = dogs.readers
    assert ["Dog/2", "Dog/1"] == list(reader.records)
    told = [
        (put("Owner/ben", city="Bonn"), "leave enter", {"3", "2"}),
        (put("Owner/ben", city="Bonn", name="Ben"), "", {"3", "2"}),
        (put("Dog/5", age=9, owner_id="ann"), "leave enter", {"5", "3"}),
        (put("Dog/5", age=9, owner_id="ben"), "change", {"5", "3"}),
        (put("Owner/cy", city="Bonn"), "leave enter", {"5", "4"}),
        (put("Owner/ben", city="Kiel"), "leave enter", {"4", "2"}),
        (put("Owner/ann", city="Ulm"), "leave", {"4"}),
        (Event("Owner/cy", DELETE, b"", None, 1, True), "leave", set()),
        (put("Owner/ann", city="Bonn"), "enter enter", {"2", "1"}),
    ]
    for event, steps, names in told:
        reader.heard.clear()
        await dogs.write(event)
        await dogs.check()
        if door is not OldMqtt:
            assert steps.split() == reader.heard, event
        assert names == {topic[-1] for topic in reader.records}


@pytest.mark.parametrize("door", [Sse, Ws, Mqtt])
async def test_m3_a9_in_a_window_of_parts_a_change_is_one_of_what_is_shown(dogs, door):
    """M3, A9: of the record and of related ones; its order is by what is not shown."""
    await dogs.open("sort(-age)&limit(2)&select(id,owner(name))", [door])
    (reader,) = dogs.readers
    assert {"id": "4", "owner": None} == reader.records["Dog/4"]
    told = [
        (put("Dog/4", age=5, owner_id="cy"), ""),  # what moves within the window is shown as it was
        (put("Dog/3", age=6, owner_id="ben"), ""),
        (put("Owner/ben", city="Ulm", name="Ben"), "change"),
        (put("Owner/ben", city="Kiel", name="Ben"), ""),
        (put("Dog/4", age=6, owner_id="ben"), "change"),
        (put("Dog/1", age=7, owner_id="ann"), "leave enter"),
        (Event("Owner/ben", DELETE, b"", None, 1, True), "change"),
    ]
    for event, steps in told:
        reader.heard.clear()
        await dogs.write(event)
        await dogs.check()
        assert steps.split() == reader.heard, event
    assert {"Dog/1", "Dog/3"} == set(reader.records)


async def test_m3_a9_a_named_query_may_be_such_a_window():
    """M3, A9: by its name, as any other; it is the window of its readers."""
    text = SCHEMA.replace('where: "owner.city==Bonn"', f'where: "{OLDEST}"')
    async with related(text) as opened:
        await some_dogs(opened)
        _, heard = await watch(opened.server.kernel, "$query/Bonn", ANN)
        assert [("snapshot", "Dog/2"), ("snapshot", "Dog/1"), ("current", "")] == await heard()
        await opened.write(put("Owner/ben", city="Bonn"))
        assert [("leave", "Dog/1"), ("enter", "Dog/3")] == await heard()


async def test_m3_each_step_has_the_position_of_the_write(dogs):
    """M3: the last step of a write alone has its cursor; a record that comes has its own number."""
    kernel = dogs.server.kernel
    seq = kernel.committer.announced
    reader, _ = await watch(kernel, f"$query/Dog/{OLDEST}", ANN)
    found = []
    for _ in range(4):
        found += [event.seq for event, _ in reader.take(100)]
        await turns(8)
    assert [seq - 3, seq - 4, seq] == found, "records, and the position"
    receipt = await kernel.write(put("Owner/ben", city="Bonn"), ANN)
    position, told = receipt.event.seq, []
    for _ in range(8):
        told += reader.take(1)
        await turns(8)
    steps = [("leave", position - 1), ("enter", position)]
    assert steps == [(step_of(event), event.seq) for event, _ in told]
    late, _ = await watch(kernel, f"$query/Dog/{OLDEST}", ANN)
    found = []
    for _ in range(4):
        found += [event.seq for event, _ in late.take(100)]
        await turns(8)
    assert [seq - 2, seq - 3, position] == found


# -- reading ---------------------------------------------------------------------------------------


async def test_m3_readers_share_what_a_write_needs(dogs):
    """M3: one statement for the dogs of an owner, and none for the window."""
    kernel = dogs.server.kernel
    found = [await watch(kernel, f"$query/Dog/{OLDEST}", ANN) for _ in range(20)]
    for _, heard in found:
        await heard()
    kernel.reader.search = searched = mock.AsyncMock(wraps=kernel.reader.search)
    await dogs.write(put("Owner/ben", city="Bonn"))
    for _, heard in found:
        assert [("leave", "Dog/1"), ("enter", "Dog/3")] == await heard()
    assert 1 == searched.await_count
    await dogs.write(put("Dog/3", age=0, owner_id="ben"))
    for _, heard in found:
        assert [("leave", "Dog/3"), ("enter", "Dog/1")] == await heard()
    assert 1 == searched.await_count, "what follows is known again"


async def test_m3_a_window_is_read_again_when_its_spare_records_are_used_up():
    """M3: more leave with one owner than are known behind the window."""
    async with related(spare_records_min=2) as opened:
        await some_dogs(opened)
        for number in range(20):
            await opened.write(put(f"Dog/x{number}", age=50 + number, owner_id="dan"))
        await opened.write(put("Owner/dan", city="Bonn"))
        await opened.open(OLDEST, [Sse, Ws, Mqtt])
        for city, steps in (("Ulm", 2), ("Bonn", 2)):
            for reader in opened.readers:
                reader.heard.clear()
            await opened.write(put("Owner/dan", city=city))
            await opened.check()
            for reader in opened.readers:
                assert ["leave"] * steps + ["enter"] * 2 == reader.heard


async def test_m3_a_slow_reader_gets_the_same_steps(dogs):
    """M3: its queue overflows; the log of both tables says what the window was."""
    kernel = dogs.server.kernel
    reader, heard = await watch(kernel, f"$query/Dog/{OLDEST}", ANN, queue_events_max=2)
    _, along = await watch(kernel, f"$query/Dog/{OLDEST}", ANN)
    await heard(), await along()
    for city, age in (("Bonn", 7), ("Ulm", 1), ("Bonn", 0)):
        await dogs.write(put("Owner/ben", city=city))
        await dogs.write(put("Dog/5", age=age, owner_id="ann"))
    assert reader.fallbacks
    steps = await heard()
    assert steps == await along()
    assert {("enter", "Dog/3"), ("enter", "Dog/5"), ("leave", "Dog/5")} < set(steps)


async def test_m3_what_happens_while_the_records_are_read_is_in_them(dogs):
    """M3: a write of an owner and one of a dog, with the same cursor for all who wait."""
    kernel = dogs.server.kernel
    dogs.server.readers.hold()
    both = [await watch(kernel, f"$query/Dog/{OLDEST}", ANN) for _ in range(2)]
    for reader, _ in both:
        reader.take(1)
    await turns(4)
    await dogs.write(put("Owner/ben", city="Bonn"))
    await dogs.write(put("Dog/5", age=9, owner_id="ben"))
    dogs.server.readers.release()
    for _, heard in both:
        assert [("snapshot", "Dog/5"), ("snapshot", "Dog/3"), ("current", "")] == await heard()
    await dogs.write(put("Owner/ben", city="Ulm"))
    told = [("leave", "Dog/5"), ("leave", "Dog/3"), ("enter", "Dog/2"), ("enter", "Dog/1")]
    for _, heard in both:
        assert told == await heard()


# -- bounds ----------------------------------------------------------------------------------------


async def test_m3_a_write_that_concerns_too_many_records_begins_the_window_anew():
    """M3: it is told so, holds what REST answers, and goes on."""
    async with related(related_limits=Limits(records=2)) as opened:
        await some_dogs(opened)
        for number in range(3):
            await opened.write(put(f"Dog/x{number}", age=9, owner_id="dan"))
        await opened.open(OLDEST, [Sse, Ws])
        for event, steps in (
            (put("Owner/dan", city="Bonn"), ["reset", "snapshot", "snapshot", "current"]),
            (put("Dog/1", age=99, owner_id="ann"), ["leave", "enter"]),
        ):
            for reader in opened.readers:
                reader.heard.clear()
            await opened.write(event)
            await opened.check()
            assert [steps] * 2 == [reader.heard for reader in opened.readers]


async def test_m3_its_records_count_as_those_of_other_windows(dogs):
    """M3: of one process, with spare ones."""
    kernel = dogs.server.kernel
    kernel.views.queries = queries = LiveQueries(kernel, window_records_max=40)
    reader, _ = await watch(kernel, f"$query/Dog/{OLDEST}", ANN)
    await watch(kernel, "$query/Dog/limit(2)", ANN)
    for text in (f"{BONN}&limit(2)", "limit(3)"):
        with pytest.raises(Error, match="40 records of live windows") as refused:
            await watch(kernel, f"$query/Dog/{text}", ANN)
        assert Code.BUSY == refused.value.code
    assert (1, 1) == (len(queries.windows), len(queries.views))
    kernel.close(reader)
    await watch(kernel, f"$query/Dog/{BONN}&limit(2)", ANN)
    await watch(kernel, f"$query/Dog/{BONN}", ANN)
    assert (1, 2) == (len(queries.windows), len(queries.views))


async def test_m3_a_window_of_too_many_bytes_is_refused(dogs):
    """M3: it is in memory with its payloads."""
    with mock.patch.object(WindowOrder, "fits", False):
        _, heard = await watch(dogs.server.kernel, f"$query/Dog/{OLDEST}", ANN)
        with pytest.raises(Error, match="smaller limit"):
            await heard()


# -- sessions --------------------------------------------------------------------------------------


async def test_m3_messages_in_flight_at_a_kill_are_the_same_again():
    """M3: of records that the write of an owner, or another dog, moved."""
    dog, *others = parse_schema(SCHEMA).tables
    opened = QueryServer(dog, others=others)
    for name, owner, qos in (("1", "ann", 2), ("2", "ann", 1), ("3", "ben", 2)):
        await opened.write(put(f"Dog/{name}", qos, age=int(name), owner_id=owner))
    await opened.write(put("Owner/ann", city="Bonn"))
    keep = {"session_expiry_interval": 3600}
    peer = Peer(opened.server, 5)
    peer.send(Connect(5, "c", clean_start=True, properties=keep))
    peer.send(Subscribe(7, (mqtt.Subscription(f"$query/Dog/{OLDEST}", 2),)))
    await turns(80)
    for packet in peer.heard():
        if isinstance(packet, Publish):
            peer.send(Puback(packet.packet_id) if packet.qos == 1 else Pubrec(packet.packet_id))
    await turns(20)
    for packet in peer.heard():
        peer.send(Pubcomp(packet.packet_id))
    await opened.write(put("Owner/ben", 2, city="Bonn"))
    await opened.write(put("Dog/3", 2, age=0, owner_id="ben"))
    await turns(60)
    before = [(packet.topic, packet.payload, user(packet, "op")) for packet in peer.heard()]
    assert ["leave", "enter", "leave", "enter"] == [op for _, _, op in before]
    assert [1, 3] == sorted(json.loads(payload)["age"] for _, payload, _ in before if payload)
    opened.server.writer.hold()
    opened.server.readers.hold()
    again = QueryServer(dog, others=others, store=opened.server.store)
    peer = Peer(again.server, 5)
    peer.send(Connect(5, "c", clean_start=False, properties=keep))
    await turns(60)
    _, *sent = peer.heard()
    assert before == [(packet.topic, packet.payload, user(packet, "op")) for packet in sent]
    peer.lose()
    await again.close()
