"""What code in resources/ stands on: the table's verbs, and streams in both directions."""

import asyncio

import pytest

from build import ANN, Code, Server, refusal, turns
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT
from rowcast.core.queries import Query
from rowcast.routes import resource as module
from rowcast.routes.resource import Emitter, Incoming, Stream


def dog(room, topic="Dog/1"):
    return module.Resource(room.kernel, topic, topic.partition("/")[2], ANN)


async def test_the_verbs_are_those_of_the_table():
    room = Server()
    rex, kinds = dog(room), []
    for call in (rex.put({"name": "Rex"}), rex.patch({"age": 3}), rex.publish({"age": 4})):
        await call
        kinds.append(rex.receipt.event.kind)
    assert [PUT, PATCH, MESSAGE] == kinds
    assert {"name": "Rex", "age": 3}.items() <= (await rex.get()).items()
    assert 1 == len(await dog(room, "Dog").get(Query()))
    await rex.delete()
    assert (DELETE, None) == (rex.receipt.event.kind, await rex.get())


async def test_a_collection_makes_a_new_record_and_tells_its_id():
    room = Server()
    made = await dog(room, "Dog").post({"name": "Rex"})
    assert "Rex" == (await dog(room, f"Dog/{made}").get())["name"]


async def test_connecting_is_subscribing():
    room = Server()
    await room.put("Dog/1")
    stream = dog(room).connect()
    items = aiter(stream)
    event, _ = await anext(items)
    assert "Dog/1" == event.topic
    await items.aclose()
    assert 0 == room.bus.subscriptions


# -- listeners -------------------------------------------------------------------------------------


async def test_listeners_hear_in_order_and_coroutines_run_by_themselves(caplog):
    emitter, heard = Emitter(), []

    async def slow(item):
        heard.append(("slow", item))

    async def broken(_item):
        raise ZeroDivisionError

    async def endless(_item):
        await asyncio.Event().wait()

    emitter.on("x", lambda item: heard.append(("quick", item)))
    for listener in (slow, broken, endless):
        assert listener is emitter.on("x", listener)
    emitter.emit("x", 1)
    emitter.emit("nobody listens", 1)
    await turns()
    assert [("quick", 1), ("slow", 1)] == heard
    assert "a listener failed" in caplog.text
    for task in list(emitter._running):
        task.cancel()
    await turns()
    assert set() == emitter._running


# -- what a client sends ---------------------------------------------------------------------------


async def test_messages_come_in_order_until_the_client_goes():
    incoming = Incoming()
    for item in (1, 2):
        await incoming.put(item)
    incoming.close()
    incoming.close()
    assert [1, 2] == [item async for item in incoming]


async def test_a_reader_waits_for_the_client():
    incoming = Incoming()
    reading = asyncio.ensure_future(anext(aiter(incoming)))
    await turns()
    await incoming.put(1)
    assert 1 == await reading


async def test_a_client_that_is_too_fast_waits():
    incoming = Incoming(items_max=2)
    for item in (1, 2):
        await incoming.put(item)
    third = asyncio.ensure_future(incoming.put(3))
    await turns()
    assert not third.done()
    assert 1 == await anext(incoming)
    await third


async def test_who_listens_to_data_needs_no_iterator():
    incoming, heard = Incoming(), []
    incoming.on("data", heard.append)
    incoming.on("close", lambda: heard.append("closed"))
    await incoming.put(1)
    incoming.close()
    assert [1, "closed"] == heard
    assert [] == [item async for item in incoming]


# -- what a client is sent -------------------------------------------------------------------------


async def test_a_stream_sends_what_it_is_given_until_it_is_closed():
    stream, ends = Stream(), []
    stream.on("close", lambda: ends.append(1))
    stream.send("a")
    items = aiter(stream)
    assert "a" == await anext(items)
    waiting = asyncio.ensure_future(anext(items))
    await turns()
    stream.send("b")
    assert "b" == await waiting
    stream.close()
    stream.close()
    stream.send("late")
    assert [] == [item async for item in items]
    assert [1] == ends


async def test_a_client_that_does_not_read_is_told_of_no_more():
    stream = Stream(items_max=1)
    stream.send("a")

    async def send():
        stream.send("b")

    assert Code.BUSY == await refusal(send())


async def test_a_stream_mixes_its_own_items_with_events():
    room = Server()
    stream = dog(room, "u/1").subscribe()
    items = aiter(stream)
    assert "current" == (await anext(items))[0].kind
    stream.send("mine")
    await room.put("u/1")
    kinds = [await anext(items), await anext(items)]
    assert "mine" in kinds
    assert {"put"} == {item[0].kind for item in kinds if item != "mine"}
    await items.aclose()


@pytest.mark.parametrize("verb", module.OVERRIDABLE)
def test_every_verb_that_can_be_overridden_exists(verb):
    assert callable(getattr(module.Resource, verb))
