"""A client inside the process: the three verbs without a socket (D59)."""

from contextlib import aclosing

import pytest

from build import Code, Server, refusal
from rowcast import server
from rowcast.core.errors import Error
from rowcast.core.events import CURRENT
from rowcast.features.hooks.hooks import COLLECTING, Hooks


@pytest.fixture
def collected():
    """Return what a file in resources/ would have added."""
    hooks = Hooks()
    token = COLLECTING.set(hooks)
    yield hooks
    COLLECTING.reset(token)


async def test_write_and_read(collected):
    """D59: a record on a table, with the table's checks; None removes it."""
    local = server.client("job")
    room = Server(hooks=collected)
    assert "0badcafe:1" == await local.publish("Dog/1", {"name": "Rex"}, retain=True)
    assert "Rex" == (await local.get("Dog/1"))["name"]
    assert Code.UNPROCESSABLE is await refusal(local.publish("Dog/2", {"age": "x"}, retain=True))
    await local.publish("Dog/1", None, retain=True)
    assert await local.get("Dog/1") is None
    assert await local.publish("open/1", b"\xff") is None
    assert "job" == room.store.read(0, 1)[0].client


async def test_watch(collected):
    """D59: current records, their mark, then events of others; its own only with echo."""
    local = server.client("job")
    room = Server(hooks=collected)
    await room.put("Dog/1", b'{"name":"Rex"}')
    for echo in (False, True):
        heard = []
        async with aclosing(local.watch("Dog/#", "open/+", echo=echo)) as events:
            async for event in events:
                heard.append(event)
                if event.kind == CURRENT and heard.count(event) == 1 and len(heard) == 3:
                    await local.publish("open/own", b"own")
                    await room.say("open/other", b"other")
                if event.topic == "open/other":
                    break
        said = [room.kernel.transcoder.value(item) for item in heard if item.topic[:4] == "open"]
        assert (["own", "other"] if echo else ["other"]) == said
        assert "Rex" == local.value(heard[0])["name"]
    assert 0 == room.bus.subscriptions


@pytest.mark.parametrize("qos", [3, -1, True, "1", None])
async def test_a_qos_that_there_is_not_is_refused(collected, qos):
    """D59: the log could not be read any more."""
    local = server.client("job")
    room = Server(hooks=collected)
    with pytest.raises(Error, match="qos is 0, 1 or 2, and not") as refused:
        await local.publish("Dog/1", {"name": "Rex"}, retain=True, qos=qos)
    assert refused.value.code is Code.INVALID
    with pytest.raises(Error, match="qos is 0, 1 or 2, and not"):
        await local.publish_batch("Dog", {"1": {"name": "Rex"}}, retain=True, qos=qos)
    assert [] == room.store.read(0, 1)


async def test_not_before_the_start(collected):
    """D59: at the top of a file there is no kernel yet; the sentence says what to do."""
    local = server.client("job")
    assert Code.BUSY is await refusal(local.publish("a", 1))
