"""New records under new ids (A3)."""

import asyncio
from uuid import UUID

import pytest

from build import ANN, TABLES, Code, Server, refusal
from memory_store import MemoryStore
from rowcast.codecs import RAW
from rowcast.core.errors import Error
from rowcast.core.events import PUT, Event
from rowcast.core.tables import Table
from rowcast.routes.resource import Resource


def create(room, topic="Dog", payload=b"{}", content_type=None):
    event = Event(topic, PUT, payload, content_type, 1, True)
    return room.kernel.create(topic, event, ANN)


async def test_a_uuid_is_made():
    receipt = await create(Server())
    assert UUID(receipt.event.topic.removeprefix("Dog/")).version == 4
    assert receipt.event.decoded["id"] == receipt.event.topic.removeprefix("Dog/")


async def test_the_bodys_own_id_counts_and_is_taken_once():
    room = Server()
    receipt = await create(room, payload=b'{"id":"rex"}')
    assert "Dog/rex" == receipt.event.topic
    with pytest.raises(Error) as raised:
        await create(room, payload=b'{"id":"rex"}')
    assert (Code.CONFLICT, receipt.event.seq) == (raised.value.code, raised.value.detail["seq"])


async def test_integers_go_on_from_the_greatest():
    store = MemoryStore("0badcafe")
    room = Server(store=store)
    await room.put("Counter/41")
    topics = [(await create(room, "Counter")).event.topic for _ in range(2)]
    assert ["Counter/42", "Counter/43"] == topics
    assert "Counter/44" == (await create(Server(store=store), "Counter")).event.topic


async def test_integers_begin_with_one():
    room = Server()
    await room.put("Counter/-5")
    assert "Counter/1" == (await create(room, "Counter")).event.topic


async def test_many_at_once_get_one_each():
    room = Server()
    receipts = await asyncio.gather(*(create(room, "Counter") for _ in range(20)))
    assert {f"Counter/{number}" for number in range(1, 21)} == {
        receipt.event.topic for receipt in receipts
    }


async def test_numbers_that_others_wrote_are_passed_over():
    """However many they are."""
    room = Server()
    await create(room, "Counter")
    for number in range(2, 22):
        await room.put(f"Counter/{number}")
    assert "Counter/22" == (await create(room, "Counter")).event.topic


async def test_it_gives_up_when_every_id_is_taken(monkeypatch):
    monkeypatch.setattr("rowcast.kernel.creation.uuid4", lambda: "same")
    room = Server()
    await create(room)
    assert Code.BUSY == await refusal(create(room))


@pytest.mark.parametrize(
    ("topic", "payload", "content_type", "expected"),
    [
        ("Dog/1", b"{}", None, Code.NOT_ALLOWED),
        ("u", b"{}", None, Code.NOT_ALLOWED),
        ("Dog", b"{", None, Code.INVALID),
        ("Dog", b'{"age":"old"}', None, Code.UNPROCESSABLE),
        ("Dog", b"x", RAW, Code.UNSUPPORTED),
        ("Dog", b"[]", None, Code.UNPROCESSABLE),
    ],
)
async def test_what_cannot_be_created(topic, payload, content_type, expected):
    assert expected == await refusal(create(Server(), topic, payload, content_type))


async def test_a_table_without_a_key_has_uuids_too():
    room = Server((*TABLES, Table("Bag", "Bag")))
    receipt = await create(room, "Bag", b'{"id":"x"}')
    assert UUID(receipt.event.topic.removeprefix("Bag/"))


async def test_a_null_is_no_id():
    room = Server()
    assert "Note/None" != (await create(room, "Note", b'{"id":null}')).event.topic


async def test_a_resource_does_not_make_it_forget_that_the_id_must_be_free():
    class Dog(Resource):
        async def put(self, value):
            return await super().put(value)

    room = Server(resources=[("Dog", Dog)])
    await create(room, payload=b'{"id":"rex"}')
    assert Code.CONFLICT == await refusal(create(room, payload=b'{"id":"rex"}'))


async def test_a_plain_value_can_be_created():
    receipt = await Server().kernel.create_value("Dog", {"name": "Rex"}, ANN)
    assert "Rex" == receipt.event.decoded["name"]
