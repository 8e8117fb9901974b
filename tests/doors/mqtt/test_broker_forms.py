"""The form of a message: media types, properties, expiry; made once for all who share it."""

import json
from itertools import product

import cbor2
import msgpack
import pytest

from mqtt_server import OTHER, MqttServer, payloads, user, users
from rowcast.codecs import CBOR, JSON, MSGPACK, RAW
from rowcast.core.events import (
    DELETE,
    EXPIRY_SECONDS_MAX,
    MESSAGE,
    PATCH,
    PUT,
    SNAPSHOT,
    Event,
)
from rowcast.core.tables import Attribute, Role, Table, Type
from rowcast.doors.mqtt.delivery.delivery_format import DeliveryFormats
from rowcast.rows.compiled_table import CompiledTable
from rowcast.rows.transcoder import Transcoder

ACCEPTS = {JSON: json.loads, CBOR: cbor2.loads, MSGPACK: msgpack.unpackb}
RECORD = {"name": "Rex", "age": 3}


@pytest.mark.parametrize("sent", ACCEPTS)
@pytest.mark.parametrize("wanted", ACCEPTS)
async def test_each_format_in_and_out(world, sent, wanted):
    """D47, X19: one publishes, others choose, by `accept` on SUBSCRIBE."""
    peer = await world.subscribed("Dog/#", properties=users(("accept", wanted)))
    body = {JSON: json.dumps(RECORD).encode(), CBOR: cbor2.dumps(RECORD),
            MSGPACK: msgpack.packb(RECORD)}[sent]  # fmt: skip
    (await world.connected()).publish("Dog/1", body, retain=True, content_type=sent)
    (message,) = await peer.hear()
    assert (wanted, RECORD) == (
        message.properties["content_type"],
        ACCEPTS[wanted](message.payload),
    )


async def test_accept_on_connect(world):
    """D47: for all filters, unless a SUBSCRIBE says otherwise."""
    peer = await world.connected(properties=users(("accept", CBOR)))
    await peer.subscribe("Dog/1")
    await peer.subscribe("Dog/2", properties=users(("accept", JSON)))
    await peer.subscribe("Dog/3", properties=users(("accept", "*/*")))
    for number in (1, 2, 3):
        await world.put(f"Dog/{number}", json.dumps(RECORD).encode(), JSON)
    types = [message.properties["content_type"] for message in await peer.hear()]
    assert [CBOR, JSON, JSON] == types


async def test_before_five_a_declared_table_speaks_json(world):
    """X19, D47: MQTT 3 has no way to ask for a format."""
    peer = await world.subscribed("Dog/#", version=4)
    await world.put("Dog/1", cbor2.dumps(RECORD), CBOR)
    assert [RECORD] == [json.loads(payload) for payload in payloads(await peer.hear())]


@pytest.mark.parametrize("version", (3, 4, 5))
async def test_a_setting_for_those_who_cannot_ask(version):
    """X19: before MQTT 5 there is no `accept`; a client of 5 that asks gets what it asks for."""
    world = MqttServer(media_type=CBOR)
    peer = await world.subscribed("Dog/#", version=version)
    asking = await world.subscribed(
        "Dog/#", client_id="a", connect={"properties": users(("accept", JSON))}
    )
    await world.put("Dog/1", json.dumps(RECORD).encode(), JSON)
    assert [RECORD] == [cbor2.loads(payload) for payload in payloads(await peer.hear())]
    assert [RECORD] == [json.loads(payload) for payload in payloads(await asking.hear())]


async def test_an_open_topic_is_converted_when_asked(world):
    """D47: a value of an undeclared topic has every form; plain bytes have only their own."""
    peer = await world.subscribed("any/#", properties=users(("accept", MSGPACK)))
    await world.say("any/1", b'{"n":1}', JSON)
    await world.say("any/2", b"\x00\x01", "application/octet-stream")
    first, second = await peer.hear()
    assert ({"n": 1}, MSGPACK) == (msgpack.unpackb(first.payload), first.properties["content_type"])
    expected = (b"\x00\x01", "application/octet-stream")
    assert expected == (second.payload, second.properties["content_type"])


# -- properties ----------------------------------------------------------------------------------

PROPERTIES = {
    "payload_format_indicator": 1,
    "response_topic": "answers/1",
    "correlation_data": b"\x00\x01",
    "content_type": "text/plain",
    "user_property": (("a", "1"), ("a", "2"), ("b", "")),
}


@pytest.mark.parametrize("qos", [0, 1])
async def test_properties_pass_unchanged(world, qos):
    """D42, MQTT-3.3.2-4, -15, -16, -17, -18, -20: user properties in their order."""
    peer = await world.subscribed("open", qos=1)
    (await world.connected()).publish("open", b"x", qos=qos, **PROPERTIES)
    (message,) = await peer.hear()
    assert (qos, PROPERTIES) == (message.qos, message.properties)


async def test_properties_are_kept_with_the_record(world):
    """D40, D42: what is retained comes back with them."""
    sender = await world.connected()
    sender.publish("open", b"x", qos=1, retain=True, **PROPERTIES)
    await sender.hear()
    peer = await world.connected("late")
    await peer.subscribe("open")
    assert [PROPERTIES] == [message.properties for message in peer.later]


async def test_what_the_server_notes_of_an_event_stays_here(world):
    """B11, D42: events of an atomic batch are sent with the properties that came, and no others."""
    peer = await world.subscribed("open/#", qos=1)
    batch = [Event(f"open/{n}", PUT, b"x", None, 1, True) for n in (1, 2)]
    batch[0].properties = {"response_topic": "there"}
    await world.kernel.write_all(batch, OTHER, atomic=True)
    assert [{"response_topic": "there"}, None] == [item.properties for item in await peer.hear()]


async def test_before_five_properties_are_left_out(world):
    peer = await world.subscribed("open", version=4)
    (await world.connected()).publish("open", b"x", **PROPERTIES)
    assert [(b"x", None)] == [(item.payload, item.properties) for item in await peer.hear()]


async def test_a_declared_table_tells_cursor_and_operation(world):
    """M1, X16: always `seq`; `op` where the packet does not say it."""
    peer = await world.subscribed("Dog/#", retain_as_published=True)
    sender = await world.connected()
    sender.publish("Dog/1", b"{}", qos=1, retain=True)
    sender.publish("Dog/1", b"", qos=1, retain=True, packet_id=2)
    put, delete = await peer.hear()
    assert (world.cursor(1), None) == (user(put, "seq"), user(put, "op"))
    assert (world.cursor(2), "delete", b"", True) == (
        user(delete, "seq"),
        user(delete, "op"),
        delete.payload,
        delete.retain,
    )


async def test_an_open_topic_tells_it_when_asked(world):
    """M1: `seq` on CONNECT or SUBSCRIBE asks."""
    plain = await world.subscribed("open", client_id="plain")
    asking = await world.subscribed("open", properties=users(("seq", "")))
    sender = await world.connected()
    sender.publish("open", b"x", retain=True, **users(("a", "1")))
    (first,), (second,) = await plain.hear(), await asking.hear()
    assert (("a", "1"),) == first.properties["user_property"]
    assert (("a", "1"), ("seq", world.cursor(1))) == second.properties["user_property"]


async def test_format_indicator_of_other_bytes(world):
    """MQTT 5, 3.3.2.3.2: text that was made CBOR is text no more."""
    peer = await world.subscribed("open", properties=users(("accept", CBOR)))
    (await world.connected()).publish("open", b"{}", content_type=JSON, payload_format_indicator=1)
    (message,) = await peer.hear()
    assert {"content_type": CBOR} == message.properties


# -- expiry --------------------------------------------------------------------------------------


@pytest.mark.parametrize("qos", [0, 1])
async def test_expiry_is_counted_down(world, qos):
    """D42, MQTT-3.3.2-6: what waited for a reader tells what is left."""
    peer = await world.subscribed("open", qos=qos)
    peer.client.pause_writing()
    (await world.connected()).publish("open", b"x", qos=qos, message_expiry_interval=30)
    await world.pass_time(12)
    peer.client.resume_writing()
    assert [18] == [item.properties["message_expiry_interval"] for item in await peer.hear()]


@pytest.mark.parametrize(("waited", "left"), [(0.004, 30), (0.999, 30), (1.001, 29), (29.5, 1)])
async def test_only_whole_seconds_of_waiting_count(world, waited, left):
    """MQTT-3.3.2-6: what goes on at once tells what it came with."""
    peer = await world.subscribed("open")
    peer.client.pause_writing()
    (await world.connected()).publish("open", b"x", message_expiry_interval=30)
    await world.pass_time(waited)
    peer.client.resume_writing()
    assert [left] == [item.properties["message_expiry_interval"] for item in await peer.hear()]


async def test_a_record_that_expires_in_the_year_9999_is_sent():
    """@expiresAt may be later than MQTT can say: it is told the longest expiry that there is."""
    until = Attribute("until", Type.DATE, role=Role.EXPIRES_AT)
    table = Table("Ticket", "Ticket", (Attribute("id", Type.ID, primary_key=True), until))
    world = MqttServer(tables=(table,))
    peer = await world.subscribed("Ticket/#")
    await world.put("Ticket/1", b'{"until": "9999-12-31T00:00:00Z"}', JSON)
    (message,) = await peer.hear()
    assert EXPIRY_SECONDS_MAX == message.properties["message_expiry_interval"]
    later = await world.connected("later")
    await later.subscribe("Ticket/#")
    assert ["Ticket/1"] == [item.topic for item in later.later]


@pytest.mark.parametrize("version", [4, 5])
async def test_what_has_expired_is_not_sent(world, version):
    """D42, MQTT-3.3.2-5; the interval 0 is over at once."""
    peer = await world.subscribed("open", version=version)
    peer.client.pause_writing()
    sender = await world.connected()
    for seconds in (0, 10, 30):
        sender.publish("open", b"%d" % seconds, message_expiry_interval=seconds)
    await world.pass_time(10)
    peer.client.resume_writing()
    assert ([b"30"], 2) == (payloads(await peer.hear()), world.broker.deliveries.expired)


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("identified", [False, True])
@pytest.mark.parametrize("topic", ["open/1", "Dog/1"])
@pytest.mark.parametrize(("waited", "left"), [(0.004, {30}), (12, {18}), (30, set())])
async def test_the_interval_of_a_deletion_is_counted_down(
    world, qos, identified, topic, waited, left
):
    """MQTT-3.3.2-6; after its time it comes without: who missed it would keep the record."""
    peer = await world.connected()
    await peer.subscribe(
        "#", qos=qos, properties={"subscription_identifier": 7} if identified else None
    )
    sender = await world.connected("sender")
    sender.publish(topic, b"{}", qos=1, retain=True)
    await sender.hear()
    await peer.hear()
    peer.client.pause_writing()
    sender.publish(
        topic, b"", qos=1, retain=True, packet_id=2, message_expiry_interval=30, response_topic="r"
    )
    await sender.hear()
    await world.pass_time(waited)
    peer.client.resume_writing()
    (message,) = await peer.hear()
    assert (topic, b"", "r") == (
        message.topic, message.payload, message.properties["response_topic"]
    )  # fmt: skip
    found = message.properties.get("message_expiry_interval")
    assert left == {found} - {None}


async def test_readers_at_different_times_are_told_what_is_left_for_each(world):
    """A frame is shared by all who get it, unless it counts down."""
    fast, slow = [await world.subscribed("open", client_id=name) for name in ("fast", "slow")]
    slow.client.pause_writing()
    (await world.connected()).publish("open", b"", retain=True, message_expiry_interval=30)
    heard = await fast.hear()
    await world.pass_time(12)
    slow.client.resume_writing()
    heard += await slow.hear()
    assert [30, 18] == [item.properties["message_expiry_interval"] for item in heard]


async def test_an_expired_record_is_not_current(world):
    """D42: a retained message ends as well."""
    sender = await world.connected()
    sender.publish("open/1", b"x", qos=1, retain=True, message_expiry_interval=10)
    sender.publish("open/2", b"x", qos=1, retain=True, message_expiry_interval=60, packet_id=2)
    await sender.hear()
    await world.pass_time(20)
    peer = await world.connected("late")
    await peer.subscribe("open/#")
    left = [(item.topic, item.properties["message_expiry_interval"]) for item in peer.later]
    assert [("open/2", 40)] == left


# -- once ----------------------------------------------------------------------------------------


async def crowd(world, count, qos, **options):
    """Return many subscribers, each of its own name."""
    return [
        await world.subscribed("Dog/#", client_id=f"s{number}", qos=qos, **options)
        for number in range(count)
    ]


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("version", [4, 5])
async def test_a_frame_is_made_once_for_all(world, monkeypatch, version, qos):
    """D64, K10: 1,000 subscribers, one frame for each version, form and QoS."""
    made, encoded = [], []
    monkeypatch.setattr(world, "turn", world.short_turn)
    watch(monkeypatch, world.broker.deliveries.forms, "_make", made)
    watch(monkeypatch, world.kernel.transcoder, "payload", encoded)
    peers = await crowd(world, 1_000, qos, version=version)
    await world.put("Dog/1", json.dumps(RECORD).encode(), JSON)
    for peer in peers:
        peer.client.flush()
    heard = [[(item.qos, item.payload) for item in peer.heard()] for peer in peers]
    assert [[(qos, json.dumps(RECORD).encode())]] * 1_000 == heard
    assert (1, 1) == (len(made), len(encoded))


@pytest.mark.interpreted
@pytest.mark.parametrize(
    "options",
    [{"properties": {"subscription_identifier": 1}}, {}],
    ids=["one identifier", "expiry"],
)
async def test_what_few_share_is_made_once_too(world, monkeypatch, options):
    """D64: clients that use the same identifier, or hear of the same expiry."""
    made = []
    watch(monkeypatch, world.broker.deliveries.forms, "_make", made)
    peers = await crowd(world, 20, 1, **options)
    await world.put("Dog/1", b"{}", JSON, expires_at=0.0 if options else world.time + 60)
    for peer in peers:
        assert 1 == len(await peer.hear())
    assert 1 == len(made)


def watch(monkeypatch, owner, name, calls):
    """Note the calls of a function."""
    original = getattr(owner, name)

    def watched(*arguments, **options):
        calls.append(arguments)
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, watched)


@pytest.mark.parametrize("qos", [0, 1])
async def test_what_cannot_be_written_concerns_nobody_else(world, caplog, qos):
    """D8: an event that has no MQTT form is left out; its readers stay."""
    peer = await world.subscribed("open/#", qos=qos)
    await world.say("open/1", b"x", "text/plain\0")
    await world.say("open/2", b"y")
    assert ([b"y"], False) == (payloads(await peer.hear()), peer.closed)
    assert "no MQTT packet can be made" in caplog.text


async def test_long_topics_are_not_remembered(world):
    peer = await world.subscribed("#", version=4)
    topic = "x" * 300
    await world.say(topic, b"1")
    await world.say("short", b"2")
    assert [b"1", b"2"] == payloads(await peer.hear())
    assert ["short"] == list(world.broker.deliveries.forms._topics)


async def test_remembered_topics_are_bounded(world):
    world.broker.deliveries.forms = DeliveryFormats(
        world.kernel.transcoder, world.kernel.reader.epoch, topics_max=2
    )
    await world.subscribed("#", version=4)
    for name in "abc":
        await world.say(name, b"")
    await world.turn()
    assert ["c"] == list(world.broker.deliveries.forms._topics)


async def test_a_long_message(world):
    """MQTT 5, 2.1.4: a Remaining Length of more than one byte, on the short way too."""
    peers = [await world.subscribed("a", client_id=str(v), version=v) for v in (4, 5)]
    await world.say("a", b"x" * 20_000)
    assert [20_000, 20_000] == [len(payloads(await peer.hear())[0]) for peer in peers]


SHOWN = Table("Dog", "Dog", (Attribute("name", Type.STRING),))
SECRET = Table("Key", "Key", (Attribute("name", Type.STRING, hidden=True),))
ELSEWHERE = Table("Web", "Web", (Attribute("name", Type.STRING),), hidden_from=frozenset({"mqtt"}))


@pytest.mark.parametrize("version", (3, 4, 5))
@pytest.mark.parametrize("wanted", (None, JSON, CBOR))
@pytest.mark.parametrize("table", (SHOWN, SECRET, ELSEWHERE), ids=lambda table: table.name)
@pytest.mark.parametrize("tells", (False, True), ids=["brief", "meta"])
async def test_a_record_is_framed_alike_the_quick_way_and_the_long_way(
    world, version, wanted, table, tells
):
    """D64, X19: a frame with nothing of its own is the shared one, whatever the event is."""
    shapes = {item.name: CompiledTable(item) for item in (SHOWN, SECRET, ELSEWHERE)}
    forms = DeliveryFormats(Transcoder(shapes), world.kernel.reader.epoch)
    form = forms.form(version, wanted, tells_seq=False, tells_meta=tells)
    kinds = (PUT, PATCH, DELETE, MESSAGE, SNAPSHOT)
    given = (None, {"by": "mqtt:ann"}, {"user_property": [["a", "b"]], "by": "mqtt:ann"})
    bodies = {JSON: json.dumps, CBOR: cbor2.dumps, RAW: repr}
    for kind, said, seq, properties, qos in product(kinds, bodies, (0, 2**63), given, (0, 1)):
        body = bodies[said]({"name": "R" * 90})
        payload = b"" if kind == DELETE else body if isinstance(body, bytes) else body.encode()
        event = Event(f"{table.path}/1", kind, payload, said, qos, True, table)
        event.seq, event.properties = seq, properties
        again = event.changed()
        forms.frame(event, form, qos, retain=True)  # so that the topic is known
        event = again.changed()
        quick = forms.frame(event, form, qos, retain=True)
        long = forms.own_parts(again, form, qos, retain=True, identifiers=(), left_seconds=-1)
        assert quick == (long if qos or not long[0] else long[0] + long[1])
        assert forms.size(event, form) == forms.size(again, form) or not long[0]
