"""Functions of ``resources/`` that are called for events (G23)."""

import asyncio

import pytest
from trigger_server import TriggerServer

from build import ANN, Code, code_of
from rowcast import on, server
from rowcast.core.errors import Error
from rowcast.core.events import PUT, Event
from rowcast.core.marked_calls import DEPTH, depth_of
from rowcast.core.topics import TopicFilter
from rowcast.core.trigger_limits import TRIGGER_DEPTH_MAX, TRIGGERS_MAX
from rowcast.features.hooks.hooks import COLLECTING, Hooks
from rowcast.features.triggers.dead_events import DeadEvent, DeadEvents
from rowcast.features.triggers.trigger import Trigger, check_triggers
from rowcast.features.triggers.trigger_rows import FAILURES, TRIGGERS

NAME = "test_triggers."


@pytest.fixture
def collected():
    hooks = Hooks()
    token = COLLECTING.set(hooks)
    yield hooks
    COLLECTING.reset(token)


def named(call):
    return f"{NAME}{call.__qualname__}"


async def test_a_function_is_called_for_each_event_at_its_topics_in_order(collected):
    """G23: every kind of event, of tables and of undeclared topics; not for what was before."""
    called = []

    @on("Dog/+", "yard/#")
    async def bark(event):
        called.append((event.topic, event.kind))

    life = TriggerServer(collected)
    await life.room.put("Dog/0")
    await life.start()
    await life.room.put("Dog/1", b'{"name":"Rex"}')
    await life.room.say("yard/gate", b"open", qos=1)
    await life.room.put("Note/1")
    await life.room.delete("Dog/1")
    await life.turn()
    assert [("Dog/1", "put"), ("yard/gate", "message"), ("Dog/1", "delete")] == called
    row = life.row(named(bark))
    assert (3, 0, ["Dog/+", "yard/#"]) == (row["calls"], row["failures"], row["topics"])
    assert life.room.cursor(life.room.committer.announced) == row["seq"]


async def test_a_restart_goes_on_where_it_was(collected):
    """G23: what was written while the server was down, or the trigger away, is called for once."""
    called = []

    @on("Dog/+")
    def bark(event):
        called.append(event.topic)

    life = await TriggerServer(collected).start()
    await life.room.put("Dog/1")
    await life.turn()
    life = await life.kill()
    await life.room.put("Dog/2")
    await life.start()
    await life.room.put("Dog/3")
    await life.turn()
    assert ["Dog/1", "Dog/2", "Dog/3"] == called


async def test_a_call_that_a_kill_cut_off_repeats_without_a_second_effect(collected):
    """G23, M8: its writes are marked."""
    local, going = server.client("job"), asyncio.Event()

    @on("Dog/+")
    async def note(event):
        await local.publish(f"Note/{event.topic[4:]}", {}, retain=True)
        await local.publish_batch("Note", {"2": {}, "3": {}}, retain=True)
        await going.wait()
        await local.publish("Counter/7", {}, retain=True)

    life = await TriggerServer(collected).start()
    await life.room.put("Dog/1")
    await life.turn()
    assert 1 == len(life.said("Note/1")) == len(life.said("Note/2"))
    life, _ = await life.kill(), going.set()
    await life.start()
    for topic in ("Note/1", "Note/2", "Note/3", "Counter/7"):
        assert 1 == len(life.said(topic)), topic
    await life.room.put("Dog/4")
    await life.turn()
    assert [1, 2] == [len(life.said(topic)) for topic in ("Note/4", "Counter/7")]


async def test_a_failed_call_is_repeated_and_then_kept(collected, caplog):
    """G23: later events wait for the retries, and no longer; it can be called again."""
    called, broken = [], True

    @on("Dog/+")
    def bark(event):
        called.append(event.topic)
        if event.topic == "Dog/1" and broken:
            raise ValueError("no voice")

    life = await TriggerServer(collected).start()
    await life.room.put("Dog/1")
    await life.room.put("Dog/2")
    await life.turn()
    assert ["Dog/1"] * 3 + ["Dog/2"] == called
    assert "gives up Dog/1: ValueError: no voice" in caplog.text
    (kept,) = life.feature.dead
    assert (3, "ValueError: no voice") == (kept.attempts, kept.problem)
    assert (1, "running") == tuple(life.row(named(bark))[key] for key in ("dead", "state"))
    life = await (await life.kill()).start()
    rows = life.room.kernel.resource(f"{FAILURES}/{kept.id}", ANN)
    with pytest.raises(Error, match="call again with"):
        await rows.patch({"state": "gone"})
    broken = False
    await rows.patch({"state": "waiting"})
    await life.turn()
    assert ["Dog/1"] * 3 + ["Dog/2", "Dog/1"] == called
    assert not life.feature.dead.names()


async def test_a_failed_event_is_kept_until_a_call_for_it_has_succeeded(collected):
    """G23: a kill before that loses nothing; asked for twice it is called once."""
    called, going, broken = [], asyncio.Event(), True

    @on("Dog/+")
    async def bark(event):
        called.append(event.topic)
        if broken:
            raise ValueError("no voice")
        await going.wait()

    life = await TriggerServer(collected).start()
    await life.room.put("Dog/1")
    await life.turn()
    (name,) = life.feature.dead.names()
    broken = False
    await life.room.kernel.resource(f"{FAILURES}/{name}", ANN).patch({"state": "waiting"})
    await life.turn()
    assert (4, [name]) == (len(called), life.feature.dead.names()), "it waits in the call"
    life = await (await life.kill()).start()
    assert [name] == life.feature.dead.names()
    rows = life.room.kernel.resource(f"{FAILURES}/{name}", ANN)
    await rows.patch({"state": "waiting"})
    await rows.patch({"state": "waiting"})
    going.set()
    await life.turn()
    assert (5, []) == (len(called), life.feature.dead.names())


@pytest.mark.parametrize("succeeds", [True, False])
async def test_a_failed_event_that_is_discarded_during_a_call_stays_so(collected, succeeds):
    """G23."""
    called, going = [], asyncio.Event()

    @on("Dog/+")
    async def bark(event):
        called.append(event.topic)
        if len(called) > 3:
            await going.wait()
        if len(called) <= 3 or not succeeds:
            raise ValueError("no voice")

    life = await TriggerServer(collected).start()
    await life.room.put("Dog/1")
    await life.turn()
    (name,) = life.feature.dead.names()
    rows = life.room.kernel.resource(f"{FAILURES}/{name}", ANN)
    await rows.patch({"state": "waiting"})
    await life.turn()
    await rows.delete()
    going.set()
    await life.turn()
    assert (4 if succeeds else 6, []) == (len(called), life.feature.dead.names())


async def test_a_repeated_call_of_one_that_failed_writes_once(collected):
    """G23, M8: what the failed call had written is not written again."""
    local, failures = server.client("job"), [1]

    @on("Dog/+")
    async def note(event):
        await local.publish("Note/1", {}, retain=True)
        if failures:
            raise ValueError(failures.pop())

    life = await TriggerServer(collected).start()
    await life.room.put("Dog/1")
    await life.turn()
    assert 1 == len(life.said("Note/1"))
    assert (1, 1) == tuple(life.row(named(note))[key] for key in ("calls", "failures"))


async def test_a_call_that_takes_too_long_is_a_failed_one(collected):
    """G23: a hanging function does not hold its trigger for ever."""

    @on("Dog/+")
    async def hang(event):
        if event.topic == "Dog/1":
            await asyncio.Event().wait()

    life = TriggerServer(collected, call_seconds=0.001)
    await life.start()
    await life.room.put("Dog/1")
    await life.room.put("Dog/2")
    while life.row(named(hang))["calls"] < 1:
        await life.turn()
    (kept,) = life.feature.dead
    assert ("Dog/1", "it took longer than 0.001 s") == (kept.topic, kept.problem)
    of_them = life.room.kernel.registry.entry("$SYS/trigger_failures")
    assert of_them.resource.members == tuple(kept.row(str))


@pytest.mark.parametrize("fault", ["cancelled", "time out"])
async def test_what_a_function_waits_for_may_be_cancelled_or_time_out(collected, fault):
    """G23: both are failures of the call; they end no trigger, and are told as what they are."""

    @on("Dog/+")
    async def ask(event):
        if event.topic == "Dog/1" and fault == "cancelled":
            task = asyncio.ensure_future(asyncio.Event().wait())
            task.cancel()
            await task
        elif event.topic == "Dog/1":
            raise TimeoutError("the database is away")

    life = await TriggerServer(collected).start()
    await life.room.put("Dog/1")
    await life.room.put("Dog/2")
    await life.turn()
    (kept,) = life.feature.dead
    assert ("cancelled" if fault == "cancelled" else "TimeoutError: the database") in kept.problem
    assert 1 == life.row(named(ask))["calls"]


async def test_a_task_that_outlives_its_call_can_still_write(collected):
    """G23: unmarked, or a later event would end its numbers; what it leads to counts on."""
    local, going, tasks = server.client("job"), asyncio.Event(), []

    @on("Dog/+")
    async def start(event):
        async def late():
            await going.wait()
            await local.publish(f"Note/{event.topic[4:]}", {}, retain=True)

        tasks.append(asyncio.ensure_future(late()))
        await local.publish("Counter/1", {}, retain=True)

    life = await TriggerServer(collected).start()
    await life.room.put("Dog/1")
    await life.room.put("Dog/2")
    await life.turn()
    going.set()
    await asyncio.gather(*tasks)
    notes = [event for event in life.room.store.read(0, 100) if event.topic.startswith("Note/")]
    assert [("Note/1", 1), ("Note/2", 1)] == [(event.topic, depth_of(event)) for event in notes]


async def test_a_kill_before_a_failed_event_is_called_for_again_loses_nothing(collected):
    """G23: its row is there until the call is done."""
    called, going = [], asyncio.Event()

    @on("Dog/+")
    async def bark(event):
        called.append(event.topic)
        if len(called) <= 3:
            raise ValueError("no voice")
        await going.wait()

    async def again():
        rows = life.room.kernel.resource(f"{FAILURES}/{kept.id}", ANN)
        await rows.patch({"state": "waiting"})
        await life.turn()

    life = await TriggerServer(collected).start()
    await life.room.put("Dog/1")
    await life.turn()
    (kept,) = life.feature.dead
    for _ in range(2):  # it is called for once
        await again()
    assert 4 == len(called)
    life = await (await life.kill()).start()
    assert [kept] == list(life.feature.dead)
    going.set()
    await again()
    assert (5, []) == (len(called), life.feature.dead.names())


class Unreadable:
    """A stage of a subscription that fails instead of passing events on."""

    compares = False

    def __init__(self, failure):
        self.failure = failure

    def pass_on(self, _pairs):
        raise self.failure


@pytest.mark.parametrize("failure", [Error(Code.BUSY, "the log is busy"), OSError("the disk")])
async def test_a_trigger_begins_again_when_it_cannot_read(collected, failure):
    """G23: whatever the reason; what is said meanwhile is logged for it, and it can be stopped."""
    called = []

    @on("Note/+")
    def bark(event):
        called.append(event.topic)

    async def fail_once(life):
        (runner,) = life.feature.runners.values()
        runner._subscription.stage = Unreadable(failure)
        await life.room.say("Note/1", b"{}", qos=1)
        await life.turn()

    life = await TriggerServer(collected, retry_seconds=0.0).start()
    life.room.kernel.close = lambda subscription, close=life.room.kernel.close: (
        close(subscription),
        asyncio.get_running_loop().create_task(life.room.say("Note/2", b"{}", qos=1)),
    )
    await fail_once(life)
    assert ["Note/1", "Note/2"] == called
    stopped = await TriggerServer(collected, retry_seconds=1_000.0).start()
    await fail_once(stopped)
    assert ["Note/1", "Note/2"] == called
    await stopped.feature.stop()
    assert not stopped.room.kernel.durable.wanted("Note/1")


async def test_a_circle_of_triggers_ends(collected, caplog):
    """G23: the loop guard; a chain that ends by itself does not notice it."""
    local = server.client("job")

    @on("ping/+")
    async def ping(event):
        await local.publish("pong/1", b"")

    @on("pong/+")
    async def pong(event):
        await local.publish("ping/1", b"")

    life = await TriggerServer(collected).start()
    await life.room.say("ping/1", b"", qos=1)
    for _ in range(TRIGGER_DEPTH_MAX):
        await life.turn()
    assert TRIGGER_DEPTH_MAX == sum(life.row(named(each))["calls"] for each in (ping, pong))
    assert 1 == life.row(named(ping))["circles"] + life.row(named(pong))["circles"]
    assert "led to this event" in caplog.text


async def test_writes_of_a_trigger_tell_how_many_led_to_them(collected):
    """G23: a user property, which the log keeps."""
    local = server.client("job")

    @on("Dog/+")
    async def note(event):
        await local.publish_batch("Note", {"1": {}, "2": {}}, retain=True)

    life = await TriggerServer(collected).start()
    await life.room.put("Dog/1", properties={"user_property": ((DEPTH, "3"), ("a", "b"))})
    await life.turn()
    notes = [event for event in life.room.store.read(0, 100) if event.topic.startswith("Note/")]
    assert [4, 4] == [depth_of(event) for event in notes]


@pytest.mark.parametrize("text", ["x", "-1", "1" * 11, ""])
def test_a_malformed_depth_of_a_client_counts_as_none(text):
    assert 0 == depth_of(Event("a", PUT, b"", properties={"user_property": [[DEPTH, text]]}))


async def test_unlogged_messages_are_called_for_while_it_runs(collected):
    """G23: such as Mosquitto's, of no table that logs them."""
    called = []

    @on("Note/+")
    def heard(event):
        called.append(event.payload)

    life = await TriggerServer(collected).start()
    await life.room.say("Note/1", b"{}")
    await life.turn()
    assert [b"{}"] == called


def test_bad_triggers_are_told(collected):
    """G23: at start, with the file that has it."""
    with pytest.raises(Error, match="needs a topic filter"):
        on()
    assert Code.INVALID == code_of(on, "a/#/b")

    @on("a")
    def same(event):
        pass

    with pytest.raises(Error, match="two triggers are called"):
        on("b")(same)
    topics = (TopicFilter("a"),)
    assert Code.INVALID == code_of(check_triggers, [Trigger("a:b", topics, print)])
    many = [Trigger(str(number), topics, print) for number in range(TRIGGERS_MAX + 1)]
    assert Code.TOO_LARGE == code_of(check_triggers, many)
    COLLECTING.reset(COLLECTING.set(None))


def test_of_many_failed_events_the_newest_are_kept():
    """G23: a bound, and a count of those that made room."""
    stored = []
    dead = DeadEvents(stored.extend, most=2)
    for number in range(1, 5):
        dead.add(DeadEvent("t", number, "a", 5, "why", float(number)))
    assert (["t-3", "t-4"], 2) == (dead.names(), dead.dropped)
    again = DeadEvents(stored.extend, most=2)
    facts = {change.name: change for change in stored}.values()
    again.restore([(item.owner, item.name, item.value) for item in facts if item.value is not None])
    assert ["t-3", "t-4"] == again.names()
    assert Code.NOT_FOUND == code_of(again.discard, "t-1")


async def test_rows_list_triggers(collected):
    """G23: $SYS/triggers."""

    @on("Dog/+")
    def bark(event):
        pass

    life = await TriggerServer(collected).start()
    rows = await life.room.kernel.resource(f"{TRIGGERS}/", ANN).get()
    assert [(named(bark), "function", "running")] == [
        (row["id"], row["kind"], row["state"]) for row in rows
    ]
