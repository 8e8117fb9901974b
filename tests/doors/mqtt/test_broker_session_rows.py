"""$SYS/sessions: what every client and its session are, readable (D10, D20, M11)."""

import pytest

from mqtt_server import (
    OTHER,
    Disconnect,
    MqttServer,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscription,
)
from rowcast.core.callers import ALL, NONE, Caller, Grants
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PUT, Event
from rowcast.core.query_text import parse_query
from rowcast.core.tables import Table
from rowcast.mqtt.packets import Will
from rowcast.mqtt.reasons import Reason

PATH = "$SYS/sessions"
ANY = Table(PATH, None)

D10 = {
    "conn": ("peer", "door", "transport"),
    "reader": ("counters",),
    "clientID": ("client_id",),
    "username": ("user",),
    "version": ("version",),
    "cleanStart": ("clean_start",),
    "keepAlive": ("keep_alive_seconds",),
    "properties": ("properties",),
    "connected": ("connected", "connected_at"),
    "closed": ("connected", "expires_at"),
    "outbound": ("queued", "position", "lag"),
    "inFlightOut": ("in_flight_out", "in_flight_out_count"),
    "inFlightIn": ("in_flight_in", "in_flight_in_count"),
    "nextPacketID": ("next_packet_id",),
    "will, willProps, willDelay": ("will",),
    "lastActivity": ("last_activity",),
    "session": ("created", "subscriptions", "subscription_count"),
}
"""What a session must show, and where it is read."""


async def read(world, name="", query="", caller=OTHER):
    """Return a row, or the list of them."""
    resource = world.kernel.resource(f"{PATH}/{name}", caller)
    return await resource.get(parse_query(query, ANY) if query else None)


async def end(world, name, caller=OTHER):
    """Delete a row."""
    await world.kernel.write(Event(f"{PATH}/{name}", DELETE, b"", None, 1, True), caller)


@pytest.fixture
async def rich(world):
    """A client with something of everything; its connection."""
    will = Will("gone", b"the payload", 1, True, {"will_delay_interval": 7})
    limits = {"session_expiry_interval": 60, "receive_maximum": 9, "maximum_packet_size": 5000}
    peer = await world.connected(
        "rich", keep_alive_seconds=30, will=will, clean_start=False, properties=limits
    )
    await peer.subscribe(Subscription("a/+", 2, no_local=True))
    await world.kernel.write(Event("a/1", MESSAGE, b"x", None, 2, False), OTHER)
    peer.publish("b", b"x", qos=2, packet_id=5)
    await peer.hear()
    return peer


@pytest.mark.parametrize("member", D10)
async def test_d10_every_member_is_there(world, rich, member):
    row = await read(world, "rich")
    assert [] == [name for name in D10[member] if row[name] is None and name != "expires_at"]


async def test_d10_the_row_is_true(world, rich):
    world.time += 2
    row = await read(world, "rich")
    assert {
        "user": "anonymous",
        "peer": "127.0.0.1",
        "door": "mqtt",
        "version": 5,
        "clean_start": False,
        "keep_alive_seconds": 30,
        "connected": True,
        "connected_at": "2023-11-14T22:13:20.000Z",
        "created": "2023-11-14T22:13:20.000Z",
        "expires_at": None,
        "properties": {
            "session_expiry_interval": 60,
            "receive_maximum": 9,
            "maximum_packet_size": 5000,
            "topic_alias_maximum": 0,
        },
        "in_flight_in": [5],
        "next_packet_id": 2,
        "queued": 0,
        "lag": 0,
    }.items() <= row.items()
    counters = {"received": 3, "sent": 1, "refused": 0, "dropped": 0, "expired": 0, "gaps": {}}
    assert counters == row["counters"]


async def test_d10_subscriptions_have_their_options(world, rich):
    assert [
        {
            "filter": "a/+",
            "qos": 2,
            "no_local": True,
            "retain_as_published": False,
            "identifiers": [],
            "accept": None,
        }
    ] == (await read(world, "rich"))["subscriptions"]


async def test_shared_subscriptions_are_among_them(world):
    await world.subscribed("$share/g/a", "b")
    row = await read(world, "s")
    assert ["b", "$share/g/a"] == [item["filter"] for item in row["subscriptions"]]


async def test_d10_a_will_is_told_without_its_payload(world, rich):
    row = await read(world, "rich")
    assert "the payload" not in repr(row)
    assert {
        "topic": "gone",
        "qos": 1,
        "retain": True,
        "delay_seconds": 7,
        "properties": ["will_delay_interval"],
    } == row["will"]


async def test_d20_a_flight_is_told_with_time_and_retries(world, rich):
    """D20: {packet, timestamp, retries}, and whether PUBREC has come."""
    [flight] = (await read(world, "rich"))["in_flight_out"]
    assert {"packet_id": 1, "topic": "a/1", "qos": 2, "retries": 0}.items() <= flight.items()
    assert (flight["sent_at"], flight["released"]) == ("2023-11-14T22:13:20.000Z", False)
    assert 1 == flight["seq"]
    await rich.ask(Pubrec(1))
    assert (await read(world, "rich"))["in_flight_out"][0]["released"]


async def test_d20_a_flight_of_a_clean_session_has_its_number(world):
    peer = await world.subscribed("Dog/+", qos=1)
    written = await world.put("Dog/1", b"{}")
    await peer.hear()
    [flight] = (await read(world, "s"))["in_flight_out"]
    assert {"packet_id": 1, "topic": None, "qos": 1, "seq": written.seq}.items() <= flight.items()


async def test_a_client_that_is_away_has_a_position_and_a_lag(world, rich):
    rich.lose()
    await world.turn()
    await world.say("a/2", b"y")
    await world.put("Dog/1", b"{}")
    row = await read(world, "rich")
    assert (False, 2, "anonymous", None) == tuple(
        row[name] for name in ("connected", "lag", "user", "peer")
    )
    assert "2023-11-14T22:14:20.000Z" == row["expires_at"]
    assert ["a/+"] == [item["filter"] for item in row["subscriptions"]]


async def test_rows_are_listed_and_selected(world, rich):
    await world.connected("plain")
    rich.lose()
    await world.turn()
    listed = await read(world)
    assert ["rich", "plain"] == [row["client_id"] for row in listed]
    assert ["plain"] == await read(world, query="connected==true&select(client_id)")
    by_name = await read(world, query="sort(+client_id)&limit(1)&select(client_id)")
    assert ["plain"] == by_name
    assert ["plain"] == [row["client_id"] for row in await read(world, query="limit(1,2)")]


async def test_long_lists_are_cut_where_many_rows_are(world):
    await world.subscribed(*(f"a/{number}" for number in range(50)))
    [listed], single = await read(world), await read(world, "s")
    assert (50, 20) == (listed["subscription_count"], len(listed["subscriptions"]))
    assert (50, 50) == (single["subscription_count"], len(single["subscriptions"]))


async def test_there_is_no_row_of_nobody(world):
    assert await read(world, "nobody") is None


@pytest.mark.parametrize("version", [4, 5])
async def test_deleting_a_row_ends_session_and_connection(world, version):
    """M11: DELETE a session row = disconnect; MQTT 5 is told 0x98; nothing is left on disk."""
    properties = {"session_expiry_interval": 60} if version == 5 else None
    peer = await world.subscribed(
        "a", version=version, qos=1, connect={"clean_start": False, "properties": properties}
    )
    await end(world, "s")
    told = [Reason.ADMINISTRATIVE_ACTION] if version == 5 else []
    heard = await peer.hear()
    assert told == [packet.reason for packet in heard if isinstance(packet, Disconnect)]
    assert peer.closed
    assert ([], None) == (world.store.states("session/"), await read(world, "s"))
    again = world.peer(version)
    assert not (await again.connect("s", clean_start=False)).session_present


async def test_deleting_a_row_ends_a_session_whose_client_is_away(world, rich):
    """The will goes out: the session ends before its delay (MQTT 5, 3.1.3.2.2)."""
    watcher = await world.subscribed("gone")
    rich.lose()
    await world.turn()
    await end(world, "rich")
    assert [b"the payload"] == [
        item.payload for item in await watcher.hear() if isinstance(item, Publish)
    ]
    assert ([], None) == (world.store.states("session/"), await read(world, "rich"))


STRANGER = Caller("anonymous", Grants(read=True, write=True), "http", peer="192.0.2.7")


@pytest.mark.parametrize(
    ("caller", "code"),
    [
        (Caller("anonymous", NONE, "http"), Code.UNAUTHENTICATED),
        (Caller("rob", Grants(read=True), "http"), Code.DENIED),
        (STRANGER, Code.UNAUTHENTICATED),
    ],
)
async def test_only_an_administrator_ends_sessions(world, rich, caller, code):
    with pytest.raises(Error) as refused:
        await end(world, "rich", caller)
    assert code == refused.value.code
    assert not rich.closed


async def test_anonymous_callers_of_this_machine_may_end_sessions(world, rich):
    await end(world, "rich", Caller("anonymous", ALL, "http", peer="127.0.0.1"))
    assert await read(world, "rich") is None


async def test_rows_cannot_be_written(world, rich):
    with pytest.raises(Error) as refused:
        await world.kernel.write(Event(f"{PATH}/rich", PUT, b"{}", None, 1, True), OTHER)
    assert Code.NOT_ALLOWED == refused.value.code


async def test_rows_are_not_for_who_may_not_read(world, rich):
    with pytest.raises(Error) as refused:
        await read(world, "rich", caller=Caller("anonymous", NONE, "http"))
    assert Code.UNAUTHENTICATED == refused.value.code


async def test_what_ends_is_ended_over_a_restart(rich, world):
    await end(world, "rich")
    later = await world.killed()
    assert isinstance(later, MqttServer)
    assert [] == await read(later)


@pytest.mark.parametrize("answered", [False, True])
async def test_d20_a_look_at_a_flight_of_qos_2_of_a_clean_session_leaves_it_as_it_is(
    world, answered
):
    """MQTT 5, 4.3: the client goes on with PUBREC and PUBCOMP after it."""
    peer = await world.subscribed("Dog/+", qos=2)
    await (await world.connected("p")).ask(Publish("Dog/1", b"{}", 2, False, False, 1))
    (publish,) = await peer.hear()
    if answered:
        assert [Pubrel(publish.packet_id)] == await peer.ask(Pubrec(publish.packet_id))
    [flight] = (await read(world, "s"))["in_flight_out"]
    told = {"packet_id": 1, "topic": None, "qos": 2, "seq": 0, "released": answered}
    assert told.items() <= flight.items()
    if not answered:
        assert [Pubrel(publish.packet_id)] == await peer.ask(Pubrec(publish.packet_id))
    assert [] == await peer.ask(Pubcomp(publish.packet_id))
    assert 0 == len(world.broker.sessions.get("s").window)
