"""Facts that are damaged or foreign: they never keep the server from starting (D27, D37)."""

import pytest

from mqtt_server import payloads
from rowcast.mqtt.packets import Will
from rowcast.store.store import Change

LASTING = {"clean_start": False, "properties": {"session_expiry_interval": 3600}}


@pytest.mark.parametrize("value", [b"", b"\xff", b"\xa0", b"\x61a"], ids=bytes.hex)
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("session/c", "session"),
        ("session/c", "place"),
        ("will/c", "1"),
        ("will/c", "x"),
        ("session/c", "filter/b"),
        ("session/c", "out/x"),
        ("session/c", "in/x"),
        ("session/c", "mood"),
        ("group/g/s", "state"),
        ("group/g/s", "mood"),
        ("group/g/s/#/t", "state"),
    ],
)
async def test_the_server_starts_all_the_same(world, owner, name, value):
    """D27: what cannot be read is left out and told in the log; the others come back."""
    for client_id in ("c", "d"):
        await world.subscribed("b", client_id=client_id, qos=1, connect=LASTING)
    world.store.commit([], [Change(owner, name, value)])
    other = await world.killed()
    assert ["b"] == [item.topics.text for item in other.broker.sessions.get("d").interests]
    again = other.peer()
    assert 0 == (await again.connect("d", **LASTING)).reason


@pytest.mark.parametrize("name", ["filter/x", "out/7", "out/x", "in/x", "share/$share/g/s"])
async def test_a_session_goes_on_without_what_cannot_be_read(world, name):
    """D27: its other filters, and what waits for them, are still there."""
    peer = await world.subscribed("b", client_id="c", qos=1, connect=LASTING)
    peer.lose()
    await world.say("b", b"waits")
    world.store.commit([], [Change("session/c", name, b"\x61a")])
    other = await world.killed()
    again = other.peer()
    assert (await again.connect("c", **LASTING)).session_present
    assert [b"waits"] == payloads([*again.later, *await again.hear()])


async def test_a_place_that_cannot_be_read_repeats_and_loses_nothing(world):
    """D27: the session goes on from where its filters began."""
    await world.say("b", b"before")
    peer = await world.subscribed("b", client_id="c", qos=1, connect=LASTING)
    await world.say("b", b"one")
    peer.lose()
    await world.say("b", b"two")
    await world.pass_time(1)
    world.store.commit([], [Change("session/c", "place", b"\xff")])
    again = (await world.killed()).peer()
    assert (await again.connect("c", **LASTING)).session_present
    told = payloads([*again.later, *await again.hear()])
    assert b"before" not in told
    assert {b"one", b"two"} == set(told)


async def test_a_will_that_cannot_be_read_takes_no_other_with_it(world):
    """D31: those of others are published."""
    await world.subscribed("w", client_id="heir", qos=1, connect=LASTING)
    await world.connected("c", will=Will("w", b"gone", 1))
    world.store.commit([], [Change("will/a", "1", b"\xff"), Change("will/c", "x", b"")])
    again = (await world.killed()).peer()
    await again.connect("heir", **LASTING)
    assert [b"gone"] == payloads([*again.later, *await again.hear()])
