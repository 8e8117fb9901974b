"""Rights on the past: rows, masks and grants, of the reader and as they are now (M6, M9)."""

import random

import pytest
from replay_readers import DOORS, Mqtt, Sse, Ws, replay_server

from rightful import SCHEMA, person
from rowcast.core.callers import ALL, Caller, Grants

ROOT = Caller("root", ALL, "server")


async def wander(it, chance, count):
    """Write dogs of two owners at random; return the names that were ever ben's."""
    for number in range(count):
        it.server.time += 0.5
        owner = chance.choice(("ann", "ben"))
        value = {"owner": owner, "name": f"{owner}-{number}", "phone": "0123456789", "weight": 7}
        await it.write(f"Dog/{chance.randrange(4)}", value, caller=ROOT)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("seed", range(3))
async def test_m6_a_hidden_row_never_appears_and_masks_hold(door, seed):
    """M6, M9: a live reader of the same caller saw the same; nobody else's row is in it."""
    chance = random.Random(seed)
    async with replay_server(schema=SCHEMA, caller=person("ann")) as it:
        await wander(it, chance, 8)
        start = it.cursor(it.head)
        live = await it.open(door)
        await live.live("Dog/+")
        await it.settle()
        await wander(it, chance, 30)
        await it.settle()
        reader = await it.open(door)
        await reader.replay("Dog/+", start, speed="0")
        await it.until_end(reader)
        assert live.events == reader.events
        assert live.records == reader.records
        values = [told[2] for told in reader.told if told[1] and told[2]]
        assert values
        assert {"ann"} == {value["owner"] for value in values}
        assert not any("weight" in value for value in values)


@pytest.mark.parametrize("door", DOORS)
async def test_m6_masks_of_a_role_hold_for_the_past(door):
    """M6, M9: a vet sees every dog, and of a phone the last digits."""
    async with replay_server(schema=SCHEMA, caller=person("vi", "vet")) as it:
        await wander(it, random.Random(7), 20)
        reader = await it.open(door)
        await reader.replay("Dog/+", it.cursor(5), speed="0")
        await it.until_end(reader)
        values = [told[2] for told in reader.told if told[1] and told[2]]
        assert {"ann", "ben"} == {value["owner"] for value in values}
        assert {"***6789"} == {value["phone"] for value in values}
        assert 15 == len(reader.events)


@pytest.mark.parametrize("door", DOORS)
async def test_m6_who_may_not_read_a_topic_replays_nothing_of_it(door):
    """M6: as for a live subscription."""
    none = Caller("eve", Grants(read=False, write=False))
    async with replay_server(caller=none) as it:
        await it.write("Sensor/a", {"temp": 1})
        start = it.cursor(it.head)
        await it.write("Sensor/a", {"temp": 2})
        reader = await it.open(door)
        await reader.replay("Sensor/+", start, speed="0")
        await it.settle()
        assert [] == reader.told
        assert 0 == len(it.server.replays)


async def test_m6_rights_that_change_meanwhile_hold_for_the_rest():
    """M6: the rights of the time of delivery."""
    async with replay_server(schema=SCHEMA, caller=person("ann")) as it:
        for number in range(4):
            it.server.time += 10
            value = {"owner": "ann", "name": str(number)}
            await it.write("Dog/1", value, caller=ROOT)
            await it.write("Cat/1", {"name": str(number)}, caller=ROOT)
        reader = await it.open(Ws)
        await reader.replay("#", it.cursor(1))
        await it.settle()
        it.loop.advance(10)
        await it.settle()
        seen = [told[1] for told in reader.events]
        assert {"Dog/1", "Cat/1"} == set(seen)
        rule = {"filter": "Cat/#", "effect": "deny", "actions": ["read"]}
        await it.write("$SYS/rules/cats", rule, caller=ROOT)
        reader.told.clear()
        it.loop.advance(1000)
        await it.settle()
        assert "Cat/1" not in {told[1] for told in reader.told}


async def test_m6_each_subscriber_of_a_shared_replay_sees_what_its_rights_allow():
    """M6, M9: one shared replay, two callers."""
    async with replay_server(schema=SCHEMA, caller=person("ann")) as it:
        await wander(it, random.Random(1), 30)
        row = {"filter": "Dog/+", "from": it.cursor(1), "speed": 0}
        await it.server.replays.shared.put("dogs", row, ROOT)
        seen = {}
        for name in ("ann", "ben"):
            it.caller = person(name)
            for door in (Sse, Mqtt):
                reader = await it.open(door)
                if door is Sse:
                    await reader.live("$replay/dogs/#")
                else:
                    await reader.subscribe("$replay/dogs/#")
                    reader.prefix = "$replay/dogs/"
                await it.until_end(reader)
                owners = {told[2]["owner"] for told in reader.told if told[1] and told[2]}
                assert {name} == owners
                seen.setdefault(name, []).append(reader.events)
        assert seen["ann"][0] == seen["ann"][1]
