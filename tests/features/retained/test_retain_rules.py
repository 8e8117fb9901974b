"""The rules for what is kept at undeclared topics (E17, E18, E20; retainer.*)."""

import asyncio

import pytest

from build import ANN, NOW, Code, Server, refusal, turns
from rowcast.core.callers import SERVER
from rowcast.core.errors import Error
from rowcast.core.events import CURRENT, DELETE, PATCH, PUT, SNAPSHOT, Event
from rowcast.core.topics import TopicFilter
from rowcast.features.retained.retain_rules import Retaining, RetainRules
from rowcast.features.retained.retainer import Retained
from rowcast.subscriptions import delivery_rate as pacing
from rowcast.subscriptions.subscribed_filters import SubscribedFilter
from rowcast.subscriptions.subscription import Subscription


def room_with(**rules):
    room = Server()
    retaining = Retaining(RetainRules(**rules), room.now, room.store)
    room.kernel.steps.add("retained", retaining.step)
    room.reader.retains = retaining.rules.enabled
    return room


async def ends(room, own=None):
    """Return in how many seconds a message is over that says so itself; 0 is never."""
    properties = None if own is None else {"message_expiry_interval": own}
    receipt = await room.put("a/b", b"x", properties=properties)
    return receipt.event.expires_at and receipt.event.expires_at - NOW


# -- how long -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "own", "expected"),
    [
        ({}, None, 0),
        ({}, 5, 5),
        ({}, 0, 0),
        ({"expiry_seconds": 60}, None, 60),
        ({"expiry_seconds": 60}, 5, 5),
        ({"expiry_seconds": 60}, 90, 90),
        ({"expiry_seconds": 60}, 0, 0),
        ({"expiry_override_seconds": 30}, None, 0),
        ({"expiry_override_seconds": 30}, 5, 5),
        ({"expiry_override_seconds": 30}, 90, 30),
        ({"expiry_override_seconds": 30}, 0, 0),
        ({"expiry_override_seconds": 30, "allow_never_expire": False}, 0, 30),
        ({"expiry_override_seconds": 30, "allow_never_expire": False}, None, 30),
        ({"expiry_seconds": 60, "expiry_override_seconds": 30}, None, 30),
        ({"expiry_seconds": 60, "allow_never_expire": False}, 0, 0),
    ],
)
async def test_e17_when_a_message_is_over(rules, own, expected):
    assert expected == await ends(room_with(**rules), own)


async def test_e17_a_patch_lives_as_long_as_what_it_makes():
    room = room_with(expiry_seconds=60)
    event = Event("a/b", PATCH, b'{"n":1}', "application/json", 1, True)
    assert NOW + 60 == (await room.kernel.write(event, ANN)).event.expires_at


async def test_e17_tables_and_plain_messages_follow_no_rule():
    room = room_with(expiry_seconds=60)
    assert 0 == (await room.put("Dog/1", b'{"name":"a"}')).event.expires_at
    assert 0 == (await room.say("a/b")).event.expires_at
    event = Event("$SYS/broker/uptime", PUT, b"1", None, 0, True)
    assert 0 == (await room.kernel.write(event, SERVER)).event.expires_at


# -- how large, how many, how fast -----------------------------------------------------------------


async def told(work):
    """Return code and text with which work is refused."""
    try:
        await work
    except Error as error:
        return error.code, error.message
    return None


async def test_e18_a_larger_payload_is_refused_with_the_setting():
    room = room_with(payload_bytes_max=10)
    await room.put("a/b", b"x" * 10)
    code, text = await told(room.put("a/b", b"x" * 11))
    assert (Code.TOO_LARGE, True) == (code, "retainer.max_payload_size" in text)
    await room.say("a/b", b"x" * 11)  # it is not to be kept
    await room.put("Note/1", b'{"text":"xxxxxxxxxxxxx"}')


async def test_e18_no_new_message_beyond_the_limit_but_another_one_at_its_topic():
    room = room_with(messages_max=2)
    for topic in ("a/1", "a/2", "a/1", "a/2"):
        await room.put(topic)
    code, text = await told(room.put("a/3"))
    assert (Code.TOO_LARGE, True) == (code, "retainer.max_retained_messages" in text)
    await room.put("Dog/1", b'{"name":"a"}')
    await room.delete("a/1")
    await room.put("a/3")
    assert 2 == room.store.count(None)


async def test_e18_the_limit_holds_within_one_transaction():
    room = room_with(messages_max=2)
    room.writer.held = True
    kinds = ((1, PUT), (2, PUT), (3, PUT), (1, DELETE), (4, PUT), (5, PUT), (4, PUT))
    writes = [
        asyncio.ensure_future(room.kernel.write(Event(f"a/{n}", kind, b"x", retain=True), ANN))
        for n, kind in kinds
    ]
    await turns()
    room.writer.release()
    done = await asyncio.gather(*writes, return_exceptions=True)
    refused = [n for (n, _), outcome in zip(kinds, done, strict=True) if isinstance(outcome, Error)]
    assert ([3, 5], 2) == (refused, room.store.count(None))


async def test_e20_more_than_the_publish_rate_is_refused_for_now():
    room = room_with(publish_rate=2)
    assert [None, None, Code.BUSY] == [await refusal(room.put(f"a/{n}")) for n in range(3)]
    assert [None, None] == [await refusal(room.say("a/1")), await refusal(room.delete("a/1"))]
    room.time += 1
    assert None is await refusal(room.put("a/9"))


# -- whether at all --------------------------------------------------------------------------------


async def test_a_retainer_that_is_off_refuses_and_shows_nothing():
    """E12: and what it had is still there when it is on again."""
    room = Server()
    await room.put("a/1")
    off = Retaining(RetainRules(enabled=False), room.now, room.store)
    room.kernel.steps.add("retained", off.step)
    room.reader.retains = False
    room.cache.clear()
    assert Code.NOT_ALLOWED == await refusal(room.put("a/2"))
    assert Code.NOT_FOUND == await refusal(room.kernel.read("a/1", ANN))
    assert () == tuple((await Retained(room.kernel, room.now).match_messages("#")).messages)
    wanted = Subscription(room.reader)
    room.kernel.watch(wanted, SubscribedFilter(TopicFilter("#")), ANN)
    assert [CURRENT] == [event.kind for event, _ in await wanted.batch(9)]
    await room.put("Dog/1", b'{"name":"a"}')
    assert [PUT] == [event.kind for event, _ in await wanted.batch(9)]
    room.reader.retains = True
    assert b"{}" == (await room.kernel.read("a/1", ANN)).payload


# -- how fast they are delivered -------------------------------------------------------------------


async def test_e19_a_reader_is_given_no_more_than_the_delivery_rate(monkeypatch):
    """In pages of batch_read_number; tables' records are not counted."""
    waits, time = [], 0.0

    async def sleep(seconds):
        nonlocal time
        waits.append(round(seconds, 6))
        time += seconds

    room = Server()
    for number in range(10):
        await room.put(f"a/{number}")
        await room.put(f"Dog/{number}", b'{"name":"a"}')
    room.reader.scan_records, room.reader.delivery_rate = 2, 4
    monkeypatch.setattr(pacing.asyncio, "sleep", sleep)
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: time)
    wanted = Subscription(room.reader)
    room.kernel.watch(wanted, SubscribedFilter(TopicFilter("#")), ANN)
    pairs = []
    while len(pairs) < 21:
        pairs += await wanted.batch(99)
    assert 20 == sum(event.kind == SNAPSHOT for event, _ in pairs)
    assert [0.5, 0.5] == waits  # a burst of one second is free, the last page owes nothing


async def test_e18_what_the_server_keeps_for_itself_takes_no_room():
    room = room_with(messages_max=1)
    for number in range(3):
        await room.put(f"$SYS/broker/{number}", caller=SERVER)
    assert [None, Code.TOO_LARGE] == [await refusal(room.put(f"a/{n}")) for n in range(2)]
