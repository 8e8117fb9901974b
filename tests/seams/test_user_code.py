"""Code in ``resources/`` raises what it likes: its call has failed, and no more ends (G3, G23).

SystemExit and KeyboardInterrupt pass through tasks and end the server; others that are no Exception
end the task that serves everybody.
"""

import asyncio
from types import SimpleNamespace

import pytest

from build import ANN, Server, turns
from memory_store import MemoryStore
from rowcast.api import Timer
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.core.topics import TopicFilter
from rowcast.features.computed.computation import Computation
from rowcast.features.hooks.hook import Hook
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.schedules.schedules import Schedule, Schedules
from rowcast.features.triggers.dead_events import DeadEvents
from rowcast.features.triggers.runner import Runner
from rowcast.features.triggers.trigger import Retries, Trigger
from rowcast.kernel.reauthorization import Reauthorization
from rowcast.program.resource_loader import load_resources
from rowcast.routes.resource import Incoming, Resource, Stream
from rowcast.seams.user_code import is_mistake
from rowcast.writes.write import Receipt


class Panic(BaseException):
    """What an extension in Rust raises."""


RAISED = [SystemExit, KeyboardInterrupt, asyncio.CancelledError, Panic, RecursionError]
raising = pytest.mark.parametrize("raised", RAISED)


def raiser(raised, *, waits=False):
    """Return a function that raises it, at once or as a coroutine."""

    def fail(*_arguments):
        raise raised("why")

    async def fail_later(*_arguments):
        await asyncio.sleep(0)
        raise raised("why")

    return fail_later if waits else fail


waiting = pytest.mark.parametrize("waits", [False, True])


async def test_the_end_of_a_task_is_no_mistake():
    seen = []

    async def work():
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError as raised:
            seen.append(is_mistake(raised))
            raise

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,))
    assert ([False], True) == (seen, task.cancelled())
    assert is_mistake(asyncio.CancelledError())
    assert not is_mistake(GeneratorExit())


@raising
@waiting
async def test_g3_writes_after_one_that_a_hook_has_failed_go_on(raised, waits):
    """G3: each is answered, also those that wait behind it."""

    class Bad(Hook):
        on_publish = raiser(raised, waits=waits)

    hooks = Hooks()
    hooks.add(Bad())
    room, outcomes = Server(hooks=hooks), []
    for number in range(3):
        event = Event(f"a/{number}", MESSAGE, b"x", None, 1, False, client="c")
        room.kernel.submit(event, ANN, outcomes.append)
    await turns(30)
    assert [Code.INTERNAL] * 3 == [outcome.code for outcome in outcomes]
    assert 3 == hooks.figures()[0].failures


@raising
@waiting
async def test_g3_listeners_hear_of_the_next_event(raised, waits):
    hooks = Hooks()
    hooks.on("disconnected", raiser(raised, waits=waits))
    for _ in range(3):
        hooks.disconnected(ANN)
    await turns(30)
    assert 3 == hooks.figures()[0].failures


@raising
@waiting
async def test_g1_a_hook_that_cannot_begin_is_named(raised, waits):
    class Bad(Hook):
        def init(self, _options):
            return raiser(raised, waits=waits)()

    hooks = Hooks()
    hooks.add(Bad())
    with pytest.raises(Error, match="'Bad' could not begin") as refused:
        await hooks.start()
    assert raised.__name__ in refused.value.message


@raising
@waiting
async def test_g3_a_resource_class_fails_for_one_write(raised, waits):
    """G3: it is answered with an incident, and the next one is carried out."""

    class Box(Resource):
        async def put(self, value):
            if value["n"] == 0:
                await raiser(raised, waits=True)()
            return await super().put(value)

    room, outcomes = Server(resources=[("Box", Box)]), []
    for number in range(2):
        event = Event("Box/1", PUT, b'{"n": %d}' % number, "application/json", 1, True, client="c")
        room.kernel.submit(event, ANN, outcomes.append)
        await turns(20)
    assert Code.INTERNAL is outcomes[0].code
    assert "the resource failed" in outcomes[0].message
    assert isinstance(outcomes[1], Receipt)


@raising
@waiting
async def test_h32_a_schedule_is_called_again(raised, waits):
    room, calls = Server(), []

    def work():
        calls.append(1)
        return raiser(raised, waits=waits)()

    schedules = Schedules(room.kernel, [Schedule("x.work", 60, work)], room.now)
    schedules.look()
    for _ in range(2):
        room.time += 60
        schedules.look()
        await turns(20)
    assert ([1, 1], {}) == (calls, schedules.running)


@raising
@waiting
async def test_g23_an_event_that_a_trigger_fails_is_kept_and_the_next_one_is_called_for(
    raised, waits
):
    room, called = Server(store=MemoryStore("0badcafe")), []

    def act(event):
        called.append(event.topic)
        if event.topic == "Dog/1":
            return raiser(raised, waits=waits)()
        return None

    trigger = Trigger("x.act", (TopicFilter("Dog/+"),), act, retries=Retries(2, 0.0, 1, 0.0))
    runner = Runner(room.kernel, trigger, DeadEvents(room.kernel.committer.keep), room.now)
    runner.begin()
    task = asyncio.create_task(runner.run())
    for number in (1, 2):
        await room.put(f"Dog/{number}")
    await turns(100)
    assert ["Dog/1", "Dog/1", "Dog/2"] == called
    row = runner.row()
    assert (1, 1, 2, "running") == (row["dead"], row["calls"], row["failures"], row["state"])
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()


@raising
@waiting
async def test_a_timer_goes_on(raised, waits):
    calls, thrice = [], asyncio.Event()

    def work():
        calls.append(1)
        if len(calls) > 2:
            thrice.set()
        return raiser(raised, waits=waits)()

    timer = Timer(0, work)
    await thrice.wait()
    assert timer.running
    timer.cancel()


@raising
def test_a9_a_computed_value_is_null(raised):
    computation = Computation("Order.total", raiser(raised))
    with pytest.raises(Error) as refused:
        computation.value({})
    assert Code.INTERNAL is refused.value.code


@raising
@waiting
async def test_a_listener_of_a_stream_fails_alone(raised, waits, caplog):
    """Else one resource would stop who closes all streams: the server's end, or a revocation."""
    heard = []
    for one in (Stream(None), Incoming()):
        one.on("close", raiser(raised, waits=waits))
        one.on("close", lambda: heard.append(1))
        one.close()
    await turns(9)
    assert [1, 1] == heard
    assert 2 == caplog.text.count("failed")


@raising
def test_a_file_that_raises_at_its_import_is_named(raised, tmp_path):
    lines = ("from asyncio import *", "class Panic(BaseException): pass")
    (tmp_path / "bad.py").write_text("\n".join((*lines, f"raise {raised.__name__}('why')")))
    with pytest.raises(Error, match=r"bad\.py:3: .*why"):
        load_resources(tmp_path)


def test_l8_a_door_that_cannot_judge_does_not_keep_others_from_it(caplog):
    heard, access = [], Reauthorization(lambda: 0.0)
    access.listen(lambda: SimpleNamespace().missing)
    access.listen(lambda: heard.append(1))
    access.changed()
    assert [1] == heard
    assert "could not be judged" in caplog.text
