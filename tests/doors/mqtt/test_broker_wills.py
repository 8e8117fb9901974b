"""Wills: published when a client is lost, in time, once, and over the server (D31, D45)."""

from dataclasses import replace

import pytest

from mqtt_server import Connect, Disconnect, Puback, Publish, payloads, topics
from rowcast.core.errors import Code, Error
from rowcast.core.tables import Invalid
from rowcast.mqtt.packets import Will
from rowcast.mqtt.reasons import Reason

LASTING = {"session_expiry_interval": 1000}


async def leaving(world, delay=0, properties=LASTING, client_id="w", **options):
    """Return a connection that has left a will."""
    will = Will("w", b"gone", 1, False, {"will_delay_interval": delay})
    peer = world.peer()
    options = {"clean_start": False, "properties": properties, "will": will, **options}
    await peer.connect(client_id, **options)
    return peer


@pytest.fixture
def heard(world):
    """Return a function that tells what a durable subscriber of the will was sent since."""
    peers = []

    async def subscribe():
        peer = world.peer()
        await peer.connect("s", clean_start=False, properties=LASTING)
        await peer.subscribe("w", qos=1)
        peers.append(peer)

    async def hear(where=world):
        if where is not world and len(peers) == 1:
            peers.append(where.peer())
            await peers[-1].connect("s", clean_start=False, properties=LASTING)
            packets = peers[-1].later + await peers[-1].hear()
        else:
            packets = await peers[-1].hear()
        peers[-1].send(*(Puback(item.packet_id) for item in packets if isinstance(item, Publish)))
        await where.pass_time(1)  # place and QoS 1 flights are on disk
        return payloads(packets)

    hear.subscribe = subscribe
    return hear


@pytest.mark.parametrize(("delay", "early", "late"), [(0, [b"gone"], []), (60, [], [b"gone"])])
async def test_the_delay(world, heard, delay, early, late):
    """D31, MQTT-3.1.2-8; MQTT 5, 3.1.3.2.2: at once, or when the delay is over; once."""
    await heard.subscribe()
    (await leaving(world, delay)).lose()
    assert early == await heard()
    await world.pass_time(50)
    assert [] == await heard()
    await world.pass_time(10)
    assert late == await heard()
    await world.pass_time(5000)
    assert [] == await heard()


@pytest.mark.parametrize(
    "topic",
    [
        "$SYS/users/eve",
        "$delayed/60/$SYS/users/eve",
        "$SYS/sessions/c",
        "$CONTROL/x/v1",
        "$delayed/x",
    ],
)
@pytest.mark.parametrize("version", [4, 5])
async def test_a_will_tells_the_server_nothing(world, topic, version):
    """L10: it would be kept as it came, and a user's row has a password."""
    peer = world.peer(version)
    will = Will(topic, b'{"password": "secret"}', 1, True)
    assert {4: Reason.NOT_AUTHORIZED, 5: Reason.TOPIC_NAME_INVALID}[version] == (
        await peer.connect("w", will=will)
    ).reason
    await world.pass_time(1)
    assert not [fact for fact in world.store.states("") if b"secret" in fact[2]]
    taken = await world.peer(version).connect("w", will=Will("w", b"", 0, False))
    assert Reason.SUCCESS is taken.reason


async def test_a_return_in_time_cancels_it(world, heard):
    """D31, MQTT-3.1.3-9."""
    await heard.subscribe()
    (await leaving(world, 60)).lose()
    await world.pass_time(59)
    again = world.peer()
    await again.connect("w", clean_start=False, properties=LASTING)
    await world.pass_time(500)
    again.lose()
    await world.pass_time(500)
    assert [] == await heard()


async def test_a_clean_start_ends_the_session_and_publishes_it(world, heard):
    """MQTT 5, 3.1.3.2.2: the session ends, so its will waits no longer."""
    await heard.subscribe()
    (await leaving(world, 60)).lose()
    await world.peer().connect("w", clean_start=True)
    assert [b"gone"] == await heard()


async def test_the_end_of_the_session_publishes_it(world, heard):
    """MQTT 5, 3.1.3.2.2: whichever happens first."""
    await heard.subscribe()
    (await leaving(world, 600, {"session_expiry_interval": 100})).lose()
    await world.pass_time(99)
    assert [] == await heard()
    await world.pass_time(2)
    assert [b"gone"] == await heard()


@pytest.mark.parametrize(("reason", "told"), [(0x00, []), (0x04, [b"gone"])])
async def test_goodbye(world, heard, reason, told):
    """D31, MQTT-3.14.4-3, MQTT-3.1.2-10: a normal end forgets it, on disk too; 0x04 asks for it."""
    await heard.subscribe()
    peer = await leaving(world)
    peer.send(Disconnect(reason))
    await peer.hear()
    assert told == await heard()
    assert [] == await heard(await world.killed(50))
    assert [] == world.store.states("will/")


@pytest.mark.parametrize(("resume", "told"), [(True, []), (False, [b"gone"])])
async def test_take_over(world, heard, resume, told):
    """D29; MQTT 5, 3.1.4.3: with a delay it waits for a session that goes on, else it goes out."""
    await heard.subscribe()
    await leaving(world, 60)
    again = world.peer()
    await again.connect("w", clean_start=not resume, properties=LASTING)
    await world.pass_time(500)
    assert told == await heard()


async def test_take_over_without_delay_publishes_it(world, heard):
    """D29: the connection is closed without a goodbye."""
    await heard.subscribe()
    await leaving(world)
    await world.peer().connect("w", clean_start=False, properties=LASTING)
    assert [b"gone"] == await heard()


@pytest.mark.parametrize("lasting", [False, True])
async def test_a_killed_server_publishes_it_when_it_is_back(world, heard, lasting):
    """D31: survives restart, also the will of a clean session; and once."""
    await heard.subscribe()
    await leaving(world, 0, LASTING if lasting else None, clean_start=not lasting)
    other = await world.killed()
    assert [b"gone"] == await heard(other)
    last = await other.killed()
    peer = last.peer()
    await peer.connect("s", clean_start=False, properties=LASTING)
    assert [] == [packet for packet in peer.later if isinstance(packet, Publish)]
    assert [] == last.store.states("will/")


async def test_a_delay_goes_on_over_a_restart(world, heard):
    """D31: what was left of the delay is left of it; a return cancels it."""
    await heard.subscribe()
    (await leaving(world, 60)).lose()
    await world.pass_time(20)
    other = await world.killed(20)
    assert [] == await heard(other)
    await other.pass_time(30)
    assert [b"gone"] == await heard(other)


async def test_properties_of_a_will(world):
    """D45, MQTT-3.3.2-15 to -18: they travel with it, over a restart too."""
    properties = {
        "payload_format_indicator": 1,
        "content_type": "text/plain",
        "response_topic": "answer",
        "correlation_data": b"\0\1",
        "user_property": (("a", "1"), ("a", "2")),
        "message_expiry_interval": 100,
    }
    peer = world.peer()
    await peer.ask(Connect(5, "w", will=Will("w", b"gone", 0, True, properties)))
    other = await world.killed()
    reader = other.peer()
    await reader.connect("s")
    await reader.subscribe("w")
    told = [p for p in [*reader.later, *await reader.hear()] if isinstance(p, Publish)]
    assert (["w"], properties) == (topics(told), told[0].properties)


REFUSED = {
    "no value": (Will("Strict/1", b"no object", 1, True), 0x99),
    "a wrong value": (Will("Dog/1", b'{"age":"old"}', 1, True), 0x99),
    "a wrong message": (Will("Dog/1", b'{"age":"old"}', 0, False), 0x99),
    "a wrong value later": (Will("$delayed/9/Dog/1", b'{"age":"old"}', 1, True), 0x99),
    "a table": (Will("Dog", b"{}", 1, True), 0x90),
    "a hidden table": (Will("Secret/1", b"{}", 1, True), 0x90),
    "rows": (Will("mqtt_sys_metrics/x", b"{}", 1, True), 0x90),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("version", [4, 5])
async def test_a_will_that_would_be_refused_is_refused_at_connect(world, version, name):
    """MQTT 5, 3.2.2.2: when it is due its client cannot be told. 3.1.1 has one code for it."""
    will, reason = REFUSED[name]
    peer = world.peer(version)
    connack = await peer.connect("w", will=will)
    assert {4: 0x87, 5: reason}[version] == connack.reason
    if version == 5:
        assert "the will would be refused: " in connack.properties["reason_string"]
    await world.turn()
    assert (True, []) == (peer.closed, world.store.states("will/"))
    assert "w" not in {session.client_id for session in world.broker.sessions}


@pytest.mark.parametrize(("version", "reason"), [(3, 0x87), (4, 0x87), (5, 0x87)])
async def test_a_will_where_its_client_may_not_write_is_refused_at_connect(world, version, reason):
    def check(topic, caller, kind=""):
        raise Error(Code.DENIED, f"{caller.user} may not write {topic!r}")

    world.kernel.rights.check_write = check
    assert reason == (await world.peer(version).connect("w", will=Will("a", b"x"))).reason
    assert 0 == (await world.peer(version).connect("other")).reason


@pytest.mark.parametrize(
    "will",
    [
        Will("Dog/1", b'{"age":4}', 1, True),
        Will("Dog/1", b"", 1, True),  # a deletion
        Will("Open/1", b"\xff", 1, True),
        Will("loose", b"{", 1, True),
        Will("$delayed/9/Dog/1", b'{"age":4}', 1, True),
        Will("Dog/1", b'{"age":4}', 1, True, {"user_property": (("rowcast-producer", "p:1:1"),)}),
    ],
)
async def test_any_other_is_accepted_and_writes_nothing_yet(world, will):
    peer = world.peer()
    assert 0 == (await peer.connect("w", will=will)).reason
    assert 0 == world.committer.announced
    peer.lose()
    await world.turn()
    assert 0 == world.broker.refusals


async def test_a_will_whose_table_takes_any_value_is_accepted(world):
    """It becomes a dead letter, or is dropped, as a PUBLISH would."""
    shape = world.registry.shapes["Dog"]
    shape.table = replace(shape.table, invalid=Invalid.DROP)
    world.registry.forget_routes()
    assert 0 == (await world.peer().connect("w", will=Will("Dog/1", b"{", 1, True))).reason


async def test_a_refused_will_is_not_published(world):
    """The kernel judges it as any write; the refusal is counted, and nobody tries again."""
    peer = world.peer()
    await peer.ask(Connect(5, "w", will=Will("Strict/1", b'{"name":"x"}', 1, True)))
    world.kernel.admission.payload_bytes_max = 1
    peer.lose()
    await world.turn()
    assert (1, 1) == (world.broker.wills.sent, world.broker.refusals)
    assert [] == world.store.states("will/")


@pytest.mark.parametrize(
    ("code", "is_published"), [(Code.DENIED, False), (Code.UNAUTHENTICATED, True)]
)
async def test_a_will_is_not_published_whose_user_is_disabled_meanwhile(
    world, heard, code, is_published
):
    """L8: nobody is connected who could be told; a changed password takes back nothing."""
    await heard.subscribe()
    (await leaving(world, 60)).lose()

    def judge(caller):
        if caller.client_id == "w":
            raise Error(code, "w is disabled")
        return caller

    world.kernel.reauthorization.judges.append(judge)
    world.kernel.reauthorization.changed()
    await world.pass_time(60)
    assert ([b"gone"] if is_published else []) == await heard()
    assert [] == world.store.states("will/")
    assert (0 if is_published else 1) == world.broker.refusals


async def test_stopping_publishes_the_wills_that_wait_for_nothing(world, heard):
    """D31, MQTT-3.1.2-8: the server ends the connection, which the client did not wish."""
    await heard.subscribe()
    await leaving(world)
    await leaving(world, 60, client_id="later")
    for peer in world.peers:
        peer.client.disconnect(0x8B)
        peer.lose()
    await world.broker.stop()
    await world.turn()
    assert ["will/later"] == [owner for owner, _, _ in world.store.states("will/")]
