"""Writes of one connection at one topic stay in order, whichever of them a class carries out."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from build import Code, Server, turns
from rowcast.core.callers import ALL, Caller, Grants
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, MESSAGE, PUT, Event
from rowcast.kernel.resource_dispatch import ResourceDispatch
from rowcast.routes.resource import Resource

EVE, BOB = (Caller(name, ALL, "mqtt", name) for name in ("eve", "bob"))
HTTP = Caller("eve", ALL, "http")


class Room:
    """A server whose class at ``Dog`` has its own put, which waits until the test goes on."""

    def __init__(self, **bounds):
        self.gate, self.outcomes = asyncio.Event(), []
        room = self

        class Dog(Resource):
            async def put(self, value):
                await room.gate.wait()
                if value == {"name": "bad"}:
                    raise Error(Code.DENIED, "no")
                if value == {"name": "again"}:
                    said = Event(self.topic, MESSAGE, b'{"name": "inside"}', None, 1)
                    await self.kernel.write(said, self.caller)
                return await super().put(value)

        self.server = Server(resources=[("Dog", Dog)])
        self.kernel = self.server.kernel
        if bounds:
            self.kernel.steps.remove("resource", self.kernel._resource_dispatch.step)
            self.kernel._resource_dispatch = ResourceDispatch(self.kernel, **bounds)
            self.kernel.steps.add("resource", self.kernel._resource_dispatch.step)

    def write(self, topic, kind=PUT, name="Rex", caller=EVE):
        payload = b"" if kind == DELETE else b'{"name": "%s"}' % name.encode()
        event = Event(topic, kind, payload, None, 1, kind != MESSAGE)
        self.kernel.submit(event, caller, self.outcomes.append)

    async def written(self):
        """Let the class go on; return what the log has."""
        self.gate.set()
        await turns(30)
        await self.server.committer.settle()
        await turns()
        events = self.server.store.read(0, 99)
        return [(event.topic, event.kind) for event in events]


async def test_what_the_class_does_not_override_waits_for_what_it_does():
    room = Room()
    for kind in (PUT, MESSAGE, DELETE, PUT, DELETE):
        room.write("Dog/1", kind)
    await turns()
    assert [] == room.outcomes
    expected = [("Dog/1", kind) for kind in (PUT, MESSAGE, DELETE, PUT, DELETE)]
    assert expected == await room.written()
    assert 5 == len(room.outcomes)
    assert {} == room.kernel._resource_dispatch._lanes


@pytest.mark.parametrize(
    ("topic", "caller"), [("Dog/2", EVE), ("Dog/1", BOB), ("u/1", EVE), ("Dog/1", HTTP)]
)
async def test_others_do_not_wait(topic, caller):
    """Another topic, another connection, and requests over HTTP, each of which is answered."""
    room = Room()
    room.write("Dog/1")
    room.write(topic, MESSAGE, caller=caller)
    await turns(5)
    await room.server.committer.settle()
    assert 1 == len(room.outcomes)
    written = await room.written()
    assert [("Dog/1", PUT)] == [each for each in written if each[1] == PUT]


async def test_requests_over_http_wait_for_none_of_their_kind():
    room = Room()
    room.write("Dog/1", caller=HTTP)
    room.write("Dog/1", DELETE, caller=HTTP)
    await turns(5)
    assert 1 == len(room.outcomes)
    await room.written()


async def test_what_the_class_itself_writes_there_does_not_wait_for_the_class():
    room = Room()
    room.write("Dog/1", name="again")
    room.write("Dog/1", DELETE)
    assert [("Dog/1", MESSAGE), ("Dog/1", PUT), ("Dog/1", DELETE)] == await room.written()


async def test_what_waits_is_answered_when_the_server_stops():
    room = Room()
    room.write("Dog/1")
    room.write("Dog/1", DELETE)
    await turns()
    await room.server.stop()
    assert [Code.BUSY, Code.BUSY] == [outcome.code for outcome in room.outcomes]


async def test_a_class_that_suppresses_its_cancellation_does_not_hold_up_the_stop(caplog):
    """Its writer is answered once, and what waited behind it, too."""
    go_on = asyncio.Event()

    class Stubborn(Resource):
        async def put(self, value):
            while not go_on.is_set():
                with suppress(asyncio.CancelledError):
                    await go_on.wait()

    server, outcomes = Server(resources=[("Odd", Stubborn)]), []
    dispatch = ResourceDispatch(server.kernel, end_seconds=0)
    server.kernel.steps.remove("resource", server.kernel._resource_dispatch.step)
    server.kernel._resource_dispatch = dispatch
    server.kernel.steps.add("resource", dispatch.step)
    for _ in range(2):
        server.kernel.submit(Event("Odd/1", PUT, b"{}", None, 1, True), EVE, outcomes.append)
    await turns(5)
    await server.stop()
    assert [Code.BUSY, Code.BUSY] == [outcome.code for outcome in outcomes]
    assert "the resource at 'Odd/1' suppresses its cancellation" in caplog.text
    go_on.set()
    await turns(9)
    assert 2 == len(outcomes)


@pytest.mark.parametrize("bounds", [{"writes_max": 2}, {"bytes_max": 36}])
async def test_what_waits_is_bounded(bounds):
    room = Room(**bounds)
    for _ in range(3):
        room.write("Dog/1")
    room.write("Dog/2")
    (refused,) = room.outcomes
    assert Code.BUSY is refused.code
    assert "wait for the resource at 'Dog/1'" in refused.message
    written = await room.written()
    assert [("Dog/1", PUT), ("Dog/1", PUT), ("Dog/2", PUT)] == sorted(written)


async def test_a_refused_one_does_not_hold_up_those_behind_it():
    room = Room()
    room.write("Dog/1", name="bad")
    room.write("Dog/1", MESSAGE)
    assert [("Dog/1", MESSAGE)] == await room.written()
    assert [Code.DENIED] == [each.code for each in room.outcomes if isinstance(each, Error)]


async def test_a_class_that_raises_generator_exit_answers_its_writer():
    class Odd(Resource):
        async def put(self, value):
            raise GeneratorExit

    room, outcomes = Server(resources=[("Odd", Odd)]), []
    room.kernel.submit(Event("Odd/1", PUT, b"{}", None, 1, True), EVE, outcomes.append)
    await turns(9)
    assert [Code.INTERNAL] == [outcome.code for outcome in outcomes]


def disabled(_caller):
    raise Error(Code.DENIED, "the user was disabled")


def reader(caller):
    return replace(caller, grants=Grants(read=True))


@pytest.mark.parametrize("judge", [disabled, reader])
async def test_l8_writes_that_wait_are_judged_when_their_turn_comes(judge):
    """L8: those before may have taken minutes; neither the class nor the server writes them."""
    room = Room()
    for kind in (PUT, PUT, MESSAGE):
        room.write("Dog/1", kind)
    await turns()
    room.kernel.reauthorization.judges.append(judge)
    room.kernel.reauthorization.changed()
    assert [("Dog/1", PUT)] == await room.written()
    assert [Code.DENIED] * 2 == [outcome.code for outcome in room.outcomes[-2:]]
    assert {} == room.kernel._resource_dispatch._lanes


async def test_l8_writes_that_wait_for_a_class_stay_in_order_when_rights_change():
    """L8: the connection's caller is another object then."""
    room = Room()
    room.write("Dog/1", PUT)
    await turns()
    room.write("Dog/1", MESSAGE, caller=replace(EVE, claims={"site": "north"}))
    await turns(5)
    assert [("Dog/1", PUT), ("Dog/1", MESSAGE)] == await room.written()
