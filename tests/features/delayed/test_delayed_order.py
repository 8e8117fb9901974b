"""Delayed writes that are due at the same time keep their order (D52)."""

from test_delayed_publish import Delays

from build import ANN, BEN, turns
from rowcast.core.events import DELETE, PUT
from rowcast.routes.resource import Resource


async def forward(room):
    await room.forward(5)
    await turns(90)
    await room.kernel.committer.settle()


async def test_a_deletion_does_not_pass_what_a_class_writes():
    class Dog(Resource):
        async def put(self, value):
            await turns()
            return await super().put(value)

    room = Delays(resources=[("Dog", Dog)])
    for kind in (PUT, DELETE, PUT, DELETE):
        await room.send("$delayed/5/Dog/1", b'{"name":"Rex"}' if kind == PUT else b"", kind)
    await forward(room)
    assert [PUT, DELETE, PUT, DELETE] == [event.kind for event in room.listener.events]
    room.delayed.stop()


async def test_writes_of_one_writer_have_one_caller():
    """Its writes stay in order whatever holds one of them up; another's have their own."""
    callers = []

    class Dog(Resource):
        async def put(self, value):
            callers.append(self.caller)
            return await super().put(value)

    room = Delays(resources=[("Dog", Dog)])
    for number, caller in enumerate((ANN, BEN, ANN)):
        await room.send(f"$delayed/5/Dog/{number}", b'{"name":"Rex"}', PUT, caller=caller)
    await forward(room)
    first, other, third = callers
    assert first is third is not other
    assert {} == room.delayed._callers
    room.delayed.stop()
