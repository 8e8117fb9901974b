"""Counts, sums and means by group over REST (B19)."""

import csv
import io
import json

import pytest

from asgi import asgi
from build import ANN, Server
from rightful import ANN as OWNER
from rightful import VET, Rightful
from rowcast.codecs import CBOR, CBOR_SEQ, JSON, MSGPACK, NDJSON
from rowcast.core.errors import Error
from rowcast.core.query_text import parse_query
from rowcast.features.hooks.hook import Hook
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.undeclared_topics.topic_tables import TopicSettings

DOGS = [("1", "Rex", 3, "1.50"), ("2", "Rex", 5, "2.50"), ("3", "Ada", 7, None)]


@pytest.fixture
async def rest():
    async with asgi() as opened:
        for record_id, name, age, weight in DOGS:
            body = {"name": name, "age": age, "weight": weight, "born": "2026-01-31T12:00:00Z"}
            await opened.put(f"/Dog/{record_id}", json.dumps(body).encode())
        yield opened


@pytest.mark.parametrize("media_type", [JSON, CBOR, MSGPACK, NDJSON, CBOR_SEQ])
async def test_groups_of_a_collection(rest, media_type):
    """B19, B3: a row for each group, in the order of its values."""
    got = await rest.get("/Dog/?group(name,count(),avg(age))", accept=media_type)
    assert (got.status, got.media_type) == (200, media_type)
    assert got.value == [
        {"name": "Ada", "count()": 1, "avg(age)": 7.0},
        {"name": "Rex", "count()": 2, "avg(age)": 4.0},
    ]


@pytest.mark.parametrize("media_type", [JSON, CBOR, MSGPACK, NDJSON, CBOR_SEQ])
async def test_a_sum_of_many_digits_is_exact_in_every_format(rest, media_type):
    """B19: of more than a Decimal may have, it is text."""
    for number, weight in enumerate(["1E+40", "0.1"]):
        body = json.dumps({"name": "Big", "weight": weight}).encode()
        assert 201 == (await rest.put(f"/Dog/big{number}", body)).status
    got = await rest.get("/Dog/?name==Big&group(sum(weight))", accept=media_type)
    assert got.value == [{"sum(weight)": f"1{'0' * 40}.1"}]


async def test_values_are_spelled_as_in_records(rest):
    """A19: times and decimals are text in JSON."""
    got = await rest.get("/Dog/?age=lt=6&group(born,sum(weight))")
    assert got.value == [{"born": "2026-01-31T12:00:00Z", "sum(weight)": "4.00"}]
    got = await rest.get("/Dog/.csv?group(name,max(weight),count())")
    assert list(csv.reader(io.StringIO(got.body.decode()))) == [
        ["name", "max(weight)", "count()"],
        ["Ada", "", "1"],
        ["Rex", "2.50", "2"],
    ]


async def test_conditions_and_prefixes_select_before(rest):
    await rest.put("/Dog/a/1", b'{"name":"Bo"}')
    assert (await rest.get("/Dog/?name=Rex&group(count())")).value == [{"count()": 2}]
    assert (await rest.get("/Dog/a/?group(count())")).value == [{"count()": 1}]
    assert (await rest.get("/Dog/?name=None&group(count(),max(age))")).value == [
        {"count()": 0, "max(age)": None}
    ]
    assert (await rest.get("/Dog/?name=None&group(name,count())")).value == []
    head = await rest.head("/Dog/?group(name)")
    assert (head.status, head.body) == (200, b"")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("group(colour)", "colour"),
        ("group(count(),max(colour))", "colour"),
        ("group(secret)", "no attribute"),
        ("group(name)&count", "no count"),
        ("group(name)&meta", "no meta"),
    ],
)
async def test_a_mistake_is_told(rest, query, words):
    """P5: also a name that no record has."""
    refused = await rest.get(f"/Dog/?{query}")
    assert (refused.status, words in refused.value["detail"]) == (400, True), refused.value


async def test_undeclared_attributes_are_grouped(rest):
    await rest.put("/Dog/4", b'{"name":"Di","toy":"ball"}')
    got = await rest.get("/Dog/?group(toy,count())")
    assert got.value == [{"toy": "ball", "count()": 1}, {"toy": None, "count()": 3}]


# -- rights ----------------------------------------------------------------------------------------


async def grouped(server, table, text, caller):
    query = parse_query(f"group({text})", table, groups=True)
    return await server.kernel.grouped(table, query, caller)


async def test_groups_are_of_what_the_caller_sees():
    """L12: row rules apply, and what is masked is neither grouped nor added up."""
    server = Rightful()
    table = server.tables[0]
    for number, owner in enumerate(("ann", "ann", "ben")):
        await server.write(f"Dog/{number}", {"owner": owner, "weight": number, "phone": "12345"})
    assert await grouped(server, table, "owner,count()", OWNER) == [{"owner": "ann", "count()": 2}]
    assert len(await grouped(server, table, "owner,sum(weight)", VET)) == 2
    for caller, text in ((OWNER, "sum(weight)"), (OWNER, "weight"), (VET, "phone,count()")):
        with pytest.raises(Error, match="that you may compare"):
            await grouped(server, table, text, caller)


class Withholding(Hook):
    """Withholds some records."""

    id = "withholding"

    def can_read(self, caller, topic):
        return not topic.endswith("2")


async def test_what_a_hook_withholds_is_in_no_group():
    """G6, L12."""
    hooks = Hooks()
    hooks.add(Withholding())
    server = Server(hooks=hooks, reading={"table_scan_records": 2})
    for number in range(5):
        await server.put(f"Dog/{number}", b'{"name":"%d","age":%d}' % (number % 2, number))
    rows = await grouped(server, server.tables[0], "name,count(),sum(age)", ANN)
    assert rows == [
        {"name": "0", "count()": 2, "sum(age)": 4},
        {"name": "1", "count()": 2, "sum(age)": 4},
    ]


async def test_rows_of_topic_tables_are_grouped():
    """F3: as any collection."""
    server = Server(topics=TopicSettings())
    for topic in ("home/a", "home/b", "home/a"):
        await server.say(topic, b"1", qos=1)
    table = server.registry.shapes["mqtt_home"].table
    assert await grouped(server, table, "topic,count()", ANN) == [
        {"topic": "home/a", "count()": 2},
        {"topic": "home/b", "count()": 1},
    ]
