"""Values of full depth, and long answers, of the whole program to its client (B7, O10)."""

import asyncio
from contextlib import aclosing

import pytest

from rowcast.core.limits import VALUE_DEPTH_MAX, VALUE_PARTS_MAX
from rowcast_client import Rowcast, SyncRowcast
from serving import application

SCHEMA = """
type Owner @table @export {
  id: ID @primaryKey
  dogs: [Dog] @relationship(to: "owner_id")
}
type Dog @table @export {
  id: ID @primaryKey
  owner_id: ID @indexed
  owner: Owner @relationship(from: "owner_id")
  any: Any
}
type Loose @table @export
"""
FORMATS = ("json", "cbor", "msgpack")


def nested(levels):
    """Return lists inside each other, so many."""
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


DEEP = {"any": nested(VALUE_DEPTH_MAX - 1)}


@pytest.fixture
async def program(tmp_path):
    async with application(tmp_path, SCHEMA) as running:
        yield running


@pytest.fixture(params=FORMATS)
async def rows(program, request):
    url = f"http://127.0.0.1:{program.http_port}"
    async with Rowcast(url, format=request.param) as client:
        await client.put("Owner/ann", {})
        await client.put("Dog/1", {**DEEP, "owner_id": "ann"})
        await client.put("Loose/1", nested(VALUE_DEPTH_MAX))
        yield client


async def test_b7_a_value_of_full_depth_leaves_lists_and_history_readable(rows):
    """B7: what wraps a value is not counted with its levels."""
    dog = {"id": "1", "owner_id": "ann", **DEEP}
    assert [dog] == (await rows.query("Dog")).rows
    assert dog == (await rows.history("Dog/1")).events[0]["value"]
    whole = nested(VALUE_DEPTH_MAX)
    assert whole == (await rows.query("Loose")).rows[0]["value"]
    assert whole == (await rows.get("Loose/1", "meta=true")).value["value"]
    found = (await rows.query("Dog", "select(id,owner(dogs(any,owner(id))))")).rows
    assert DEEP["any"] == found[0]["owner"]["dogs"][0]["any"]


async def test_b7_a_value_of_full_depth_does_not_end_a_stream(rows):
    async with aclosing(rows.subscribe("Dog/#")) as events:
        first = await anext(events)
        await anext(events)
        await rows.put("Dog/2", DEEP)
        assert DEEP["any"] == first.value["any"] == (await anext(events)).value["any"]


async def test_o10_a_long_list_is_read_whole(program):
    """O10: the limit of parts is one of values that are written, not of answers."""
    rows = [{"id": str(n), **{f"a{m}": n for m in range(50)}} for n in range(2_500)]
    assert VALUE_PARTS_MAX < len(rows) * 50

    def read():
        with SyncRowcast(f"http://127.0.0.1:{program.http_port}") as client:
            client.upsert("Dog", rows)
            return client.query("Dog", "limit(10000)").rows

    assert len(rows) == len(await asyncio.to_thread(read))
