"""Shared replays: rows under $SYS/replays, one playhead for many readers (V6, M6)."""

import asyncio
import json

import pytest
from replay_readers import SCHEMA, Mqtt, OldMqtt, Sse, Ws, replay_server

from build import refusal
from rightful import BOTH, ROOT
from rowcast.core.callers import ALL, Caller, Grants
from rowcast.core.errors import Code
from rowcast.core.events import DELETE, PATCH, PUT
from rowcast.features.replay.settings import ReplaySection
from rowcast.routes.system_rows import time_text

JSON = {"content_type": "application/json"}
RULED = f'{SCHEMA} type Dog @table @export @auth(roles: ["vet"]) {{ id: ID @primaryKey }}'


async def history(it, count=6, seconds=10.0):
    """Write one record so often, at this distance; return the milliseconds at which that began."""
    begun = round(it.server.time * 1000)
    await it.write("Sensor/a", {"temp": -1})
    for number in range(count):
        it.server.time += seconds
        await it.write("Sensor/a", {"temp": number})
    return begun


async def make(it, name="tour", **row):
    return await it.rest.put(f"/$SYS/replays/{name}", json.dumps(row).encode(), **JSON)


async def change(it, name="tour", **row):
    return await it.rest.patch(f"/$SYS/replays/{name}", json.dumps(row).encode(), **JSON)


async def listener(it, door=Mqtt, text="$replay/tour/#"):
    reader = await it.open(door)
    if door is Mqtt or door is OldMqtt:
        await reader.subscribe(text)
        reader.prefix = "$replay/tour/"
    else:
        await reader.live(text)
    await it.settle()
    return reader


def temps(reader):
    return [told[2]["temp"] for told in reader.told if told[1] and told[2]]


async def test_m6_many_clients_hold_one_shared_replay():
    """M6: each begins with the records of the moment being played; then all get the same."""
    async with replay_server() as it:
        begun = await history(it)
        assert 204 == (await make(it, filter="Sensor/+", **{"from": begun}, speed=2)).status
        first = await listener(it)
        it.loop.advance(12)  # 24 s of the past
        await it.settle()
        assert [-1, 0, 1] == temps(first)
        others = [await listener(it, door) for door in (Mqtt, Ws, Sse)]
        for other in others:
            assert ["snapshot", "current"] == other.kinds
            assert [1] == temps(other)
        it.loop.advance(100)
        await it.settle()
        assert [-1, 0, 1, 2, 3, 4, 5] == temps(first)
        for other in others:
            assert first.told[4:] == other.told[2:]
        row = (await it.rest.get("/$SYS/replays/tour")).value
        assert (2, "playing", "Sensor/+") == (row["speed"], row["state"], row["filter"])


async def test_m6_of_two_that_make_one_at_once_one_is_told():
    """M6: neither gets a success for what the other has replaced; the one that is there plays."""
    async with replay_server() as it:
        begun = await history(it)
        made = [make(it, filter=text, **{"from": begun}) for text in ("Sensor/+", "Sensor/a")]
        answers = await asyncio.gather(*made)
        assert [204, 409] == sorted(answer.status for answer in answers)
        first = 0 if answers[0].status == 204 else 1
        row = (await it.rest.get("/$SYS/replays/tour")).value
        assert ("Sensor/+", "Sensor/a")[first] == row["filter"]
        assert "send yours again" in answers[1 - first].value["detail"]


async def test_m6_a_seek_in_one_that_is_deleted_meanwhile_is_no_success():
    """M6: the log is read for the new place, which takes as long as others need to end it."""
    async with replay_server() as it:
        begun = await history(it)
        assert 204 == (await make(it, filter="Sensor/+", **{"from": begun})).status
        sought, ended = await asyncio.gather(
            change(it, at=begun + 10_000), it.rest.delete("/$SYS/replays/tour")
        )
        assert [409, 204] == [sought.status, ended.status]


async def test_m6_those_made_at_once_are_no_more_than_are_allowed():
    async with replay_server(settings=ReplaySection(max=2)) as it:
        begun = await history(it)
        names = [f"tour{number}" for number in range(4)]
        made = [make(it, name, filter="Sensor/+", **{"from": begun}) for name in names]
        answers = await asyncio.gather(*made)
        assert [204, 204, 503, 503] == sorted(answer.status for answer in answers)


async def test_m6_a_patch_pauses_seeks_and_changes_the_speed_for_all():
    """M6: by any door that writes the row."""
    async with replay_server() as it:
        begun = await history(it)
        await make(it, filter="Sensor/+", **{"from": begun})
        readers = [await listener(it), await listener(it, Ws)]
        it.loop.advance(11)
        await it.settle()
        assert 204 == (await change(it, state="paused")).status
        it.loop.advance(1000)
        await it.settle()
        for reader in readers:
            assert [-1, 0] == temps(reader)
        assert "paused" == (await it.rest.get("/$SYS/replays/tour")).value["state"]
        late = await listener(it)
        assert [0] == temps(late)
        await change(it, at=begun + 35_000)  # still paused
        await it.settle()
        for reader in (*readers, late):
            assert 2 == temps(reader)[-1]
            assert ["snapshot", "current"] == reader.kinds[-2:]
        row = {"state": "playing", "speed": 10}
        await readers[1].say(id=9, op="patch", topic="$SYS/replays/tour", value=row)
        await it.settle()
        it.loop.advance(0.6)
        await it.settle()
        for reader in readers:
            assert 3 == temps(reader)[-1]
        await change(it, at=it.cursor(2), speed=0)
        await it.settle()
        for reader in (*readers, late):
            assert [0, 1, 2, 3, 4, 5] == temps(reader)[-6:]
            assert "end" == reader.kinds[-1]


@pytest.mark.parametrize("to", [20_000, 90_000, None, "cursor"])
async def test_m6_the_moment_of_a_row_stops_at_the_end(to):
    """M6: where it was asked to end, or when it was made; also for who seeks in it afterwards."""
    async with replay_server() as it:
        begun = await history(it)
        made = round(it.server.time * 1000)
        end = {"cursor": it.cursor(3), None: "now"}.get(to) or begun + to
        await make(it, filter="Sensor/+", **{"from": begun, "to": end})
        it.loop.advance(7)
        row = (await it.rest.get("/$SYS/replays/tour")).value
        assert time_text((begun + 1 + 7000) / 1000) == row["at"]
        it.loop.advance(100_000)
        last = begun + to if to == 20_000 else made
        for _ in range(2):
            row = (await it.rest.get("/$SYS/replays/tour")).value
            assert time_text(last / 1000) == row["at"]
            await change(it, state="paused")
        await change(it, at=begun + 5_000, state="playing")
        row = (await it.rest.get("/$SYS/replays/tour")).value
        assert time_text((begun + 5_001) / 1000) == row["at"]


async def test_m6_a_removed_shared_replay_ends_for_its_subscribers():
    """M6."""
    async with replay_server() as it:
        begun = await history(it)
        answer = await it.rest.post(
            "/$SYS/replays/",
            json.dumps({"filter": "Sensor/+", "from": begun}).encode(),
            **JSON,
        )
        assert 200 == answer.status
        name = answer.value
        reader = await it.open(Ws)
        await reader.live(f"$replay/{name}/#")
        await it.settle()
        assert 204 == (await it.rest.delete(f"/$SYS/replays/{name}")).status
        await it.settle()
        assert ["snapshot", "current", "end"] == reader.kinds
        assert "was removed" in reader.told[-1][2]["reason"]
        assert 404 == (await it.rest.delete(f"/$SYS/replays/{name}")).status
        assert 404 == (await change(it, name)).status


@pytest.mark.parametrize(
    ("name", "row", "said"),
    [
        ("tour", {"from": "-1h"}, "filter is a topic filter"),
        ("tour", {"filter": "$SYS/#", "from": "-1h"}, "filter is a topic filter"),
        ("tour", {"filter": "Sensor/+"}, "from is a time"),
        ("tour", {"filter": "Sensor/+", "from": "-1h", "speed": 0.01}, "speed is a number"),
        ("tour", {"filter": "Sensor/+", "from": "-1h", "state": "off"}, "state is playing"),
        ("tour", {"filter": "Sensor/+", "from": "-1h", "form": 1}, "has no 'form'"),
        ("2026", {"filter": "Sensor/+", "from": "-1h"}, "is no id of a replay"),
        ("now", {"filter": "Sensor/+", "from": "-1h"}, "is no id of a replay"),
    ],
)
async def test_m6_a_row_that_cannot_be_is_refused_in_words(name, row, said):
    """M6, P5."""
    async with replay_server() as it:
        await history(it)
        answer = await make(it, name, **row)
        assert 400 == answer.status
        assert said in answer.value["detail"]
        assert [] == (await it.rest.get("/$SYS/replays/")).value


async def test_m6_what_a_shared_replay_has_not_is_refused():
    """M6: other topics, and a change of what it is."""
    async with replay_server() as it:
        begun = await history(it)
        await make(it, filter="Sensor/+", **{"from": begun})
        reader = await listener(it, Ws, "$replay/tour/home/#")
        assert "and not all of" in reader.replies[-1]["error"]["detail"]
        await reader.say(id=2, op="subscribe", topic="$replay/tour/Sensor/a")
        await reader.say(id=3, op="pause", replay=1)
        await it.settle()
        assert [-1] == temps(reader)
        assert "this replay is shared" in reader.replies[-1]["error"]["detail"]
        answer = await change(it, filter="#")
        assert (400, True) == (answer.status, "cannot be changed" in answer.value["detail"])


async def test_m6_only_its_owner_and_administrators_change_a_shared_replay():
    """M6, M9: others may subscribe to it."""
    async with replay_server() as it:
        ann, ben = (Caller(name, BOTH, "http") for name in ("ann", "ben"))
        root = Caller("root", ALL, "http")
        topic, row = "$SYS/replays/tour", {"filter": "Sensor/+", "from": await history(it)}
        await it.write(topic, row, caller=ann)
        for kind, value in ((PUT, row), (PATCH, {"state": "paused"}), (DELETE, None)):
            assert Code.DENIED is await refusal(it.write(topic, value, kind, ben)), kind
        await it.write(f"{topic}2", row, caller=ben)
        await it.write(topic, {"state": "paused"}, PATCH, root)
        await it.write(topic, None, DELETE, ann)
        assert ["tour2"] == list(it.server.replays.shared.rows)


@pytest.mark.parametrize("schema", [SCHEMA, RULED], ids=["open", "@auth"])
async def test_m6_who_may_write_nothing_makes_no_shared_replay(schema):
    """M6, M9: also where rules or @auth decide who may write what; a rule that allows is enough."""
    async with replay_server(schema=schema) as it:
        row = {"filter": "Sensor/+", "from": await history(it)}
        reader = Caller("ro", Grants(read=True, write=False), "http")
        for topic in ("$SYS/replays/tour", "$SYS/replays"):
            assert Code.DENIED is await refusal(it.write(topic, row, caller=reader)), topic
        assert {} == it.server.replays.shared.rows
        allowed = {"filter": "own/#", "effect": "allow", "actions": ["write"], "users": ["ro"]}
        await it.write("$SYS/rules/own", allowed, caller=ROOT)
        await it.write("$SYS/replays/tour", row, caller=reader)
        assert ["tour"] == list(it.server.replays.shared.rows)
