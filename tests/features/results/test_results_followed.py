"""What features that follow records make of a large result, whose events the bus does not offer.

They hear of its first event alone (``Subscriber.fall_behind``), and read the others from the log.
"""

import asyncio
import json
from dataclasses import replace

import pytest
from test_bulk_commit import World, dogs

from build import ANN, DOG, Listener, Server, turns
from rowcast.core.clauses import AlarmRule
from rowcast.core.events import PUT, Event
from rowcast.core.query_text import parse_query
from rowcast.core.query_topics import named_filter
from rowcast.core.topics import TopicFilter
from rowcast.features.alarms.feature import RecordAlarms
from rowcast.features.alarms.settings import AlarmSection
from rowcast.features.deadlines.deadlines import Deadlines
from rowcast.store.sqlite import SqlStore
from rowcast.subscriptions.live_query import step_of
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

REX = parse_query("name=Rex", DOG).where
FEW = 20
"""Turns of the loop in which all is read that is to be."""


@pytest.fixture
def large(tmp_path):
    """Return a function that makes a world where each result of two rows is a large one."""
    stores = []

    def large(table=DOG):
        stores.append(SqlStore(tmp_path / "rowcast.db"))
        return World(Server((table,), store=stores[-1]), staged_min=1)

    yield large
    for store in stores:
        store.close()


async def put(world, topic, name):
    payload = json.dumps({"name": name}).encode()
    await world.room.kernel.write(Event(topic, PUT, payload, qos=1, retain=True), ANN)


async def test_each_record_of_a_result_has_its_alarm(large):
    rule = AlarmRule("rex", REX, None, 0.0, when_text="name=Rex", clear_text="")
    table = replace(DOG, alarms=(rule,))
    world = large(table)
    feature = RecordAlarms((table,), AlarmSection())
    feature.install(world.room.kernel)
    await world.room.kernel.restore(world._facts)
    await feature.start()
    await world.write(dogs(a="Rex", b="Ida", c="Rex"))
    await put(world, "Dog/d", "Rex")  # while the log is read
    await turns(FEW)
    rows = await world.room.kernel.resource("$SYS/alarms/", ANN).get()
    assert {"rex/Dog/a", "rex/Dog/c", "rex/Dog/d"} == {row["id"] for row in rows}
    assert {"raised"} == {row["state"] for row in rows}
    await feature.stop()


async def test_each_record_of_a_result_has_a_deadline_from_its_last_write_on(large):
    table = replace(DOG, deadline_seconds=30)
    world = large(table)
    room, told = world.room, Listener(world.room, "$stale/#")
    deadlines = Deadlines(room.kernel, (table,), room.now)
    await deadlines.start()
    await world.write(dogs(a="Rex", b="Ida", c="Bob"))
    room.time += 20
    await put(world, "Dog/c", "Rex")  # while the log is read, which has an older write of it
    await turns(FEW)
    room.time += 10
    deadlines._look()
    await turns(FEW)
    assert ["$stale/Dog/a", "$stale/Dog/b"] == sorted(told.topics)
    deadlines.stop()


async def test_a_window_has_what_a_result_brings_into_it(large):
    world = large()
    await put(world, "Dog/z", "Ida")
    kernel = world.room.kernel
    reader = Subscription(kernel.reader)
    text = named_filter("$query/Dog/sort(-name)&limit(2)")
    kernel.watch(reader, SubscribedFilter(TopicFilter(text)), ANN)
    held = set()
    reading = asyncio.create_task(follow(reader, held))
    await turns(FEW)
    assert {"Dog/z"} == held
    await world.write(dogs(a="Rex", b="Bob", c="Zoe"))
    await turns(FEW)
    assert {"Dog/a", "Dog/c"} == held
    kernel.close(reader)
    await asyncio.wait([reading])


async def follow(reader, held):
    """Note which topics are in a reader's window, until it is closed."""
    while batch := await reader.batch(100):
        for event, _ in batch:
            step = step_of(event) or event.kind
            if step == "leave":
                held.remove(event.topic)
            elif step == "reset":
                held.clear()
            elif event.topic:
                held.add(event.topic)
