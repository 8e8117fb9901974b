"""Writes that come late or from elsewhere: E26, E27, E28, X18."""

import random

import pytest

from build import ANN, DOG, NOW, Listener, Server, refusal
from memory_store import MemoryStore
from rowcast.core.clock import version_of
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event
from rowcast.core.limits import TOMBSTONE_DAYS
from rowcast.core.write_marks import ORIGIN
from rowcast.routes.resource import Resource
from rowcast.store.sqlite import SqlStore
from rowcast.writes.last_write_wins import put_stamp, stamp_of

THEN = version_of(int(NOW * 1000))


def stamped(topic, kind, payload, version, origin="a"):
    event = Event(topic, kind, payload, qos=1, retain=kind != MESSAGE)
    put_stamp(event, str(version), origin)
    return event


async def write(room, *facts):
    return await room.kernel.write(stamped(*facts), ANN)


async def value(room, topic):
    try:
        record = await room.kernel.read(topic, ANN)
    except Error:
        return None
    return record.payload


@pytest.fixture(params=["memory", "sqlite"])
async def room(request, tmp_path):
    store = SqlStore(tmp_path / "rowcast.db") if request.param == "sqlite" else MemoryStore()
    yield Server(store=store)
    store.close()


@pytest.mark.parametrize("topic", ["u/1", "Dog/1"])
async def test_a_late_retained_write_changes_nothing(room, topic):
    """E26, X18: the newest stays, and nobody is told of the other but its writer."""
    heard = Listener(room)
    newer = await write(room, topic, PUT, b'{"name":"2"}', THEN + 20)
    older = await write(room, topic, PUT, b'{"name":"1"}', THEN + 10)
    assert (0, THEN + 20) == (newer.late, older.late)
    assert (0, [topic]) == (older.event.seq, heard.topics)
    assert b'"2"' in await value(room, topic)
    assert 1 == len(room.store.read(0, 10))


async def test_a_late_message_is_delivered(room):
    """E27: what is not retained is never too late."""
    heard = Listener(room)
    await write(room, "u/1", PUT, b"2", THEN + 20)
    receipt = await write(room, "u/1", MESSAGE, b"1", THEN + 10)
    assert (0, [b"2", b"1"]) == (receipt.late, [event.payload for event in heard.events])
    assert b"2" == await value(room, "u/1")


async def test_a_write_of_this_moment_wins_over_what_was_seen(room):
    """A stamp a little ahead moves the clock, so whoever writes after it has seen it wins."""
    await write(room, "u/1", PUT, b"ahead", THEN + 30_000_000)
    await room.put("u/1", b"local")
    assert b"local" == await value(room, "u/1")


async def test_the_same_write_again_is_late(room):
    """E28: an event that arrives twice is one."""
    first = await write(room, "u/1", PUT, b"x", THEN)
    again = await write(room, "u/1", PUT, b"x", THEN)
    assert (0, THEN) == (first.late, again.late)


@pytest.mark.parametrize(("origin", "wins"), [("a", False), ("z", True)])
async def test_a_tie_goes_to_the_greater_origin(room, origin, wins):
    """E28: time, then node."""
    await write(room, "u/1", PUT, b"m", THEN, "m")
    receipt = await write(room, "u/1", PUT, b"other", THEN, origin)
    assert wins is not bool(receipt.late)
    assert (b"other" if wins else b"m") == await value(room, "u/1")


async def test_a_deletion_is_not_undone_by_what_was_before_it(room):
    """E26: a tombstone outlives the record."""
    await room.put("u/1", b"x")
    gone = await room.delete("u/1")
    late = await write(room, "u/1", PUT, b"old", gone.event.version - 1)
    assert (gone.event.version, None) == (late.late, await value(room, "u/1"))
    after = await write(room, "u/1", PUT, b"new", gone.event.version + 1)
    assert (0, b"new") == (after.late, await value(room, "u/1"))


async def test_deletion_and_late_write_in_one_batch(room):
    """The tombstone counts before it is on the disk."""
    await room.put("u/1", b"x")
    room.writer.held = True
    outcomes = []
    room.kernel.submit(Event("u/2", PUT, b"", qos=1, retain=True), ANN)  # begins a commit
    room.kernel.submit(stamped("u/1", DELETE, b"", THEN + 1_000_000), ANN, outcomes.append)
    room.kernel.submit(stamped("u/1", PUT, b"y", THEN + 999_999), ANN, outcomes.append)
    room.writer.release()
    await room.committer.settle()
    assert [0, THEN + 1_000_000] == [outcome.late for outcome in outcomes]
    assert await value(room, "u/1") is None


async def test_a_late_deletion_deletes_nothing(room):
    await write(room, "u/1", PUT, b"x", THEN)
    receipt = await write(room, "u/1", DELETE, b"", THEN - 1)
    assert (THEN, b"x") == (receipt.late, await value(room, "u/1"))


async def test_a_late_one_leaves_its_group_alone(room):
    """B11: it is done, and so are the others."""
    await write(room, "u/1", PUT, b"new", THEN)
    events = [stamped("u/1", PUT, b"old", THEN - 1), Event("u/2", PUT, b"x", qos=1, retain=True)]
    outcomes = await room.kernel.write_all(events, ANN, atomic=True)
    assert [THEN, 0] == [outcome.late for outcome in outcomes]
    assert (b"new", b"x") == (await value(room, "u/1"), await value(room, "u/2"))


async def test_the_stamp_is_the_record_s(room):
    """A17: version and origin are kept, and come back from the disk."""
    await write(room, "u/1", PUT, b"x", THEN - 5, "north")
    (event,) = room.store.read(0, 10)
    assert (THEN - 5, "north") == stamp_of(event, "?")
    assert (THEN - 5, "north") == stamp_of(room.store.get(None, "u/1"), "?")


async def test_tombstones_are_forgotten_after_days(room):
    """A deletion is remembered for TOMBSTONE_DAYS, and found on the last of them."""
    await room.put("u/1", b"x")
    gone = await room.delete("u/1")
    room.time += TOMBSTONE_DAYS * 86_400
    await room.put("u/2", b"moves the clock")
    late = await write(room, "u/1", PUT, b"old", gone.event.version - 1)
    assert late.late
    room.time += 86_400
    await room.put("u/2", b"moves the clock")
    late = await write(room, "u/1", PUT, b"old", gone.event.version - 1)
    assert not late.late


@pytest.mark.parametrize("version", ["", "x", "-1", "0", "1e9", str(1 << 53), "2026-13-01"])
async def test_what_is_no_version_is_refused(version):
    with pytest.raises(Error) as refused:
        put_stamp(Event("u/1", PUT, b""), version, "")
    assert refused.value.code is Code.INVALID


async def test_a_version_from_the_future_is_refused(room):
    """Nobody here could change such a record for a long time."""
    assert Code.INVALID == await refusal(write(room, "u/1", PUT, b"x", THEN + 61_000_000))


async def test_a_patch_brings_no_version(room):
    event = stamped("Dog/1", PATCH, b"{}", THEN)
    assert Code.INVALID == await refusal(room.kernel.write(event, ANN))


async def test_without_an_origin_the_writer_is_it():
    event = Event("u/1", PUT, b"", client="sensor-7")
    put_stamp(event, "2026-01-31T12:00:00.25Z", "")
    assert (1_769_860_800_250_000, "sensor-7") == (event.version, event.properties[ORIGIN])


async def test_three_nodes_and_a_late_write():
    """E26, E27: nodes A, B and C; #1 of A reaches C after #2 of B."""
    node = Server(store=MemoryStore("0000000c"))
    heard = Listener(node)
    await write(node, "t/retained", PUT, b"#2", THEN + 2, "B")
    await write(node, "t/retained", PUT, b"#1", THEN + 1, "A")
    await write(node, "t/said", MESSAGE, b"#2", THEN + 2, "B")
    await write(node, "t/said", MESSAGE, b"#1", THEN + 1, "A")
    assert [b"#2", b"#2", b"#1"] == [event.payload for event in heard.events]
    assert b"#2" == await value(node, "t/retained")


@pytest.mark.parametrize("seed", range(60))
async def test_every_order_of_arrival_ends_alike(seed):
    """E28: three nodes write at one another's topics; each hears of all in an order of its own."""
    dice = random.Random(seed)
    writes = []
    for number in range(dice.randint(1, 12)):
        kind = dice.choice([PUT, PUT, DELETE])
        moment = THEN + dice.randint(0, 4)
        payload = b"" if kind == DELETE else b"%d" % number
        origin = dice.choice("ABC")
        if not any((moment, origin) == known[3:] for known in writes):
            writes.append((dice.choice(["u/1", "u/2"]), kind, payload, moment, origin))
    states = []
    for name in ("0000000a", "0000000b", "0000000c"):
        node = Server(store=MemoryStore(name))
        arrivals = writes + dice.choices(writes, k=3)  # some twice
        dice.shuffle(arrivals)
        node.writer.held = dice.random() < 0.5  # in one batch, or each for itself
        for facts in arrivals:
            node.kernel.submit(stamped(*facts), ANN)
            if not node.writer.held:
                await node.committer.settle()
        node.writer.release()
        await node.committer.settle()
        states.append([await value(node, topic) for topic in ("u/1", "u/2")])
    expected = []
    for topic in ("u/1", "u/2"):
        known = [facts for facts in writes if facts[0] == topic]
        last = max(known, key=lambda facts: facts[3:], default=None)
        expected.append(None if last is None or last[1] == DELETE else last[2])
    assert [expected] * 3 == states


async def test_a_resource_class_keeps_the_stamp():
    """E26: what code in resources/ writes for a client is as old as the client says."""

    class Dogs(Resource):
        path = "Dog"

        async def put(self, value):
            return await super().put(value)

    room = Server(resources=[("Dog", Dogs)])
    await write(room, "Dog/1", PUT, b'{"name":"2"}', THEN + 20)
    late = await write(room, "Dog/1", PUT, b'{"name":"1"}', THEN + 10)
    assert (THEN + 20, THEN + 20) == (late.late, room.store.get(DOG, "Dog/1").version)


CREATED = "2020-02-29T12:00:00.123456+00:00"


async def dog(room):
    record = await room.kernel.read("Dog/1", ANN)
    return room.kernel.transcoder.value(record)


async def test_a_write_with_its_version_keeps_its_time_of_creation(room):
    """E28: a record is as old everywhere as where it was first written, whatever was here."""
    await room.put("Dog/1", b'{"name":"here"}')
    payload = f'{{"name":"there","created":"{CREATED}","updated":1}}'.encode()
    receipt = await write(room, "Dog/1", PUT, payload, THEN + 20_000_000)
    value = await dog(room)
    assert (CREATED, receipt.event.version // 1000) == (
        value["created"].isoformat(), value["updated"]
    )  # fmt: skip
    await room.put("Dog/1", b'{"name":"here again","created":"2001-01-01T00:00:00Z"}')
    assert CREATED == (await dog(room))["created"].isoformat()


@pytest.mark.parametrize("given", [b"{}", b'{"created":null}', b'{"created":"x"}'])
async def test_without_a_time_of_creation_the_first_write_here_counts(room, given):
    """A5: a device that only says when it measured does not make a record new."""
    await write(room, "Dog/1", PUT, given, THEN)
    first = (await dog(room))["created"]
    await write(room, "Dog/1", PUT, given, THEN + 10_000_000)
    assert (THEN / 1e6, first) == (first.timestamp(), (await dog(room))["created"])


async def test_a_message_brings_no_time_of_creation(room):
    heard = Listener(room)
    await write(room, "Dog/1", MESSAGE, f'{{"created":"{CREATED}"}}'.encode(), THEN)
    assert [{}] == [event.decoded for event in heard.events]
