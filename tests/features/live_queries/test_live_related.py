"""Live queries with conditions on related records: steps, bounds, rights (M3)."""

import json
from unittest import mock

import pytest
from query_readers import Mqtt, OldMqtt, QueryServer, Sse, Ws
from related_dogs import BONN, SCHEMA, put, related, some_dogs, turns_of, watch

import mqtt_server as mqtt
from build import turns
from mqtt_server import Connect, Peer, Puback, Publish, Subscribe, user
from rightful import Rightful, person
from rowcast.codecs import decode
from rowcast.core.callers import ALL, Caller, Grants
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, Event
from rowcast.features.live_queries.live_queries import LiveQueries
from rowcast.features.live_queries.related_past import Limits
from rowcast.kernel.reauthorization import stay
from rowcast.reads.loop_turns import LOOP_TURN_ITEMS
from rowcast.schema import parse_schema
from rowcast.store.store import Keep
from rowcast.subscriptions.live_query import step_of

READS = Grants(read=True)
# -- what is told ----------------------------------------------------------------------------------


@pytest.fixture
async def dogs():
    async with related() as opened:
        await some_dogs(opened)
        yield opened


@pytest.mark.parametrize("door", [Sse, Ws, Mqtt])
async def test_m3_a9_a_write_of_an_owner_moves_its_dogs(dogs, door):
    """M3, A9: they enter and leave, each once; a write that changes no match is no step."""
    await dogs.open(BONN, [door])
    (reader,) = dogs.readers
    assert {"Dog/1", "Dog/2"} == reader.records.keys()
    for event in (
        put("Owner/ben", city="Bonn"),
        put("Owner/ben", city="Bonn", name="Ben"),
        put("Owner/ann", city="Ulm"),
        put("Owner/dan", city="Bonn"),
        put("Dog/3", age=9, owner_id="ben"),
        put("Dog/3", age=9, owner_id="dan"),
        Event("Owner/dan", DELETE, b"", None, 1, True),
    ):
        await dogs.write(event)
        await dogs.settle()
        await dogs.check()
    steps = ["snapshot"] * 2 + ["enter", "leave", "leave", "change", "change", "leave"]
    assert steps == [kind for kind in reader.heard if kind != "current"]


@pytest.mark.parametrize("more", ["", "&select(id,owner(city))", "&sort(-age)&limit(700)"])
async def test_a_write_that_concerns_many_leaves_turns_to_others(more):
    """M3, P2: others do not wait until all dogs of an owner are compared and told."""
    taken = {}
    for slices in (1, 6):
        async with related() as opened:
            kernel = opened.server.kernel
            await opened.write(put("Owner/ann", city="Ulm"))
            for number in range(slices * LOOP_TURN_ITEMS):
                await opened.write(put(f"Dog/{number}", owner_id="ann"))
            await watch(kernel, f"$query/Dog/{BONN}{more}", Caller("a", ALL, "sse"))
            (view,) = kernel.views.queries.views._views.values()
            since = kernel.reader.announced()
            await opened.write(put("Owner/ann", city="Bonn"))
            taken[slices], replay = await turns_of(view.replay(since))
            pages = []
            while not replay.done:
                pages.append(len(await replay.read()))
            assert [LOOP_TURN_ITEMS] * slices == pages
    assert taken[6] - taken[1] >= 3 * 5, "records read, compared before and after"


async def test_m3_a9_the_other_way_round(dogs):
    """M3, A9: of owners, by their dogs; one of several that match is enough."""
    _, heard = await watch(dogs.server.kernel, "$query/Owner/dogs.age=gt=1", Caller("a", ALL))
    assert [("snapshot", "Owner/ann"), ("snapshot", "Owner/ben"), ("current", "")] == await heard()
    await dogs.write(put("Dog/1", age=5, owner_id="ann"))
    await dogs.write(put("Dog/2", age=0, owner_id="ann"))
    assert [] == await heard()
    await dogs.write(put("Dog/1", age=0, owner_id="ann"))
    await dogs.write(put("Dog/3", age=3, owner_id="ann"))
    moved = [("leave", "Owner/ann"), ("leave", "Owner/ben"), ("enter", "Owner/ann")]
    assert moved == sorted(await heard(), key=moved.index)


async def test_m3_each_step_has_the_position_of_the_write(dogs):
    """M3: the steps of one write have the cursor before it but for the last, so none is missed."""
    kernel = dogs.server.kernel
    reader, _ = await watch(kernel, f"$query/Dog/{BONN}", Caller("a", ALL))
    for _ in range(4):
        reader.take(100)
        await turns(8)
    receipt = await kernel.write(put("Owner/ann", city="Ulm"), Caller("a", ALL))
    await dogs.write(put("Owner/ben", city="Bonn"))
    position, told = receipt.event.seq, []
    for _ in range(8):
        told += reader.take(1)
        await turns(8)
    steps = [("leave", position - 1), ("leave", position), ("enter", position + 1)]
    assert steps == [(step_of(event), event.seq) for event, _ in told]


async def test_m3_readers_of_one_write_share_what_is_read(dogs):
    """M3: one statement for the dogs of an owner, however many dogs and readers there are."""
    kernel, ann = dogs.server.kernel, Caller("a", ALL)
    found = [await watch(kernel, f"$query/Dog/{BONN}", ann) for _ in range(20)]
    for _, heard in found:
        await heard()
    kernel.reader.search = searched = mock.AsyncMock(wraps=kernel.reader.search)
    await dogs.write(put("Owner/ben", city="Bonn"))
    for _, heard in found:
        assert [("enter", "Dog/3")] == await heard()
    assert 1 == searched.await_count


async def test_m3_a_write_that_matches_neither_before_nor_after_reaches_no_query(dogs):
    """M3: it is found by the index of the conditions on its table."""
    kernel = dogs.server.kernel
    await watch(kernel, f"$query/Dog/age=gt=3&{BONN}", Caller("a", ALL))
    taken = []
    for view in list(dogs.server.live_queries.views._views.values()):
        view.take = lambda event: (taken.append(event.topic), ())[1]
    await dogs.write(put("Owner/ben", city="Kiel"))
    await dogs.write(put("Dog/1", age=2, owner_id="ben"))
    assert [] == taken
    await dogs.write(put("Owner/ben", city="Bonn"))
    await dogs.write(put("Dog/1", age=5, owner_id="ben"))
    assert ["Owner/ben", "Dog/1"] == taken


async def test_m3_a_slow_reader_gets_the_same_steps_from_the_log(dogs):
    """M3: its queue overflows, and it reads the log of both tables."""
    reader, heard = await watch(
        dogs.server.kernel, f"$query/Dog/{BONN}", Caller("a", ALL), queue_events_max=2
    )
    await heard()
    for city in ("Bonn", "Ulm", "Bonn"):
        await dogs.write(put("Owner/ben", city=city))
        await dogs.write(put("Dog/1", age=1, owner_id="ann"))
    assert reader.fallbacks
    told = [("enter", "Dog/3"), ("change", "Dog/1"), ("leave", "Dog/3"), ("change", "Dog/1")]
    assert [*told, *told[:2]] == await heard()


async def test_m3_a_named_query_may_be_on_related_records(dogs):
    """M3, A9: the schema is checked, too."""
    _, heard = await watch(dogs.server.kernel, "$query/Bonn", Caller("a", ALL))
    assert [("snapshot", "Dog/1"), ("snapshot", "Dog/2"), ("current", "")] == await heard()
    await dogs.write(put("Owner/ann", city="Ulm"))
    assert [("leave", "Dog/1"), ("leave", "Dog/2")] == await heard()
    with pytest.raises(Error, match='"town"'):
        parse_schema(SCHEMA.replace("owner.city==Bonn", "owner.town==Bonn"))


# -- selected parts --------------------------------------------------------------------------------

PARTS = "select(id,owner(name,city))"


@pytest.mark.parametrize("door", [Sse, Ws, Mqtt])
async def test_m3_a9_a_change_of_an_owner_is_a_change_of_what_is_told_of_its_dogs(dogs, door):
    """M3, A9: a step has the parts as of its position; what is not selected is no step."""
    await dogs.open(f"age=le=2&{PARTS}", [door])
    (reader,) = dogs.readers
    for event, steps in (
        (put("Owner/ann", city="Bonn", name="Ann"), ["change", "change"]),
        (put("Owner/ann", city="Bonn", name="Ann", phone="1"), []),
        (put("Owner/ben", city="Bonn"), []),
        (put("Dog/2", age=2, owner_id="ben"), ["change"]),
        (put("Dog/4", age=1, owner_id="ben"), ["enter"]),
        (Event("Owner/ben", DELETE, b"", None, 1, True), ["change", "change"]),
        (put("Dog/1", age=3, owner_id="ann"), ["leave"]),
    ):
        reader.heard.clear()
        await dogs.write(event)
        await dogs.check()
        assert steps == reader.heard, event
    assert {"id": "2", "owner": None} == reader.records["Dog/2"]


@pytest.mark.parametrize("door", [Sse, Ws, Mqtt, OldMqtt])
async def test_m3_parts_of_the_record_alone_need_no_other_table(dogs, door):
    """M3: they are told as REST tells them."""
    await dogs.open(f"age=gt=3&{PARTS.replace('owner(name,city)', 'age')}", [door])
    await dogs.write(put("Dog/1", age=5, owner_id="ann"))
    await dogs.check()
    assert {"Dog/1": {"id": "1", "age": 5}} == {
        topic: value for topic, value in dogs.readers[0].records.items() if topic == "Dog/1"
    }
    dogs.server.kernel.reader.search = searched = mock.AsyncMock()
    await dogs.write(put("Dog/1", age=6, owner_id="ann"))
    await dogs.settle()
    assert (6, 0) == (dogs.readers[0].records["Dog/1"]["age"], searched.await_count)


@pytest.mark.parametrize("spelling", ["$query/Dog/{}", "Dog/+?{}"])
@pytest.mark.parametrize("version", [5, 4])
async def test_m3_a_message_of_parts_has_what_one_of_a_record_has(dogs, spelling, version):
    """M3: position and step in MQTT 5, and in the format that was asked for."""
    peer = Peer(dogs.server, version)
    asked = {"user_property": (("accept", "application/cbor"),)} if version == 5 else {}
    peer.send(Connect(version, "c"))
    text = spelling.format("age=ge=4&select(id,owner(city))")
    peer.send(Subscribe(7, (mqtt.Subscription(text, 1),), asked))
    await turns(30)
    await dogs.write(put("Owner/cy", city="Kiel"))
    await turns(30)
    found = [packet for packet in peer.heard() if isinstance(packet, Publish)]
    media = "application/cbor" if version == 5 else "application/json"
    told = [decode(packet.payload, media) for packet in found]
    assert [{"id": "4", "owner": None}, {"id": "4", "owner": {"city": "Kiel"}}] == told
    assert ["Dog/4"] * 2 == [packet.topic for packet in found]
    if version == 5:
        head = dogs.server.kernel.committer.announced
        record = await dogs.server.kernel.read("Dog/4", Caller("a", ALL))
        cursors = [dogs.server.kernel.cursor(seq) for seq in (record.seq, head)]
        assert cursors == [user(packet, "seq") for packet in found]
        assert [None, "change"] == [user(packet, "op") for packet in found]
    peer.lose()


async def test_m3_parts_of_too_many_records_end_the_query():
    """M3: beginning anew would end here again."""
    async with related(related_limits=Limits(records=1)) as opened:
        for number in range(2):
            await opened.write(put(f"Owner/{number}", city="Bonn"))
            await opened.write(put(f"Dog/{number}", age=1, owner_id=str(number)))
        _, heard = await watch(opened.server.kernel, f"$query/Dog/{PARTS}", Caller("a", ALL))
        with pytest.raises(Error, match="leads to more than 1 records; select less"):
            await heard()


async def test_m3_m9_masked_parts_of_related_records_stay_masked():
    server = Rightful(RULED)
    await server.write(
        "Owner/a", {"keeper": "ann", "city": "Bonn", "phone": "0123456", "weight": 1}
    )
    await server.write("Dog/1", {"owner_id": "a"})
    vet = person("vi", "vet", grants=READS)
    for who, told in (
        (vet, {"phone": "***3456", "weight": 1}),
        (person("ann", grants=READS), {"phone": "0123456"}),
        (person("ben", grants=READS), None),
    ):
        reader, _ = await watch(server.kernel, "$query/Dog/select(id,owner(phone,weight))", who)
        found = []
        for _ in range(8):
            found += reader.take(1000)
            await turns(6)
        assert {"id": "1", "owner": told} == json.loads(found[0][0].payload)


# -- refusing, bounds ------------------------------------------------------------------------------

REFUSED = {
    f"{BONN}&sort(age)": "no order without a limit",
    f"{BONN}&sort(owner.city)&limit(2)": "only stored attributes can be compared",
    "owner.age=gt=5|owner.dogs.age=gt=old": "old",
    "owner.dogs.owner.dogs.age==1": "more than 3 relationships away",
}


@pytest.mark.parametrize("conditions", REFUSED)
async def test_m3_what_cannot_be_followed_is_refused_on_every_door(dogs, conditions):
    """M3: when it is asked for, with one sentence."""
    rest = await dogs.rest.get(f"/Dog/?{conditions}", accept="text/event-stream")
    said = {rest.value["detail"]}
    socket = Ws(dogs)
    await socket.connect()
    await socket.say(op="subscribe", topic="Dog/+", where=conditions)
    await turns(20)
    said.add(json.loads(socket.sent[-1]["text"])["error"]["detail"])
    await socket.cut()
    peer = Peer(dogs.server, 5)
    peer.send(Connect(5, "c"), Subscribe(7, (mqtt.Subscription(f"$query/Dog/{conditions}"),)))
    await turns(20)
    suback = peer.heard()[-1]
    assert suback.reasons[0] >= 0x80
    said.add(suback.properties["reason_string"].partition("': ")[2])
    peer.lose()
    assert 1 == len(said), said
    assert REFUSED[conditions] in said.pop()
    assert 0 == len(dogs.server.live_queries)


async def test_m3_a_write_that_concerns_too_many_records_begins_the_query_anew():
    """M3: it is told so, and holds what REST answers."""
    async with related(related_limits=Limits(records=2)) as opened:
        await opened.write(put("Owner/ann", city="Bonn"))
        for number in range(3):
            await opened.write(put(f"Dog/{number}", age=1, owner_id="ann"))
        await opened.open(BONN, [Sse, Ws])
        for reader in opened.readers:
            reader.heard.clear()
        await opened.write(put("Owner/ann", city="Ulm"))
        await opened.check()
        assert [["reset", "current"]] * 2 == [reader.heard for reader in opened.readers]


async def test_m3_conditions_that_lead_to_too_many_records_end_the_query():
    """M3: the sentence is that of REST."""
    async with related(related_limits=Limits(keys=1)) as opened:
        await opened.write(put("Owner/ann", city="Bonn"))
        kernel, text = opened.server.kernel, f"$query/Dog/{BONN}"
        _, heard = await watch(kernel, text, Caller("a", ALL))
        assert [("current", "")] == await heard()
        await opened.write(put("Owner/ben", city="Bonn"))
        with pytest.raises(Error, match="owner leads to more than 1 records of Owner") as refused:
            await heard()
        assert Code.INVALID == refused.value.code


async def test_m3_the_keys_of_one_server_are_bounded(dogs):
    kernel = dogs.server.kernel
    kernel.views.queries = LiveQueries(kernel, related_keys_max=1)
    _, first = await watch(kernel, f"$query/Dog/{BONN}", Caller("a", ALL))
    assert [("snapshot", "Dog/1"), ("snapshot", "Dog/2"), ("current", "")] == await first()
    _, second = await watch(kernel, "$query/Dog/owner.city==Ulm", Caller("a", ALL))
    with pytest.raises(Error, match="may hold no more") as refused:
        await second()
    assert Code.BUSY == refused.value.code


async def test_m3_a_trimmed_log_begins_the_query_anew(dogs):
    """M3: also one whose owners alone were trimmed."""
    kernel, store = dogs.server.kernel, dogs.server.store
    position = kernel.committer.announced
    await dogs.write(put("Owner/ann", city="Ulm"))
    await dogs.write(put("Owner/ben", city="Bonn"))
    store.trim(kernel.registry.shapes["Owner"].table, Keep(events=1), 0, 1_000)
    _, heard = await watch(kernel, f"$query/Dog/{BONN}", Caller("a", ALL), position)
    assert [("reset", ""), ("snapshot", "Dog/3"), ("current", "")] == await heard()


# -- rights ----------------------------------------------------------------------------------------

RULED = """
type Dog @table @export {
  id: ID @primaryKey
  owner_id: ID @indexed
  owner: Owner @relationship(from: "owner_id")
}
type Owner @table @export
  @auth(read: "keeper == $user")
  @auth(roles: ["vet"], mask: {phone: "last4"}) {
  id: ID @primaryKey
  keeper: String
  city: String
  phone: String
  weight: Int @auth(roles: ["vet"])
}
"""


async def test_m3_m9_owners_that_may_not_be_read_are_as_absent():
    """M3, M9: a dog leaves when its owner becomes forbidden."""
    server = Rightful(RULED)
    await server.write("Owner/a", {"keeper": "ann", "city": "Bonn"})
    await server.write("Owner/b", {"keeper": "ben", "city": "Bonn"})
    for number, owner in (("1", "a"), ("2", "b")):
        await server.write(f"Dog/{number}", {"owner_id": owner})
    _, heard = await watch(server.kernel, f"$query/Dog/{BONN}", person("ann", grants=READS))
    assert [("snapshot", "Dog/1"), ("current", "")] == await heard()
    await server.write("Owner/b", {"keeper": "ben", "city": "Ulm"})
    await server.write("Owner/a", {"keeper": "ben", "city": "Bonn"})
    assert [("leave", "Dog/1")] == await heard()
    await server.write("Owner/b", {"keeper": "ann", "city": "Bonn"})
    assert [("enter", "Dog/2")] == await heard()


@pytest.mark.parametrize(
    ("who", "conditions", "why"),
    [
        (person("ann", grants=READS), "owner.weight=gt=3", "that you may compare"),
        (person("vi", "vet", grants=READS), "owner.phone==1", "that you may compare"),
        (person("no", grants=Grants()), BONN, "may not read"),
    ],
)
async def test_m3_m9_what_one_may_not_see_there_is_not_compared(who, conditions, why):
    """M3, L13: the sentence is that of REST."""
    with pytest.raises(Error, match=why):
        await watch(Rightful(RULED).kernel, f"$query/Dog/{conditions}", who)


async def test_m3_m9_changed_rights_to_the_other_table_begin_the_query_anew():
    server = Rightful(RULED)
    await server.write("Owner/a", {"keeper": "ann", "city": "Bonn"})
    await server.write("Dog/1", {"owner_id": "a"})
    vet = person("vi", "vet", grants=READS)
    reader, heard = await watch(server.kernel, f"$query/Dog/{BONN}", vet)
    assert [("snapshot", "Dog/1"), ("current", "")] == await heard()
    await server.rule("no", filter="Owner/a", actions=["read"], effect="deny")
    stay(server.kernel, reader)
    assert [("reset", ""), ("current", "")] == await heard()


# -- sessions --------------------------------------------------------------------------------------


async def test_m3_messages_in_flight_at_a_kill_are_the_same_again():
    """M3: also of records that the write of another one moved."""
    dog, *others = parse_schema(SCHEMA).tables
    opened = QueryServer(dog, others=others)
    await opened.write(put("Owner/ann", city="Bonn"))
    await opened.write(put("Dog/1", age=1, owner_id="ann"))
    await opened.write(put("Dog/2", 2, age=1, owner_id="ben"))
    keep = {"session_expiry_interval": 3600}
    peer = Peer(opened.server, 5)
    peer.send(Connect(5, "c", clean_start=True, properties=keep))
    peer.send(Subscribe(7, (mqtt.Subscription(f"$query/Dog/{BONN}", 2),)))
    await turns(40)
    for packet in peer.heard():
        if isinstance(packet, Publish):
            peer.send(Puback(packet.packet_id))
    await opened.write(put("Owner/ann", 2, city="Ulm"))
    await opened.write(put("Owner/ben", 2, city="Bonn"))
    await turns(60)
    before = [(packet.topic, packet.payload, user(packet, "op")) for packet in peer.heard()]
    assert ["leave", "enter"] == [op for _, _, op in before]
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


@pytest.mark.parametrize("trimmed", [False, True])
async def test_m3_selected_parts_in_flight_at_a_kill_are_the_same_again(trimmed):
    """M3: as of their moment, also where the log has no longer what they were made of."""
    dog, *others = parse_schema(SCHEMA).tables
    opened = QueryServer(dog, others=others)
    await opened.write(put("Owner/ann", 2, city="Bonn"))
    for number in (1, 2):
        await opened.write(put(f"Dog/{number}", 2, age=1, owner_id="ann"))
    keep = {"session_expiry_interval": 3600}
    peer = Peer(opened.server, 5)
    peer.send(Connect(5, "c", clean_start=True, properties=keep))
    peer.send(Subscribe(7, (mqtt.Subscription(f"$query/Dog/{PARTS}", 2),)))
    await turns(40)
    for city in ("Ulm", "Kiel"):
        await opened.write(put("Owner/ann", 2, city=city))
    await opened.write(Event("Dog/2", DELETE, b"", None, 2, True))
    await turns(80)
    before = [packet for packet in peer.heard() if isinstance(packet, Publish)]
    steps = [None, None, *["change"] * 4, "leave"]
    assert steps == [user(packet, "op") for packet in before]
    cities = [json.loads(packet.payload)["owner"]["city"] for packet in before[:-1]]
    assert ["Bonn", "Bonn", "Ulm", "Ulm", "Kiel", "Kiel"] == cities
    opened.server.writer.hold()
    opened.server.readers.hold()
    again = QueryServer(dog, others=others, store=opened.server.store)
    if trimmed:
        await again.write(put("Dog/1", 2, age=7, owner_id="ann"))
        for table in (dog, *others):
            again.server.store.trim(table, Keep(events=1), 0, 1_000)
    peer = Peer(again.server, 5)
    peer.send(Connect(5, "c", clean_start=False, properties=keep))
    await turns(80)
    sent = [packet for packet in peer.heard() if isinstance(packet, Publish)][: len(before)]
    for packet in (*before, *sent):
        assert packet.topic.startswith("Dog/")

    def told(packets):
        names = ("op", "seq")
        return [(it.topic, it.payload, *[user(it, name) for name in names]) for it in packets]

    assert told(before) == told(sent)
    peer.lose()
    await again.close()
