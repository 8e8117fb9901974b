"""Live queries: how they are asked for on each door, what is refused, and what is bounded (M3)."""

import json
from base64 import b64decode
from dataclasses import replace
from functools import partial

import pytest
from query_readers import Mqtt, Sse, Ws, query_server

import mqtt_server as mqtt
from asgi import Asgi
from build import Server, turns
from mqtt_server import Connect, Peer, Publish, Suback, Subscribe, Unsubscribe, user
from rightful import ROOT, Rightful, person
from rowcast.codecs import CBOR, JSON, MSGPACK, decode
from rowcast.core.callers import ALL, Caller, Grants
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.query_topics import named_filter, query_filter
from rowcast.core.tables import Attribute, Table, Type
from rowcast.core.topics import TopicFilter
from rowcast.doors.http.streams.stream_start import begin
from rowcast.features.live_queries.live_queries import LiveQueries
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.kernel.reauthorization import stay
from rowcast.store.store import Keep
from rowcast.subscriptions.live_query import step_of
from rowcast.subscriptions.start_position import StartPosition
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription
from rowcast_client.events import Frames

SENSOR = Table(
    "Sensor",
    "Sensor",
    (
        Attribute("id", Type.ID, primary_key=True),
        Attribute("temp", Type.FLOAT),
        Attribute("site", Type.STRING),
        Attribute("from", Type.STRING),
        Attribute("place", Type.OBJECT, relationship=("from", "site"), type_name="Site"),
        Attribute("double", Type.FLOAT, computed="temp * 2"),
    ),
)
HOT = "temp=gt=80&site==A"


def put(name, qos=1, **value):
    payload = json.dumps(value).encode()
    return Event(f"Sensor/{name}", PUT, payload, "application/json", qos, True)


@pytest.fixture
async def hot():
    async with query_server(SENSOR) as opened:
        await opened.write(put("1", temp=90, site="A"))
        await opened.write(put("2", temp=70, site="A"))
        yield opened


async def watch(kernel, text, caller, **options):
    """Return a reader of a filter, and a function that returns what it was handed."""
    reader = Subscription(kernel.reader, **options)
    interest = SubscribedFilter(TopicFilter(named_filter(text)))
    kernel.watch(reader, interest, caller)

    return reader, partial(handed, reader)


async def handed(reader):
    """Return what a reader is handed."""
    found = []
    for _ in range(6):
        found += reader.take(1000)
        await turns(4)
    return [(step_of(event) or event.kind, event.topic) for event, _ in found]


# -- asking ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", [Sse, Ws, Mqtt])
async def test_m3_records_then_the_mark_then_steps(hot, door):
    """M3, C13: the matching records, the end mark, enter, change, leave; a leave has no value."""
    await hot.open(HOT, [door])
    (reader,) = hot.readers
    for value in ({"temp": 95, "site": "A"}, {"temp": 70, "site": "A"}, {"temp": 81, "site": "A"}):
        await hot.write(put("1", **value))
        await hot.settle()
    await hot.write(Event("Sensor/1", DELETE, b"", None, 1, True))
    await hot.write(put("3", temp=85, site="B"))
    await hot.settle()
    heard = [kind for kind in reader.heard if kind != "current"]
    assert ["snapshot", "change", "leave", "enter", "leave"] == heard
    assert {} == reader.records


@pytest.mark.parametrize(
    "text",
    [
        "$query/Sensor/temp=gt=80&site==A",
        "$query/Sensor/temp%3Dgt%3D80%26site%3D%3DA",
        "Sensor/+?temp>80&site=A",
        "Sensor/#?temp>80&site=A",
        "/Sensor/+?temp>80&site=A",
        "$exclusive/Sensor/+?temp>80&site=A",
    ],
)
@pytest.mark.parametrize("version", [4, 5])
async def test_m3_mqtt_has_spellings_of_it(hot, text, version):
    """M3: percent-encoded, or as EMQX writes it; each can be ended by its own text."""
    peer = Peer(hot.server, version)
    peer.send(Connect(version, "c"), Subscribe(7, (mqtt.Subscription(text, 1),)))
    await turns(30)
    answer = peer.heard()
    assert [1] == [packet.reasons[0] for packet in answer if isinstance(packet, Suback)], answer
    assert ["Sensor/1"] == [packet.topic for packet in answer if isinstance(packet, Publish)]
    assert 1 == len(hot.server.live_queries)
    peer.send(Unsubscribe(8, (text,)))
    await turns(10)
    assert 0 == len(hot.server.live_queries)
    peer.lose()


async def test_m3_mqtt_says_what_a_message_is(hot):
    """M3, X16: ``op`` in MQTT 5; a record that leaves is an empty message at its topic."""
    peer = Peer(hot.server, 5)
    peer.send(Connect(5, "c"), Subscribe(7, (mqtt.Subscription(f"Sensor/+?{HOT}", 0),)))
    await turns(30)
    peer.heard()
    await hot.write(put("2", temp=99, site="A"))
    await hot.write(put("1", temp=1, site="A"))
    await turns(30)
    enter, leave = peer.heard()
    assert ("enter", "Sensor/2") == (user(enter, "op"), enter.topic)
    assert ("leave", "Sensor/1", b"") == (user(leave, "op"), leave.topic, leave.payload)
    assert user(leave, "seq")
    peer.lose()


async def test_m3_an_attribute_with_the_name_of_a_parameter_is_compared_by_two_signs(hot):
    await hot.write(put("9", **{"from": "x", "temp": 1}))
    hot.conditions = "from==x&temp=lt=5"
    await hot.open(hot.conditions, [Sse])
    assert ["Sensor/9"] == list(hot.readers[0].records)


async def test_other_parameters_of_the_stream_stand_beside_conditions(hot):
    await hot.open(f"meta=true&{HOT}&format=json", [Sse])
    assert ["snapshot", "current"] == hot.readers[0].heard


@pytest.mark.parametrize(
    ("name", "media_type"), [("json", JSON), ("cbor", CBOR), ("msgpack", MSGPACK)]
)
async def test_m3_a_step_in_each_format(hot, name, media_type):
    """M3: its kind is text in all of them."""
    reader = Sse(hot)
    await reader.ask(f"{HOT}&format={name}")
    await turns(20)
    reader.sent.clear()
    await hot.write(put("2", temp=99, site="A"))
    await turns(20)
    (frame,) = Frames().feed(reader.sent[0]["body"])
    data = frame.data.encode() if media_type == JSON else b64decode(frame.data)
    told = decode(data, media_type)
    assert ("enter", "enter", 99) == (frame.name, told["kind"], told["value"]["temp"])
    await reader.cut()


async def test_m3_several_queries_and_a_plain_filter_share_a_connection(hot):
    """M3: each event is delivered for every filter that it concerns, as that needs it."""
    socket = Ws(hot)
    await socket.ask(HOT)
    await socket.say(op="subscribe", topic="Sensor/+", where="temp=lt=95", id=9)
    await hot.settle()
    socket.sent.clear()
    await hot.write(put("1", temp=96, site="A"))
    await turns(20)
    told = [json.loads(message["text"]) for message in socket.sent]
    assert {1: "put", 2: "change", 3: "leave"} == {it["subscription"]: it["kind"] for it in told}
    assert 1 == len({it["cursor"] for it in told})
    await socket.cut()


# -- refusing --------------------------------------------------------------------------------------

DEEP = "[" * 40 + "temp=1" + "]" * 40
MANY = "|".join(f"temp=={number}" for number in range(2_000))
BAD = (
    "temp=gt=warm", "temp=gt=", "temp=near=1", "site=gt=null", DEEP, MANY,
    "place.city==Bonn", "place==A", "double=gt=1", "sort(place.city)&limit(2)",
    "temp=gt=1&sort(temp)", "limit(1001)", "temp=gt=1&limit(990,1001)",
    "temp=gt=1&select(id)&select(site)&limit(2)", "temp=gt=1|site==A&id==2",
    "sort(temp)&limit(2)&after(x)", "sort(temp)&limit(-1)",
)  # fmt: skip


@pytest.mark.parametrize("conditions", BAD)
async def test_m3_the_same_sentence_on_every_door(hot, conditions):
    """M3: at the time of the subscription."""
    said = set()
    rest = await hot.rest.get(f"/Sensor/?{conditions}", accept="text/event-stream")
    said.add(rest.value["detail"])
    socket = Ws(hot)
    await socket.connect()
    await socket.say(op="subscribe", topic="Sensor/+", where=conditions)
    await turns(20)
    said.add(json.loads(socket.sent[-1]["text"])["error"]["detail"])
    await socket.cut()
    peer = Peer(hot.server, 5)
    peer.send(Connect(5, "c"), Subscribe(7, (mqtt.Subscription(f"$query/Sensor/{conditions}"),)))
    await turns(20)
    suback = peer.heard()[-1]
    assert suback.reasons[0] >= 0x80
    said.add(suback.properties["reason_string"].partition("': ")[2])
    peer.lose()
    assert 1 == len(said), said
    assert 0 == len(hot.server.live_queries)


@pytest.mark.parametrize("form", ["$share/g/{}", "$queue/{}", "$stream/{}"])
async def test_a_query_is_neither_shared_nor_a_stream(hot, form):
    peer = Peer(hot.server, 5)
    peer.send(Connect(5, "c"), Subscribe(7, (mqtt.Subscription(form.format(f"Sensor/+?{HOT}")),)))
    await turns(20)
    assert "by itself" in peer.heard()[-1].properties["reason_string"]
    peer.lose()


@pytest.mark.parametrize(
    "text", ["$query/Sensor/temp=gt=80/#", "$query/Sensor/temp=gt=80", "/Sensor/+?temp=gt=80"]
)
async def test_a_reset_and_a_gap_name_the_query_as_it_was_subscribed(hot, text):
    """M1, M4: a client knows its filters by what it wrote, whatever they are called here."""
    asks = {"user_property": (("since", "deadbeef:1"), ("gaps", "true"))}
    peer = Peer(hot.server, 5)
    peer.send(
        Connect(5, "c", properties={"maximum_packet_size": 300}),
        Subscribe(7, (mqtt.Subscription(text),), asks),
    )
    await turns(20)
    await hot.write(put("3", temp=90, site="x" * 500))
    await hot.settle()
    marks = {item.topic: item for item in peer.heard() if isinstance(item, Publish)}
    for topic in ("$reset/0", "$gap/0"):
        assert text == json.loads(marks[topic].payload)["filter"]
    peer.send(Unsubscribe(8, (text,)))
    await turns(20)
    assert (0,) == peer.heard()[-1].reasons
    peer.lose()


@pytest.mark.parametrize("text", ["$query/Sensor", "$query/Sensor/#"])
async def test_a_table_without_conditions_is_told_how_to_write_them(hot, text):
    """M3: it is declared, so that is not what is wrong."""
    peer = Peer(hot.server, 5)
    peer.send(Connect(5, "c"), Subscribe(7, (mqtt.Subscription(text),)))
    await turns(20)
    said = peer.heard()[-1]
    assert "'$query/Sensor' lacks conditions" in said.properties["reason_string"]
    peer.send(Subscribe(8, (mqtt.Subscription("$query/Sensor/"),)))
    await turns(20)
    assert (0,) == next(item.reasons for item in peer.heard() if isinstance(item, Suback))
    peer.lose()


@pytest.mark.parametrize("start", ["last=3", "startTime=-1h", "previousCount=1"])
async def test_a_query_does_not_begin_where_its_set_is_unknown(hot, start):
    answer = await hot.rest.get(f"/Sensor/?{HOT}&{start}", accept="text/event-stream")
    assert (400, True) == (answer.status, "after a cursor" in answer.value["detail"])


@pytest.mark.parametrize("path", ["/Nothing/", "/Sensor/1", "/"])
async def test_a_query_is_about_a_table(hot, path):
    answer = await hot.rest.get(f"{path}?temp=gt=80", accept="text/event-stream")
    assert answer.status in {400, 404}


async def test_without_the_feature_it_is_refused():
    server = Server((SENSOR,), topics=TopicSettings())
    server.kernel.views.queries = type(server.kernel.views.queries).__mro__[1]()
    answer = await Asgi(server.make_edge(), server.store).get(
        f"/Sensor/?{HOT}", accept="text/event-stream"
    )
    assert "no live queries" in answer.value["detail"]
    await server.stop()


async def test_m3_a_flood_is_bounded_by_user_and_of_strangers_by_address(hot):
    """M3: beyond the bound it is BUSY, and what ends makes room."""
    kernel = hot.server.kernel
    kernel.views.queries = LiveQueries(kernel, max_per_user=2)
    ann, here = Caller("ann", ALL), Caller("anonymous", ALL, "mqtt", peer="10.0.0.1")
    there = replace(here, peer="10.0.0.2")
    for caller in (ann, here, there):
        readers = [(await watch(kernel, f"$query/Sensor/temp=gt={n}", caller))[0] for n in (1, 2)]
        with pytest.raises(Error, match="may have no more") as refused:
            await watch(kernel, "$query/Sensor/temp=gt=3", caller)
        assert Code.BUSY == refused.value.code
        kernel.close(readers[0])
        await watch(kernel, "$query/Sensor/temp=gt=3", caller)


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Dog/1", "Dog/1"),
        ("a?b", "a?b"),
        ("Dog/+?a=1", "$query/Dog/a=1"),
        ("a/b/#?c=x/y", "$query/a/b/c=x%2Fy"),
        ("$query/Dog/a=1", "$query/Dog/a=1"),
        ("$query/Hot/#", "$query/Hot"),
    ],
)
def test_a_filter_has_one_name(text, name):
    assert name == named_filter(text) == named_filter(named_filter(text))


def test_a_name_is_a_legal_filter_whatever_is_compared():
    assert TopicFilter(query_filter("Dog", "a==1+1#/\0x"))


# -- exactness -------------------------------------------------------------------------------------


async def test_m3_a_slow_reader_gets_the_same_steps_from_the_log(hot):
    """M3: its queue overflows, and it reads the log; conflation would hide a step."""
    kernel = hot.server.kernel
    reader, heard = await watch(
        kernel, f"$query/Sensor/{HOT}", Caller("ann", ALL), queue_events_max=2
    )
    await heard()
    for temp in (1, 90, 2, 91, 92, 3):
        await hot.write(put("1", temp=temp, site="A"))
    assert reader.fallbacks
    steps = [step for step, _ in await heard()]
    assert ["leave", "enter", "leave", "enter", "change", "leave"] == steps


async def test_m3_a_reader_of_several_queries_is_handed_no_more_than_it_takes(hot):
    """M3: the steps of one event may be more than there is room for; the rest follows."""
    kernel, ann = hot.server.kernel, Caller("ann", ALL)
    reader = Subscription(kernel.reader)
    for number in range(5):
        interest = SubscribedFilter(TopicFilter(f"$query/Sensor/temp=gt={number}"))
        kernel.watch(reader, interest, ann)
    for _ in range(9):
        reader.take(100)
        await turns(4)
    receipt = await kernel.write(put("7", temp=50), ann)
    await kernel.write(put("8", temp=50), ann)
    pairs = []
    while handed := reader.take(2):
        assert len(handed) <= 2
        pairs += handed
        if len(pairs) < 5:
            assert reader.position < receipt.event.seq
    assert 10 == len(pairs) == len({(it.topics.text, event.seq) for event, it in pairs})
    assert reader.position == kernel.committer.announced


async def test_m3_a_reader_of_a_trimmed_log_begins_anew_or_is_told_what_is_certain(hot):
    """M3: where the record before an event is unknown, what matches enters, and the rest leaves."""
    store, kernel = hot.server.store, hot.server.kernel
    reader, heard = await watch(kernel, f"$query/Sensor/{HOT}", Caller("ann", ALL))
    await heard()
    assert [] == await heard()
    kernel.suspend(reader)
    position = kernel.committer.announced
    store.trim(SENSOR, Keep(events=1), 0, 1_000)
    await hot.write(put("1", temp=1, site="A"))
    await hot.write(put("2", temp=99, site="A"))
    reader = Subscription(kernel.reader)
    interest = SubscribedFilter(TopicFilter(f"$query/Sensor/{HOT}"))
    kernel.watch(reader, interest, Caller("ann", ALL), position)
    found = []
    for _ in range(6):
        found += reader.take(1000)
        await turns(4)
    steps = [(step_of(event), event.topic) for event, _ in found]
    assert [("leave", "Sensor/1"), ("enter", "Sensor/2")] == steps


# -- rights ----------------------------------------------------------------------------------------


async def test_m3_what_becomes_forbidden_leaves_and_only_its_id_is_told():
    """M3, M9."""
    server = Rightful()
    await server.write("Dog/1", {"owner": "ann", "name": "Rex"})
    ann = person("ann", grants=Grants(read=True))
    _, heard = await watch(server.kernel, "$query/Dog/name==Rex", ann)
    assert [("snapshot", "Dog/1"), ("current", "")] == await heard()
    await server.write("Dog/1", {"owner": "ben", "name": "Rex"})
    await server.write("Dog/2", {"owner": "ben", "name": "Rex"})
    assert [("leave", "Dog/1")] == await heard()
    await server.write("Dog/1", {"owner": "ann", "name": "Rex"})
    assert [("enter", "Dog/1")] == await heard()


async def test_m3_changed_rights_begin_a_query_anew():
    """M3, M9: no event says what a new rule hides."""
    server = Rightful()
    await server.write("Dog/1", {"owner": "ann", "name": "Rex"})
    vet = person("vi", "vet", grants=Grants(read=True))
    reader, heard = await watch(server.kernel, "$query/Dog/name==Rex", vet)
    await heard()
    await server.rule("no", filter="Dog/1", actions=["read"], effect="deny")
    stay(server.kernel, reader)
    assert [("reset", ""), ("current", "")] == await heard()


async def test_m3_a_stream_of_a_query_and_a_filter_begins_anew_with_both():
    """M3, C11: after a RESET its reader holds nothing, also nothing of the other filter."""
    server = Rightful()
    await server.write("Dog/1", {"owner": "ann", "name": "Rex"})
    await server.write("Cat/1", {"name": "Tom"})
    vet, reader = person("vi", "vet", grants=Grants(read=True)), Subscription(server.reader)
    topics = ("$query/Dog/name==Rex", "Cat/#")
    interests = [SubscribedFilter(TopicFilter(text), marks=text == "Cat/#") for text in topics]
    await begin(server.kernel, reader, interests, StartPosition(), vet)
    heard = [kind for kind, _ in await handed(reader)]
    assert ["snapshot", "snapshot", "current"] == heard
    await server.rule("no", filter="Dog/1", actions=["read"], effect="deny")
    stay(server.kernel, reader)
    assert [("reset", ""), ("snapshot", "Cat/1"), ("current", "")] == await handed(reader)


@pytest.mark.parametrize("asked", ["sort(name)&limit(3)", "select(id,name)"])
async def test_m3_rights_of_one_reader_are_not_those_of_others_of_its_view(asked):
    """M3, M9: whose query began first, and what becomes of its rights, is nothing to the others."""
    server = Rightful()
    await server.write("Cat/1", {"name": "Tom"})
    readers = []
    for who in (person("ann", grants=Grants(read=True)), ROOT):
        readers.append(await watch(server.kernel, f"$query/Cat/{asked}", who))
        assert [("snapshot", "Cat/1"), ("current", "")] == await readers[-1][1]()
    where = {"actions": ["read"], "users": ["ann"], "where": "name == 'Bo'"}
    await server.rule("few", filter="Cat/#", **where)
    for reader, _ in readers:
        stay(server.kernel, reader)
    (_, ann), (_, root) = readers
    assert [("reset", ""), ("current", "")] == await ann()
    await server.write("Cat/1", {"name": "Max"})
    assert [] == await ann()
    assert [("change", "Cat/1")] == await root()


@pytest.mark.parametrize("conditions", ["weight=gt=3", "phone==1"])
async def test_m3_what_one_may_not_see_is_not_compared(conditions):
    """M3, L13: the sentence is that of REST."""
    server = Rightful()
    who = person("ann") if "weight" in conditions else person("vi", "vet")
    with pytest.raises(Error, match="that you may compare"):
        await watch(server.kernel, f"$query/Dog/{conditions}", who)


async def test_m3_a_cursor_of_a_caller_with_limited_rights_begins_anew():
    """M3, M9: nobody knows what it could read when it got the cursor."""
    server = Rightful()
    await server.write("Dog/1", {"owner": "ann", "name": "Rex"})
    reader = Subscription(server.reader)
    interest = SubscribedFilter(TopicFilter("$query/Dog/name==Rex"))
    server.kernel.watch(reader, interest, person("ann"), server.kernel.head)
    found = []
    for _ in range(6):
        found += reader.take(1000)
        await turns(4)
    assert ["reset", "snapshot", "current"] == [event.kind for event, _ in found]
