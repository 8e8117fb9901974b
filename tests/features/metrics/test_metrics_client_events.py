"""What happened to clients, as messages of the log (O6)."""

import asyncio
import json

from build import Server
from rowcast.core.callers import ALL, Caller
from rowcast.core.event_limits import (
    EVENTS_BATCHES_PER_SECOND_MAX,
    EVENTS_HELD_CLIENTS_MAX,
    EVENTS_HELD_SECONDS,
    EVENTS_NAME_CHARS_MAX,
    EVENTS_PER_CLIENT_PER_SECOND_MAX,
    EVENTS_PER_SECOND_MAX,
)
from rowcast.core.topics import TopicFilter
from rowcast.features.client_events.client_events import SERVER_TOPIC, TABLE, ClientEvents, topic_of
from rowcast.mqtt.reasons import Reason
from rowcast.subscriptions.gaps import GapCause, LossCounter
from virtual import VirtualLoop


class World:
    """The history of clients over a kernel without a machine; time passes when it is told to."""

    def __init__(self, room=None):
        self.room = room or Server()
        self.room.store.define(TABLE)
        self.events = ClientEvents(self.room.kernel, self.room.now)
        self.loop = self.events._loop = VirtualLoop()
        self.events._rate = type(self.events._rate)(EVENTS_PER_SECOND_MAX, self.loop.time())

    def __call__(self, what, client="sensor-7", **facts):
        self.events(what, Caller("ann", ALL, "mqtt", client, "10.0.0.1"), **facts)

    async def logged(self, topic=None):
        """Return what is in their part of the log."""
        self.loop.advance(0)
        await self.room.committer.settle()
        found = self.room.store.read(0, 100_000, [TABLE.branch])
        return [json.loads(item.payload) for item in found if topic in {None, item.topic}]


def run(scenario):
    async def main():
        world = World()
        await world.events.start()
        return await scenario(world)

    return asyncio.run(main())


def test_an_event_says_who_where_when_and_why():
    async def scenario(world):
        world("disconnected", reason="it reads \ud800nothing", code=Reason.SERVER_BUSY, by=None)
        return await world.logged("$SYS/events/sensor-7")

    assert [
        {
            "event": "disconnected",
            "client_id": "sensor-7",
            "user": "ann",
            "peer": "10.0.0.1",
            "door": "mqtt",
            "at": "2023-11-14T22:13:20.000Z",
            "reason": "it reads ?nothing",
            "code": 0x89,
        }
    ] == run(scenario)


def test_a_client_id_is_one_level():
    """Nobody chooses a client id that is told at the topic of another, or of a filter."""
    topics = [topic_of(Caller("u", ALL, "mqtt", name)) for name in ("a/b", "a%2Fb", "+", "#", "a")]
    assert ["a%2Fb", "a%252Fb", "%2B", "%23", "a"] == [item.split("/", 2)[2] for item in topics]
    assert "$SYS/events/sse/ann" == topic_of(Caller("ann", ALL, "sse"))
    long = [topic_of(Caller("u", ALL, "mqtt", "x" * 60_000 + end)) for end in "ab"]
    assert long[0] != long[1]
    assert len("$SYS/events/") + EVENTS_NAME_CHARS_MAX == len(long[0])


def test_a_client_over_its_rate_is_counted():
    """O6: a storm of one client is not one of writes; nothing is lost from the count."""

    async def scenario(world):
        for number in range(500):
            world("connected", number=number)
            world("disconnected")
        before = await world.logged("$SYS/events/sensor-7")
        world.loop.advance(EVENTS_HELD_SECONDS)
        return before, await world.logged("$SYS/events/sensor-7")

    before, after = run(scenario)
    assert EVENTS_PER_CLIENT_PER_SECOND_MAX == len(before)
    late = after[len(before) :]
    assert ["connected", "disconnected"] == [item["event"] for item in late]
    assert 1_000 == len(before) + sum(item["count"] for item in late)
    assert 499 == late[0]["number"]  # the last of them


def test_many_clients_at_once_are_counted():
    """O6: a thousand connects a second are written at the rate that is allowed."""

    async def scenario(world):
        for number in range(2 * EVENTS_HELD_CLIENTS_MAX):
            world("connected", f"client-{number}")
        before = await world.logged()
        world.loop.advance(EVENTS_HELD_SECONDS)
        second = await world.logged()
        world.loop.advance(60)
        return len(before), len(second), await world.logged()

    before, second, after = run(scenario)
    assert before <= EVENTS_PER_SECOND_MAX + 1
    assert second - before <= EVENTS_PER_SECOND_MAX + 1
    left_out = [item["counts"]["connected"] for item in after if item["event"] == "left_out"]
    written = [item for item in after if item["event"] == "connected"]
    assert EVENTS_PER_SECOND_MAX + EVENTS_HELD_CLIENTS_MAX == len(written)
    assert [2 * EVENTS_HELD_CLIENTS_MAX - len(written)] == left_out


def test_events_of_a_crowd_are_written_in_few_batches():
    """O6: clients that come in one turn of the loop after the other; none is left out."""
    came = range(EVENTS_PER_SECOND_MAX // 2)

    async def scenario(world):
        committer = world.room.committer
        await world.logged()
        before = committer.commits
        for number in came:
            world("connected", f"client-{number}")
            await world.logged()
        soon = committer.commits - before
        world.loop.advance(1 / EVENTS_BATCHES_PER_SECOND_MAX)
        told = [item for item in await world.logged() if item["event"] == "connected"]
        return soon, committer.commits - before, told

    soon, all_of_them, told = run(scenario)
    assert (EVENTS_BATCHES_PER_SECOND_MAX - 1, soon + 1) == (soon, all_of_them)
    assert [f"client-{number}" for number in came] == [item["client_id"] for item in told]


def test_what_a_reader_missed_is_told_by_reason():
    async def scenario(world):
        account = LossCounter(world.room.kernel.reader.losses)
        account.caller = Caller("ann", ALL, "mqtt", "slow")
        account.add(GapCause.SLOW, 7)
        world.loop.advance(EVENTS_HELD_SECONDS)
        account.add(GapCause.SLOW, 2)
        account.add(GapCause.EXPIRED)
        world.loop.advance(EVENTS_HELD_SECONDS)
        return await world.logged("$SYS/events/slow")

    first, second = run(scenario)
    assert ("gap", 7, {"slow": 7}) == (first["event"], first["messages"], first["reasons"])
    assert (3, {"slow": 2, "expired": 1}) == (second["messages"], second["reasons"])


def test_a_server_that_was_killed_shows():
    """O6: the next start says so; after a stop in order it does not."""

    async def scenario():
        room = Server()
        for stops in (False, True, True):
            world = World(room)
            await world.events.start(version="1")
            if stops:
                world.events.stop()
            events = await world.logged(SERVER_TOPIC)
        return events

    events = asyncio.run(scenario())
    assert ["started", "started", "stopped", "started", "stopped"] == [e["event"] for e in events]
    assert [None, events[0]["at"], None] == [
        item.get("after") for item in events if item["event"] == "started"
    ]


def test_they_are_no_part_of_the_metrics_past():
    """Their filter reaches their own part of the log; that of all of $SYS reaches both."""

    async def scenario(world):
        reader = world.room.kernel.reader
        own = reader.sources(TopicFilter("$SYS/events/+"))
        every = reader.sources(TopicFilter("$SYS/#"))
        return own, every

    own, every = run(scenario)
    assert [TABLE.branch] == own
    assert {"$SYS", "$SYS/events", None} == {branch.level for branch in every}
