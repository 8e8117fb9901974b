"""Sessions: their fields, and the table of them with a clock that a test moves."""

import gc
from math import inf

import pytest

from rowcast.core.limits import SESSIONS_SKIPPED_MAX
from rowcast.doors.mqtt.sessions.session import Session, Sessions
from rowcast.mqtt.window import Window

HOUR = {"session_expiry_interval": 3600}


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def sessions(clock):
    return Sessions(clock)


async def test_fields(world):
    """D24."""
    peer = await world.subscribed("a", "b", client_id="c", qos=1)
    session = world.broker.sessions.get("c")
    assert ("c", peer.client, world.time, None, 0) == (
        session.client_id,
        session.client,
        session.created_at,
        session.expires_at,
        session.pending,
    )
    assert ["a", "b"] == [interest.topics.text for interest in session.subscription.interests]


def test_messages_in_flight_of_all(sessions):
    """A figure that is asked for every second."""
    for client_id, flights in (("a", 2), ("b", 0), ("c", 3)):
        window = sessions.create(client_id, Window()).window
        for _ in range(flights):
            window.begin("x")
    assert 5 == sessions.in_flight
    sessions.delete(sessions.get("c"))
    assert 2 == sessions.in_flight


def test_create_replaces(sessions):
    """D26: Create, Get."""
    first = sessions.create("c", Window())
    second = sessions.create("c", Window())
    assert (second, 1, [second]) == (sessions.get("c"), len(sessions), list(sessions))
    assert sessions.get("other") is None
    assert first is not second


def test_get_or_create(sessions, clock):
    """D26: and one that was to expire stays."""
    first, known = sessions.get_or_create("c")
    assert not known
    sessions.leave(first, clock.now + 10)
    again, known = sessions.get_or_create("c")
    clock.now += 100
    assert (first, True, []) == (again, known, sessions.clean_expired())


def test_delete(sessions):
    """D26: never the one that took its place."""
    old = sessions.create("c", Window())
    new = sessions.create("c", Window())
    assert (False, True, False) == tuple(map(sessions.delete, (old, new, new)))
    assert 0 == len(sessions)


def test_clean_expired(sessions, clock):
    """D26: in the order of their ends, each once."""
    made = {name: sessions.create(name, Window()) for name in "abc"}
    for name, seconds in (("a", 20), ("b", 10)):
        sessions.leave(made[name], clock.now + seconds)
    assert (None, 120.0) == (made["a"].client, made["a"].expires_at)
    cleaned = []
    for _ in range(4):
        cleaned.append([session.client_id for session in sessions.clean_expired()])
        clock.now += 10
    assert [[], ["b"], ["a"], []] == cleaned
    assert [made["c"]] == list(sessions)


def test_leaving_again_counts_from_then(sessions, clock):
    """D26: the last departure says when."""
    session = sessions.create("c", Window())
    sessions.leave(session, clock.now + 10)
    clock.now += 5
    sessions.get_or_create("c")
    sessions.leave(session, clock.now + 10)
    clock.now += 6
    assert [] == sessions.clean_expired()
    clock.now += 4
    assert [session] == sessions.clean_expired()


def sessions_in_memory():
    """Count them; compiled, a session can have no weak reference and no heir that has one."""
    gc.collect()
    return sum(type(known) is Session for known in gc.get_objects())


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [inf, 1e9])
def test_departures_are_not_collected(sessions, clock, seconds):
    """D26: a client that comes and goes for ever leaves a bounded number of dead sessions."""
    before = sessions_in_memory()
    for _ in range(3 * SESSIONS_SKIPPED_MAX):
        session = Session("c", Window(), clock.now)
        sessions.add(session)
        sessions.leave(session, clock.now + seconds)
        clock.now += 1
    assert sessions_in_memory() - before <= SESSIONS_SKIPPED_MAX + 4
    assert ([], session) == (sessions.clean_expired(), sessions.get("c"))
    clock.now += 1e9
    assert ([] if seconds == inf else [session]) == sessions.clean_expired()


async def test_a_session_that_is_over_is_not_gone_on_with(world):
    """MQTT-4.1.0-2: also when the clock was set, so that no timer knew."""
    peer = await world.connected("c", clean_start=False, properties=HOUR)
    peer.lose()
    await world.turn()
    world.time += 3600
    again = world.peer()
    assert not (await again.connect("c", clean_start=False, properties=HOUR)).session_present


async def test_a_session_that_cannot_be_ended_harms_no_other(world, monkeypatch, caplog):
    """D8: what fails for one is logged; the others end in time, now and later."""
    for name in ("a", "b", "c"):
        peer = await world.connected(name, clean_start=False, properties=HOUR)
        peer.lose()
        await world.pass_time(1)

    kernel = world.broker.kernel

    def notify_gone(session, notify_gone=kernel.notify_gone):
        if session.client_id == "a":
            raise RuntimeError("poison")
        notify_gone(session)

    monkeypatch.setattr(kernel, "notify_gone", notify_gone)
    await world.pass_time(3597)
    assert ["b", "c"] == [session.client_id for session in world.broker.sessions]
    await world.pass_time(2)
    assert [] == [owner for owner, _, _ in world.store.states("session/") if owner[-1] != "a"]
    assert "the session of 'a' could not be ended" in caplog.text


async def test_nothing_is_left_of_many(world):
    """D26, D35: connecting and leaving again and again leaves nothing behind."""
    for number in range(200):
        peer = world.peer(4)
        await peer.connect(f"c{number}")
        await peer.subscribe("a/#", f"b/{number}")
        peer.lose()
    assert (0, 0) == (len(world.broker.sessions), world.kernel.bus.subscriptions)


async def test_the_end_of_a_session_that_waited_is_told(world):
    """O6: with how long its client was away; one that ends with its connection tells of that."""
    told = []
    world.kernel.listeners.clients.append(
        lambda what, caller, **facts: told.append(
            (what, caller.client_id, facts.get("away_seconds"))
        )
    )
    lasting = {"properties": {"session_expiry_interval": 60}}
    for client_id, options in (("gone", {}), ("waits", lasting)):
        (await world.connected(client_id, **options)).lose()
    await world.pass_time(61)
    assert [("session_ended", "waits", 61)] == [item for item in told if item[0] == "session_ended"]
