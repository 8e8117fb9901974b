"""The change feed: old and new, for each row and for each statement (H28)."""

import json

import pytest
from bridged import ANN, reading, server, to
from pydantic import ValidationError

from remote_broker import NEEDS_MOSQUITTO, RemoteBroker
from rowcast.core.events import DELETE, PATCH, PUT, Event
from rowcast.program.settings.gateway import GatewaySettings

pytestmark = NEEDS_MOSQUITTO
META = ("_operation", "_table", "_count")
SCHEMA = (
    "type Dog @table @export {\n  id: ID @primaryKey\n  name: String\n  chip: String @hidden\n}\n"
    "type Cat @table @export {\n  id: ID @primaryKey\n}\n"
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


@pytest.fixture
def broker(tmp_path):
    (tmp_path / "there").mkdir()
    with RemoteBroker(tmp_path / "there") as running:
        yield running


def feeding(broker, feed, *filters, **more):
    out = [{"filter": text, "prefix": "changes/", "feed": feed} for text in filters]
    return to(broker, **more) | {"out": out}


def dog(number, name=None, kind=PUT):
    value = b"" if kind == DELETE else json.dumps({"name": name, "chip": "secret"}).encode()
    return Event(f"Dog/{number}", kind, value, "application/json", 1, True)


def told(heard):
    return [(topic, json.loads(payload)) for topic, payload in heard]


def of(change):
    return (change["_operation"], change["old"] and change["old"].get("name"),
            change["new"] and change["new"].get("name"))  # fmt: skip


async def test_each_row_with_old_and_new(broker, folder):
    """H28: put, patch and delete; messages are no changes; what is hidden stays so (A9)."""
    plan = feeding(broker, "row", "Dog/#", "u/#")
    async with server(folder, plan, schema_text=SCHEMA) as world, reading(broker) as reader:
        await world.idle()
        write = world.kernel.write
        first = await write(dog(1, "Rex"), ANN)
        await write(dog(1, "Max"), ANN)
        await write(Event("Dog/1", PATCH, b'{"name":"Bo"}', "application/json", 1, True), ANN)
        await world.say("Dog/1", b'{"name":"only said"}')
        await write(dog(1, kind=DELETE), ANN)
        await write(dog(1, "Ann"), ANN)
        await world.put("u/x", b"plain")
        changes = told(await reader.wait(6))
        await world.idle()
        letters = world.bridge.dead
    changes.sort(key=lambda change: change[0])  # each topic has an order, but only its own
    assert (["changes/Dog/1"] * 5 + ["changes/u/x"], 0) == (
        [topic for topic, _ in changes],
        letters,
    )
    assert [
        ("INSERT", None, "Rex"), ("UPDATE", "Rex", "Max"), ("UPDATE", "Max", "Bo"),
        ("DELETE", "Bo", None), ("INSERT", None, "Ann"),
    ] == [of(change) for _, change in changes[:5]]  # fmt: skip
    assert {("Dog", 1)} == {(each["_table"], each["_count"]) for _, each in changes[:5]}
    assert (None, "plain") == (changes[5][1]["old"], changes[5][1]["new"])
    assert changes[0][1]["_txid"] == world.kernel.cursor(first.event.seq)
    assert changes[0][1]["_timestamp"].startswith("20")
    assert "secret" not in str(changes)
    assert not any(each["retain"] for each in reader.properties)


async def test_a_statement_is_one_message(broker, folder):
    """H28: an atomic batch of one table, also where it has rows of others, over an outage."""
    plan = feeding(broker, "statement", "Dog/#")
    async with server(folder, plan, schema_text=SCHEMA) as world:
        await world.idle()
        broker.kill()
        await world.until(lambda: not world.bridge.connected)
        cat = Event("Cat/1", PUT, b"{}", "application/json", 1, True)
        batch = [dog(1, "a"), cat, dog(2, "b"), dog(3, "c")]
        await world.kernel.write_all(batch, ANN, atomic=True)
        await world.kernel.write(dog(2, "d"), ANN)
        both = [dog(1, kind=DELETE), dog(2, "e"), dog(2, "f"), cat]
        await world.kernel.write_all(both, ANN, atomic=True)
    broker.start()
    async with reading(broker) as reader, server(folder, plan, schema_text=SCHEMA) as world:
        await world.idle()
        changes = told(await reader.wait(3))
        assert 3 == len(reader.heard)
    assert ["changes/Dog"] * 3 == [topic for topic, _ in changes]
    assert [("INSERT", "Dog", 3), ("UPDATE", "Dog", 1), ("MIXED", "Dog", 3)] == [
        tuple(change[name] for name in META) for _, change in changes
    ]
    rows = [
        [(row["topic"], row["old"] and row["old"]["name"], row["new"] and row["new"]["name"])
         for row in change["rows"]]
        for _, change in changes
    ]  # fmt: skip
    assert [
        [("Dog/1", None, "a"), ("Dog/2", None, "b"), ("Dog/3", None, "c")],
        [("Dog/2", "b", "d")],
        [("Dog/1", "a", None), ("Dog/2", "d", "e"), ("Dog/2", "e", "f")],
    ] == rows
    assert 3 == len({change["_txid"] for _, change in changes})


async def test_statements_of_a_table_are_in_order(broker, folder):
    """H28, X13: they go to one topic there, so they are one lane here."""
    plan = feeding(broker, "statement", "Dog/#")
    async with server(folder, plan, schema_text=SCHEMA) as world, reading(broker) as reader:
        await world.idle()
        for number in range(100):
            await world.kernel.write(dog(number % 10, str(number)), ANN)
        changes = told(await reader.wait(100))
    assert list(map(str, range(100))) == [each["rows"][0]["new"]["name"] for _, each in changes]


async def test_a_topic_that_is_no_more_does_not_stop_the_server(broker, folder):
    """H28, H21: what waits may be older than the schema."""
    plan = feeding(broker, "statement", "u/#")
    broker.kill()
    async with server(folder, plan, schema_text=SCHEMA) as world:
        await world.put("u/x", b"old")
    broker.start()
    async with (
        reading(broker) as reader,
        server(folder, plan, schema_text=SCHEMA, topics={"undeclared": "reject"}) as world,
    ):
        ((topic, change),) = told(await reader.wait(1))
        await world.idle()
    assert ("changes/u/x", "old") == (topic, change["rows"][0]["new"])


async def test_the_first_filter_that_fits_decides(broker, folder):
    """H28: values where they are asked for first."""
    out = [{"filter": "Dog/1"}, {"filter": "Dog/#", "feed": "row"}]
    plan = to(broker) | {"out": out}
    async with server(folder, plan, schema_text=SCHEMA) as world, reading(broker) as reader:
        await world.idle()
        for number in (1, 2):
            await world.kernel.write(dog(number, "Rex"), ANN)
        heard = dict(told(await reader.wait(2)))
    assert {"id": "1", "name": "Rex"} == heard["Dog/1"]
    assert {"id": "2", "name": "Rex"} == heard["Dog/2"]["new"]


@pytest.mark.parametrize("text", ["#", "Dog/+", "Dog/1", "+/#"])
def test_a_statement_is_of_a_whole_table(text):
    """H28, H30: or a part of it would be told as if it were all."""
    out = [{"filter": text, "feed": "statement"}]
    with pytest.raises(ValidationError, match="whole table"):
        GatewaySettings.model_validate({"brokers": [{"name": "b", "host": "h", "out": out}]})
