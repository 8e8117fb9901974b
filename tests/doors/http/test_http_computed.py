"""Computed attributes over REST: told everywhere, stored and written nowhere (A9, B8)."""

import csv
import io
import json

import pytest

from asgi import Asgi, asgi
from build import EPOCH, Server
from rightful import ANN, Rightful
from rowcast.codecs import CBOR, JSON, MSGPACK, NDJSON
from rowcast.core.errors import Error
from rowcast.core.query_text import parse_query
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.routes.resource import Resource
from rowcast.schema import parse_schema
from rowcast.store.sqlite import SqlStore

SCHEMA = """
type Order @table @export {
  id: ID @primaryKey
  price: Float
  quantity: Int
  cost: Decimal
  total: Float @computed(from: "price * quantity")
  tax: Decimal @decimal(precision: 12, scale: 2) @computed(from: "cost * 0.19")
  label: String @computed(from: "'order ' + id")
  large: Boolean @computed(from: "total > 10")
  secret: Int @hidden
  inner: Int @hidden @computed(from: "secret + 1")
  customer_id: ID
  customer: Customer @relationship(from: "customer_id")
}
type Customer @table @export {
  id: ID @primaryKey
  first: String
  last: String
  name: String @computed(from: "first + ' ' + last")
}
"""
ORDERS = {
    "1": {"price": 2.5, "quantity": 4, "cost": "1.05", "secret": 1, "customer_id": "a"},
    "2": {"price": 5.0, "quantity": 4, "cost": "2.00"},
    "3": {"price": 1.0},
}


@pytest.fixture(params=["memory", "sqlite"])
async def rest(request, tmp_path):
    store = SqlStore(tmp_path, epoch=EPOCH) if request.param == "sqlite" else None
    server = Server(parse_schema(SCHEMA).tables, topics=TopicSettings(), store=store)
    opened = Asgi(server.make_edge(), server.store)
    await opened.put("/Customer/a", b'{"first":"Ann","last":"Lee"}')
    for number, value in ORDERS.items():
        answer = await opened.put(f"/Order/{number}", json.dumps(value).encode())
        assert answer.status == 201
    yield opened
    await server.stop()
    if store is not None:
        store.close()


async def value(rest, path, **headers):
    got = await rest.get(path, **headers)
    assert got.status == 200, got.body
    return got.value


async def test_a9_a_record_has_its_computed_values(rest):
    """A9: also null for what is missing; nothing hidden."""
    told = await value(rest, "/Order/1")
    assert {"total": 10.0, "tax": "0.20", "label": "order 1", "large": False} == {
        name: told[name] for name in ("total", "tax", "label", "large")
    }
    assert {"secret", "inner"}.isdisjoint(told)
    told = await value(rest, "/Order/3")
    assert (None, None, None) == (told["total"], told["tax"], told["large"])


@pytest.mark.parametrize("media_type", [JSON, CBOR, MSGPACK, NDJSON])
async def test_a9_a_list_has_them_in_each_format(rest, media_type):
    rows = await value(rest, "/Order/", accept=media_type)
    assert [10.0, 20.0, None] == [row["total"] for row in rows]
    got = await rest.get("/Order/.csv")
    first = next(csv.DictReader(io.StringIO(got.body.decode())))
    assert ("10.0", "order 1") == (first["total"], first["label"])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select(total)", [10.0, 20.0, None]),
        ("select(id,total)&limit(1)", [{"id": "1", "total": 10.0}]),
        ("total=gt=10&select(id)", ["2"]),
        ("total=ge=10&total=lt=20&select(id)", ["1"]),
        ("total==null&select(id)", ["3"]),
        ("tax=gt=0.2&select(id)", ["2"]),
        ("large=true&select(id)", ["2"]),
        ("label=sw=order&sort(-total)&select(id)", ["2", "1", "3"]),
        ("[total=10|total=20]&sort(-label)&select(id)", ["2", "1"]),
        ("total=in=(20,30)&select(id)", ["2"]),
        ("select(id,customer{name})&id=1", [{"id": "1", "customer": {"name": "Ann Lee"}}]),
        ("customer.name=Ann Lee&select(id)", ["1"]),
        ("group(large,count(),sum(total))&total!=null", [
            {"large": False, "count()": 1, "sum(total)": 10.0},
            {"large": True, "count()": 1, "sum(total)": 20.0},
        ]),
    ],
)  # fmt: skip
async def test_a9_queries_select_compare_and_sort_by_them(rest, query, expected):
    """A9, B8: the same in memory and in SQL."""
    assert expected == await value(rest, f"/Order/?{query.replace(' ', '%20')}")


async def test_a9_pages_of_an_order_by_one_neither_repeat_nor_skip(rest):
    found, path = [], "/Order/?sort(-total)&select(id)&limit(1)"
    for _ in range(3):
        got = await rest.get(path)
        found += got.value
        path = got.headers.get("link", "").partition(">")[0].lstrip("<")
    assert (["2", "1", "3"], "") == (found, path)


async def test_b8_a_property_of_a_record_may_be_computed(rest):
    assert await value(rest, "/Order/1.total") == 10.0
    assert await value(rest, "/Order/1.label") == "order 1"


async def test_a9_they_are_not_stored(rest):
    record = await rest.kernel.read("Order/1", ANN)
    assert b"total" not in record.payload
    assert "total" not in record.decoded


@pytest.mark.parametrize("verb", ["put", "patch"])
async def test_a9_a_write_that_gives_one_is_refused(rest, verb):
    got = await rest.ask(verb.upper(), "/Order/1", b'{"total": 1}')
    assert got.status == 422
    assert "total: is computed; it cannot be written, so leave it out" in got.value["detail"]
    assert await value(rest, "/Order/1.total") == 10.0


async def test_a9_they_follow_each_write(rest):
    await rest.patch("/Order/1", b'{"quantity": 6}')
    assert await value(rest, "/Order/1?select(total,large)") == {"total": 15.0, "large": True}


async def test_a9_what_is_deleted_by_a_condition_may_be_computed(rest):
    got = await rest.delete("/Order/?total=gt=15&confirm=1")
    assert got.status == 200, got.body
    assert [10.0, None] == await value(rest, "/Order/?select(total)")


async def test_a9_history_has_them_as_of_each_event(rest):
    await rest.patch("/Order/1", b'{"quantity": 6}')
    told = await value(rest, "/Order/1?last=5&select(total)")
    assert [10.0, 15.0] == sorted(item["value"] for item in told)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("inner=1", "has no attribute"),
        ("total.x=1", "total is computed, and has no keys"),
        ("total=ten", "is not a number"),
        ("total=sw=1", "only text has a beginning"),
    ],
)
async def test_a9_wrong_conditions_on_them_are_refused(rest, query, message):
    got = await rest.get(f"/Order/?{query}")
    assert got.status == 400
    assert message in got.value["detail"]


async def test_a9_openapi_has_them_as_read_only(rest):
    schemas = (await value(rest, "/openapi.json"))["components"]["schemas"]
    assert schemas["Order"]["properties"]["total"] == {
        "type": ["number", "null"], "format": "double", "readOnly": True,
    }  # fmt: skip


class Order(Resource):
    async def put(self, value):
        assert "total" not in value
        return await super().put(value | {"quantity": 8})


async def test_a9_a_resource_is_given_what_was_sent():
    """The value that it passes on would be refused with computed attributes in it."""
    async with asgi(SCHEMA, resources=[Order]) as opened:
        assert (await opened.put("/Order/1", b'{"price": 2}')).status == 201
        assert await value(opened, "/Order/1.total") == 16.0


async def test_a9_who_may_not_see_an_input_cannot_find_it_out():
    """A9, L7: it is null for them, and not to be compared or sorted by."""
    schema = """type Order @table @export {
      id: ID @primaryKey
      price: Float @auth(roles: ["vet"])
      total: Float @computed(from: "price * 2")
    }"""
    world = Rightful(schema)
    await world.write("Order/1", {"price": 2.0})
    assert (await world.value("Order/1", ANN))["total"] is None
    table = world.tables[0]
    for text in ("total=gt=1", "sort(total)"):
        with pytest.raises(Error, match="that you may compare or sort by"):
            await world.kernel.search(table, parse_query(text, table), ANN)
    await world.stop()
