"""Retained values that a hook keeps in the table store's place (E23, G10, G14, X20)."""

import asyncio

import pytest

from build import ANN, BEN, Code, Listener, Server, refusal, turns
from rowcast.core.events import CURRENT, DELETE, MESSAGE, PATCH, PUT, SNAPSHOT, Event
from rowcast.core.topics import TopicFilter
from rowcast.features.hooks.bounds import BOUNDS, HookBounds
from rowcast.features.hooks.hook import Hook
from rowcast.features.hooks.hooks import Hooks
from rowcast.reads.record_cache import Unknown
from rowcast.subscriptions.subscribed_filters import SubscribedFilter
from rowcast.subscriptions.subscription import Subscription
from rowcast.writes.write import Condition


class Cellar(Hook):
    """Keeps what is below its topic."""

    def __init__(self, name="ext"):
        self.mine = TopicFilter(f"{name}/#")
        self.values = {}
        self.asked = []

    def store_retained(self, topic, event):
        self.asked.append(topic)
        if not self.mine.matches(topic):
            return False
        if event.kind == DELETE:
            self.values.pop(topic, None)
        else:
            self.values[topic] = event.payload
        return True

    def get_retained(self, text):
        wanted = TopicFilter(text)
        if wanted.exact and not self.mine.matches(text):
            return None
        return [Event(t, PUT, v, qos=1) for t, v in self.values.items() if wanted.matches(t)]


class Slow(Cellar):
    """The same, over a network."""

    async def store_retained(self, topic, event):
        await turns(2)
        return super().store_retained(topic, event)

    async def get_retained(self, text):
        await turns(2)
        return super().get_retained(text)


BOTH = pytest.mark.parametrize("cellar", [Cellar(), Slow()], ids=["plain", "slow"])


@pytest.fixture(autouse=True)
def empty(request):
    if "cellar" in request.fixturenames:
        request.getfixturevalue("cellar").values.clear()


def stocked(*hooks, bounds=BOUNDS):
    known = Hooks(bounds)
    for hook in hooks:
        known.add(hook)
    return Server(hooks=known)


async def read(room, topic):
    return (await room.kernel.read(topic, ANN)).payload


async def current(room, text, until=CURRENT):
    subscription = Subscription(room.reader)
    room.kernel.watch(subscription, SubscribedFilter(TopicFilter(text), 1), ANN)
    found = []
    while not found or found[-1][0] != until:
        found += [
            (event.kind, event.topic, event.payload) for event, _ in await subscription.batch(9)
        ]
    room.kernel.close(subscription)
    return [(topic, payload) for kind, topic, payload in found if kind == SNAPSHOT]


@BOTH
async def test_g10_what_the_hook_keeps_is_announced_and_no_record(cellar):
    room = stocked(cellar)
    heard = Listener(room)
    await room.put("ext/1", b"1")
    await room.put("own/1", b"2")
    assert [("ext/1", MESSAGE, 0), ("own/1", PUT, 1)] == [
        (event.topic, event.kind, event.seq) for event in heard.events
    ]
    assert ({"ext/1": b"1"}, 1) == (cellar.values, room.store.head())
    assert (b"1", b"2") == (await read(room, "ext/1"), await read(room, "own/1"))


@BOTH
async def test_g10_the_hook_supplies_what_a_subscription_begins_with(cellar):
    room = stocked(cellar)
    for topic in ("ext/2", "own/1", "ext/1"):
        await room.put(topic, topic.encode())
    assert {"ext/1", "ext/2", "own/1"} == {topic for topic, _ in await current(room, "#")}
    assert [("ext/1", b"ext/1")] == await current(room, "ext/1")
    assert [("own/1", b"own/1")] == await current(room, "own/1")
    assert [] == await current(room, "ext/3")


@BOTH
async def test_x20_what_was_in_the_table_before_is_hidden_by_the_hook(cellar):
    room = Server()
    await room.put("ext/1", b"old")
    room.kernel.hooks.add(cellar)
    await room.put("ext/1", b"new")
    assert b"new" == await read(room, "ext/1")
    assert [("ext/1", b"new")] == await current(room, "ext/+")


@BOTH
async def test_g10_a_deletion_reaches_the_hook(cellar):
    room = stocked(cellar)
    heard = Listener(room)
    await room.put("ext/1", b"1")
    exists = Condition(exists=True, strict=True)
    await room.delete("ext/1", exists)
    assert ({}, b"") == (cellar.values, heard.events[-1].payload)
    assert Code.NOT_FOUND == await refusal(room.kernel.read("ext/1", ANN))
    assert Code.NOT_FOUND == await refusal(room.delete("ext/1", exists))


@BOTH
async def test_x20_conditions_and_patches_need_a_record(cellar):
    room = stocked(cellar)
    await room.put("ext/1", b"1")
    not_there = Condition(exists=False)
    assert Code.PRECONDITION == await refusal(room.put("ext/1", b"2", condition=not_there))
    await room.put("ext/2", b"2", condition=not_there)
    assert {"ext/1": b"1", "ext/2": b"2"} == cellar.values
    patch = Event("ext/1", PATCH, b'{"a": 1}', qos=1)
    assert Code.NOT_ALLOWED == await refusal(room.kernel.write(patch, ANN))
    own = Event("own/1", PATCH, b'{"a": 1}', qos=1)
    assert 1 == (await room.kernel.write(own, ANN)).event.seq


async def test_x20_a_declared_table_and_a_message_are_not_for_hooks():
    cellar = Cellar("Dog")
    room = stocked(cellar)
    await room.put("Dog/1", b'{"name": "Rex"}')
    await room.say("u/1", b"x")
    assert ([], 1) == (cellar.asked, room.store.head())
    assert await room.kernel.read("Dog/1", ANN)


@BOTH
async def test_g10_a_payload_over_the_limit_reaches_no_hook(cellar):
    known = Hooks()
    known.add(cellar)
    room = Server(hooks=known, payload_bytes_max=3)
    assert Code.TOO_LARGE == await refusal(room.put("ext/1", b"1234"))
    assert {} == cellar.values


async def test_g14_the_first_that_takes_it_has_it():
    first, second = Cellar("a"), Cellar("a")
    room = stocked(Cellar("b"), first, second)
    await room.put("a/1", b"1")
    assert ({"a/1": b"1"}, {}) == (first.values, second.values)
    assert [] == second.asked
    second.values["a/1"] = b"other"
    assert b"1" == await read(room, "a/1")


@BOTH
async def test_g22_the_order_of_a_callers_writes_is_kept(cellar):
    room = stocked(cellar)
    heard = Listener(room)
    for number, topic in enumerate(("ext/1", "own/1", "ext/1", "own/2")):
        room.kernel.submit(Event(topic, PUT, b"%d" % number, retain=True), ANN)
    await room.put("ben/1", caller=BEN)
    await turns(40)
    mine = [event.topic for event in heard.events if event.topic != "ben/1"]
    assert ["ext/1", "own/1", "ext/1", "own/2"] == mine
    assert b"2" == cellar.values["ext/1"]


@BOTH
async def test_memory_never_answers_for_a_hook(cellar):
    room = stocked(cellar)
    await room.put("own/1", b"1")
    assert isinstance(room.kernel.peek("own/1", ANN), Unknown)


# -- mistakes --------------------------------------------------------------------------------------


async def test_g22_a_hook_that_fails_to_keep_refuses_the_write():
    class Broken(Cellar):
        def store_retained(self, topic, event):
            raise OSError

    room = stocked(Broken())
    heard = Listener(room)
    assert Code.INTERNAL == await refusal(room.put("ext/1", b"1"))
    assert [] == heard.events


@pytest.mark.parametrize("answer", ["yes", [True], {}])
async def test_g22_an_answer_of_another_kind_refuses_the_write(answer):
    class Broken(Cellar):
        def store_retained(self, topic, event):
            return answer

    room = stocked(Broken())
    async with asyncio.timeout(20):
        assert Code.INTERNAL == await refusal(room.put("ext/1", b"1"))


@pytest.mark.parametrize(
    "answer",
    [OSError(), "ext/1", [b"1"], [Event("elsewhere/1", PUT, b"1")], [Event("ext/1", PUT, b"")] * 3],
)
async def test_g22_a_hook_that_fails_to_supply_fails_reads_and_leaves_snapshots(answer):
    class Broken(Hook):
        def get_retained(self, text):
            if isinstance(answer, Exception):
                raise answer
            return answer

    room = stocked(Broken(), bounds=HookBounds(records=2))
    await room.put("ext/1", b"1")
    assert Code.INTERNAL == await refusal(room.kernel.read("ext/1", ANN))
    assert [("ext/1", b"1")] == await current(room, "ext/1")
