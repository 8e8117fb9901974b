"""Delayed writes whose topic has a leading slash: judged as what that names (P5, D52)."""

import pytest

from build import ANN, DOG, Server
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT, Event
from rowcast.features.hooks.hook import Hook
from rowcast.features.hooks.hooks import Hooks
from rowcast.routes.resource import Resource


async def put(room, topic):
    event = Event(topic, PUT, b'{"name": "Rex"}', qos=1, retain=True)
    await room.kernel.write(event, ANN)


@pytest.mark.parametrize("topic", ["$delayed/5//Dog/1", "/$delayed/5//Dog/1"])
async def test_p5_hooks_see_what_a_leading_slash_in_it_names(topic):
    """P5: what is refused at Dog/1 is refused there too, and not written when it is due."""

    class Closed(Hook):
        def on_publish(self, caller, event):
            if event.topic.startswith("Dog/"):
                raise Error(Code.DENIED, "not there")

    hooks = Hooks()
    hooks.add(Closed())
    room = Server(hooks=hooks, tables=(DOG,))
    with pytest.raises(Error) as refused:
        await put(room, topic)
    assert Code.DENIED == refused.value.code
    assert {} == dict(room.store.states("delayed"))
    room.delayed.stop()


@pytest.mark.parametrize("topic", ["$delayed/5//$SYS/users/eve", "/$delayed/5//$SYS/users/eve"])
async def test_p5_what_is_not_delayed_is_not_with_a_leading_slash_either(topic):
    """P3: what waits is kept as it came, and so would be a password."""

    class Users(Resource):
        async def put(self, data):
            return data

    room = Server()
    room.kernel.registry.add("$SYS/users", Users)
    with pytest.raises(Error) as refused:
        await put(room, topic)
    assert Code.DENIED == refused.value.code
    assert {} == dict(room.store.states("delayed"))
    room.delayed.stop()
