"""Computed attributes on the doors that watch, and in the conditions of live queries (A9, M3)."""

import json

import pytest
from query_readers import DOORS, Mqtt, Sse, Ws, query_server

from mqtt_server import Peer
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.mqtt.packets import Connect, Puback, Publish, Subscribe, Subscription
from rowcast.schema import parse_schema

SCHEMA = """
type Order @table @export {
  id: ID @primaryKey
  price: Float
  quantity: Int
  total: Float @computed(from: "price * quantity")
}
"""


def put(number, **value):
    body = json.dumps(value).encode()
    return Event(f"Order/{number}", PUT, body, "application/json", 1, True)


@pytest.fixture
async def orders():
    (table,) = parse_schema(SCHEMA).tables
    async with query_server(table) as opened:
        await opened.write(put("1", price=2.0, quantity=4))
        await opened.write(put("2", price=2.0, quantity=40))
        yield opened


@pytest.mark.parametrize("door", [Sse, Ws, Mqtt])
async def test_a9_a_live_query_compares_them(orders, door):
    """A9, M3: by each write a record enters, changes and leaves; each door tells the value."""
    await orders.open("total=gt=10", [door])
    (reader,) = orders.readers
    assert [80.0] == [item["total"] for item in reader.records.values()]
    for quantity in (6, 7, 1):
        await orders.write(put("1", price=2.0, quantity=quantity))
        await orders.settle()
    heard = [kind for kind in reader.heard if kind != "current"]
    assert ["snapshot", "enter", "change", "leave"] == heard


async def test_a9_each_door_tells_what_rest_tells(orders):
    await orders.open("total=gt=10", DOORS)
    await orders.check()
    await orders.write(put("3", price=3.0, quantity=9))
    await orders.settle()
    await orders.check()
    assert all(len(reader.records) == 2 for reader in orders.readers)


async def test_a9_a_window_is_ordered_by_them(orders):
    """A9, M3: the two largest totals, as they come and go."""
    await orders.open("sort(-total)&limit(2)", [Sse, Ws, Mqtt])
    await orders.check()
    await orders.write(put("3", price=3.0, quantity=9))
    await orders.settle()
    await orders.check()
    assert {"Order/2", "Order/3"} == orders.readers[0].records.keys()


@pytest.mark.parametrize("version", [4, 5])
async def test_a9_mqtt_tells_them_of_records_kept_and_new(orders, version):
    """A9: what is published has them; a message, which is no record, is as it was sent."""
    peer = Peer(orders.server, version)
    peer.send(Connect(version, "c"), Subscribe(7, (Subscription("Order/+", 0),)))
    await orders.settle()
    kept = [item for item in peer.heard() if isinstance(item, Publish)]
    assert {8.0, 80.0} == {json.loads(item.payload)["total"] for item in kept}
    await orders.write(put("1", price=2.0, quantity=5))
    await orders.write(Event("Order/1", MESSAGE, b'{ "price":1.5 }', "application/json", 0, False))
    await orders.settle()
    record, message = (item.payload for item in peer.heard())
    assert {"id": "1", "price": 2.0, "quantity": 5, "total": 10.0} == json.loads(record)
    assert message == b'{ "price":1.5 }'


async def test_a9_mqtt_refuses_a_write_that_gives_one(orders):
    peer = Peer(orders.server, 5)
    peer.send(Connect(5, "c"))
    peer.send(Publish("Order/9", b'{"total": 1}', 1, True, False, 3, None))
    await orders.settle()
    (answer,) = [item for item in peer.heard() if isinstance(item, Puback)]
    assert answer.reason >= 0x80
    assert "total: is computed; it cannot be written" in str(answer.properties)
