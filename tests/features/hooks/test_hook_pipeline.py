"""Writes on their way through the hooks (G5, G7, G18, G22)."""

import asyncio
from dataclasses import replace

import pytest

from build import ANN, BEN, Listener, Server, refusal, turns
from rowcast.core.callers import SERVER, Grants
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PUT, Event
from rowcast.features.hooks.bounds import BOUNDS, HookBounds
from rowcast.features.hooks.hook import DROP, Hook, Refusal
from rowcast.features.hooks.hooks import Hooks
from rowcast.kernel.atomic_batch import AtomicBatch
from rowcast.routes.resource import Resource
from rowcast.store.store import Change
from rowcast.writes.write import Receipt


def hooked(*hooks, bounds=BOUNDS, **options):
    """Return a room with these hooks."""
    known = Hooks(bounds)
    for hook in hooks:
        known.add(hook)
    return Server(hooks=known, **options)


class Guard(Hook):
    """Refuses ``secret``, drops ``noise``, doubles ``twice``, moves ``old`` to ``new``."""

    def __init__(self):
        self.seen = []

    def on_publish(self, caller, event):
        self.seen.append((caller.user, event.topic))
        if "secret" in event.topic:
            raise Error(Code.DENIED, "that is secret")
        if "full" in event.topic:
            raise Refusal(0x97, "too many")

    def on_publish_received(self, caller, event):
        if "noise" in event.topic:
            return DROP
        if "twice" in event.topic:
            return event.changed(payload=event.payload * 2)
        if "old" in event.topic:
            event.topic = event.topic.replace("old", "new")
        return None


class Slow(Guard):
    """The same, and each takes as long as its payload says: turns of the loop."""

    async def on_publish(self, caller, event):
        await turns(int(event.payload or b"0"))
        super().on_publish(caller, event)


BOTH = pytest.mark.parametrize("guard", [Guard, Slow])


async def attempt(room, topic, way, payload=b"1"):
    """Write in one of the kernel's ways."""
    event = Event(topic, MESSAGE if way == "say" else PUT, payload, qos=1, retain=way != "say")
    if way == "value":
        return await room.kernel.write_value(topic, PUT, int(payload), ANN)
    if way == "atomic":
        (outcome,) = await room.kernel.write_all([event], ANN, atomic=True)
        return outcome
    if way == "each":
        (outcome,) = await room.kernel.write_all([event], ANN, atomic=False)
        if isinstance(outcome, Error):
            raise outcome
        return outcome
    return await room.kernel.write(event, ANN)


WAYS = pytest.mark.parametrize("way", ["say", "put", "value", "atomic", "each"])


@BOTH
@WAYS
async def test_g5_a_refused_write_is_neither_stored_nor_announced(guard, way):
    room = hooked(guard())
    heard = Listener(room)
    assert Code.DENIED == await refusal(attempt(room, "u/secret", way))
    assert Code.BUSY == await refusal(attempt(room, "u/full", way))
    assert ([], 0) == (heard.events, room.store.head())


@BOTH
@WAYS
async def test_g7_a_dropped_message_is_a_success_that_nobody_hears_of(guard, way):
    room = hooked(guard())
    heard = Listener(room)
    receipt = await attempt(room, "u/noise", way)
    assert (Receipt, 0) == (type(receipt), receipt.event.seq)
    assert ([], 0) == (heard.events, room.store.head())


@BOTH
@WAYS
async def test_g7_what_a_hook_made_of_it_is_stored_and_announced(guard, way):
    room = hooked(guard())
    heard = Listener(room)
    await attempt(room, "u/twice", way, b"1")
    await attempt(room, "u/old", way, b"2")
    expected = [("u/twice", b"11"), ("u/new", b"2")]
    assert expected == [(event.topic, event.payload) for event in heard.events]
    if way != "say":
        assert b"11" == (await room.kernel.read("u/twice", ANN)).payload


@BOTH
async def test_g7_what_a_hook_made_of_it_must_be_valid(guard):
    """The table's types are checked after the hooks."""

    class Spoil(guard):
        def on_publish_received(self, caller, event):
            return event.changed(payload=b'{"age": "old"}')

    room = hooked(Spoil())
    assert Code.UNPROCESSABLE == await refusal(room.put("Dog/1", b"0"))


@BOTH
async def test_hooks_are_not_asked_about_what_is_refused_anyway(guard):
    hook = guard()
    room = hooked(hook)
    assert Code.DENIED == await refusal(room.say("$SYS/x"))
    assert Code.INVALID == await refusal(room.say("a/#"))
    assert [] == hook.seen


async def test_the_server_itself_asks_nobody():
    room = hooked(Guard())
    await room.put("u/secret", caller=SERVER)
    assert 1 == room.store.head()


@BOTH
async def test_b11_one_refusal_refuses_a_whole_group(guard):
    room = hooked(guard())
    events = [Event(f"u/{name}", PUT, b"1", retain=True) for name in ("a", "secret", "b")]
    with pytest.raises(Error, match="that is secret") as told:
        await room.kernel.write_all(events, ANN, atomic=True)
    assert (Code.DENIED, {"index": 1}) == (told.value.code, told.value.detail)
    assert 0 == room.store.head()
    events[1].topic = "u/noise"
    outcomes = await room.kernel.write_all(events, ANN, atomic=True)
    assert [1, 0, 2] == [outcome.event.seq for outcome in outcomes]


@BOTH
async def test_a_refused_group_that_is_checked_as_one_has_no_number(guard):
    """Such as a change of all that a query selects: its writer counted none of them."""
    room = hooked(guard())
    events = [Event(f"u/{name}", PUT, b"1", retain=True) for name in ("a", "secret")]
    with pytest.raises(Error, match="that is secret") as told:
        await AtomicBatch(room.kernel).write(events, ANN, lambda *_: None)
    assert {} == told.value.detail


async def test_who_wrote_it_is_not_for_a_hook_to_change():
    class Mask(Hook):
        def on_publish_received(self, caller, event):
            return Event(event.topic, event.kind, event.payload, client="someone else")

    room = hooked(Mask())
    heard = Listener(room)
    await room.say("u/1", client="ann-1")
    assert ["ann-1"] == [event.client for event in heard.events]


# -- order ---------------------------------------------------------------------------------------


async def test_g22_an_asynchronous_hook_keeps_the_order_of_a_callers_writes():
    """The first takes longest; another caller does not wait for it."""
    room = hooked(Slow())
    heard, answers = Listener(room), []
    for name, turns_taken in (("a", b"9"), ("b", b"0"), ("c", b"3")):
        kind = DELETE if name == "b" else PUT
        room.kernel.submit(Event(f"u/{name}", kind, turns_taken), ANN, answers.append)
    room.kernel.submit(Event("u/ben", PUT, b"0"), BEN)
    together = [Event("u/d", PUT, b"0"), Event("u/e", PUT, b"1")]
    await room.kernel.write_all(together, ANN, atomic=True)
    assert ["u/ben", "u/a", "u/b", "u/c", "u/d", "u/e"] == heard.topics
    assert 3 == len(answers)
    assert not room.kernel.gate._lanes


async def test_g22_a_refusal_in_a_lane_holds_up_nobody():
    room = hooked(Slow())
    heard, answers = Listener(room), []
    for name in ("secret", "a"):
        room.kernel.submit(Event(f"u/{name}", MESSAGE, b"2"), ANN, answers.append)
    await turns(20)
    assert ["u/a"] == heard.topics
    assert ["Error", "Receipt"] == [type(answer).__name__ for answer in answers]


async def test_g22_a_lane_has_a_bound():
    room, answers = hooked(Slow(), bounds=HookBounds(writes=2)), []
    for _ in range(4):
        room.kernel.submit(Event("u/a", MESSAGE, b"1"), ANN, answers.append)
    assert [Code.BUSY] * 2 == [answer.code for answer in answers]
    await turns(20)
    assert 4 == len(answers)


async def test_a_lane_has_a_bound_in_bytes():
    """P2."""
    room, answers = hooked(Slow(), bounds=HookBounds(writes_bytes=10)), []
    for _ in range(4):
        room.kernel.submit(Event("u/a", MESSAGE, b"00001"), ANN, answers.append)
    assert [Code.BUSY] * 2 == [answer.code for answer in answers]
    await turns(20)
    room.kernel.submit(Event("u/a", MESSAGE, b"00000000001"), ANN, answers.append)
    await turns(20)
    assert ["Error"] * 2 + ["Receipt"] * 3 == [type(answer).__name__ for answer in answers]


@pytest.mark.parametrize("started", [0, 3])
async def test_a_stop_answers_what_waits_in_a_lane(started):
    class Endless(Hook):
        async def on_publish(self, caller, event):
            await asyncio.Event().wait()

    room, answers = hooked(Endless()), []
    for _ in range(2):
        room.kernel.submit(Event("u/a", MESSAGE, b""), ANN, answers.append)
    group = asyncio.create_task(
        room.kernel.write_all([Event("u/b", PUT, b"1")], ANN, atomic=True)
    )  # fmt: skip
    await turns(started + 1)
    await room.stop()
    assert [Code.BUSY] * 2 == [answer.code for answer in answers]
    assert Code.BUSY == await refusal(group)


async def test_a_writer_that_fails_to_take_its_answer_costs_the_next_nothing():
    room, answers = hooked(Slow()), []

    def broken(_outcome):
        raise ZeroDivisionError

    room.kernel.submit(Event("u/secret", MESSAGE, b"1"), ANN, broken)
    room.kernel.submit(Event("u/a", MESSAGE, b"1"), ANN, answers.append)
    await turns(10)
    assert 1 == len(answers)


# -- what comes with a write -----------------------------------------------------------------------


@BOTH
async def test_facts_come_true_with_a_dropped_write_and_not_with_a_refused_one(guard):
    room, answers = hooked(guard()), []
    facts = (Change("s/1", "taken", b"7"),)
    room.kernel.submit(Event("u/secret", MESSAGE, b"0"), ANN, answers.append, None, facts)
    await turns()
    assert [] == room.store.states("s/1")
    room.kernel.submit(Event("u/noise", MESSAGE, b"0"), ANN, answers.append, None, facts)
    await turns(20)
    assert [("s/1", "taken", b"7")] == room.store.states("s/1")
    assert [Error, Receipt] == [type(answer) for answer in answers]


@BOTH
async def test_a_resource_class_gets_what_the_hooks_left_and_they_are_asked_once(guard):
    given = []

    class Kennel(Resource):
        async def put(self, value):
            given.append(value)
            await super().put(value)

    hook = guard()
    room = hooked(hook, resources=[("Kennel", Kennel)])
    await room.put("Kennel/twice", b"1")
    assert ([11], [("ann", "Kennel/twice")]) == (given, hook.seen)
    assert b"11" == (await room.kernel.read("Kennel/twice", ANN)).payload


@BOTH
async def test_a_resource_that_writes_elsewhere_is_asked_for_that(guard):
    class Kennel(Resource):
        async def put(self, value):
            await self.kernel.write_value("u/secret", PUT, value, self.caller, self.sent)

    room = hooked(guard(), resources=[("Kennel", Kennel)])
    assert Code.DENIED == await refusal(room.put("Kennel/1", b"1"))


# -- the event ------------------------------------------------------------------------------------


@pytest.mark.parametrize("waits", [False, True])
@WAYS
async def test_g18_publish_tells_of_every_write_that_was_carried_out(way, waits):
    hooks, heard = Hooks(), []

    def note(packet, session):
        heard.append((packet.topic, packet.payload, session.user))

    async def note_later(packet, session):
        note(packet, session)

    hooks.on("publish", note_later if waits else note)
    hooks.add(Guard())
    room = Server(hooks=hooks)
    await refusal(attempt(room, "u/secret", way))
    await attempt(room, "u/noise", way)
    await attempt(room, "u/twice", way)
    await turns()
    assert [("u/twice", b"11", "ann")] == heard


async def test_g18_a_listener_alone_changes_nothing():
    hooks = Hooks()
    hooks.on("publish", lambda *_: 1 / 0)
    room = Server(hooks=hooks)
    heard = Listener(room)
    await room.say("u/1")
    assert ["u/1"] == heard.topics


@pytest.mark.parametrize("grants", [None, Grants(read=True)])
async def test_l8_writes_that_wait_are_judged_when_their_turn_comes(grants):
    """L8: each of those before may have taken seconds."""
    room, outcomes = hooked(Slow()), []

    def judge(caller):
        if grants is None:
            raise Error(Code.DENIED, "the user was disabled")
        return replace(caller, grants=grants)

    for number in range(3):
        event = Event(f"a/{number}", MESSAGE, b"5", None, 1, False)
        room.kernel.submit(event, ANN, outcomes.append)
    await turns(2)
    room.kernel.reauthorization.judges.append(judge)
    room.kernel.reauthorization.changed()
    await turns(40)
    assert isinstance(outcomes[0], Receipt)
    assert [Code.DENIED] * 2 == [outcome.code for outcome in outcomes[1:]]
