"""A Decimal that is a JSON number keeps its digits, whatever the number is inside of (A19)."""

import json
from decimal import Decimal

import pytest

from asgi import asgi
from http_server import HttpServer
from rowcast.codecs import CBOR, encode
from rowcast.core.tables import Attribute, Table, Type
from rowcast.features.transactions.feature import Transactions
from rowcast.routes.resource import Resource

NUMBERS = [
    "1.2345678901234567890123",
    "1.00000000000000000001",
    "12.50",
    "-0.1000000000000000055511151231257827",
    "12345678901234567.25",
    "1.5E+30",
]
PLAIN = ["12.5", "3", "0.1", "-7.25"]
SENSOR = Table(
    "Sensor",
    "Sensor",
    (
        Attribute("id", Type.ID, primary_key=True),
        Attribute("sum", Type.DECIMAL),
        Attribute("float", Type.FLOAT),
        Attribute(
            "parts",
            Type.LIST,
            items=Attribute(
                "", Type.OBJECT, type_name="Part", fields=(Attribute("cost", Type.DECIMAL),)
            ),
        ),
    ),
)


@pytest.fixture
async def rest():
    async with asgi() as opened:
        Transactions().install(opened.kernel)
        yield opened


async def weight(rest, topic="Dog/1"):
    return (await rest.get(f"/{topic}")).value["weight"]


def dog(number, **more):
    told = "".join(f',"{name}":{json.dumps(value)}' for name, value in more.items())
    return f'{{"name":"Rex","weight":{number}{told}}}'.encode()


async def by_put(rest, number):
    await rest.put("/Dog/1", dog(number))


async def by_put_with_spellings(rest, number):
    await rest.put("/Dog/1", dog(number, other={"$map": {"$date": 5}}))


async def by_patch(rest, number):
    await rest.put("/Dog/1", b'{"name":"Rex"}')
    await rest.patch("/Dog/1", f'{{"weight":{number}}}'.encode())


async def by_query(rest, number):
    await rest.put("/Dog/1", b'{"name":"Rex"}')
    await rest.patch("/Dog/?name==Rex", f'{{"weight":{number}}}'.encode())


async def by_batch(rest, number):
    await rest.put("/Dog/", b"[%b,%b]" % (dog(1, id="2"), dog(number, id="1")))


async def by_lines(rest, number):
    body = b"%b\n\n%b\n" % (dog(1, id="2"), dog(number, id="1"))
    await rest.put("/Dog/", body, content_type="application/x-ndjson")


async def by_post(rest, number):
    await rest.post("/Dog/", dog(number, id="1"))


async def by_upsert(rest, number):
    await rest.post("/Dog/?upsert=true", b"[%b]" % dog(number, id="1"))


async def by_transaction(rest, number):
    body = b'[{"op":"put","topic":"Dog/1","value":%b}]' % dog(number)
    assert (await rest.post("/$tx", body)).status == 200


WAYS = [
    by_put, by_put_with_spellings, by_patch, by_query, by_batch, by_lines, by_post, by_upsert,
    by_transaction,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", NUMBERS + PLAIN)
async def test_the_digits_of_a_number_are_kept(rest, way, number):
    await way(rest, number)
    assert number == await weight(rest)


async def test_other_numbers_are_floats_as_before(rest):
    written = await rest.put("/Dog/1", dog("12.50", other=0.1, more=[1.25]))
    assert written.status == 201
    found = (await rest.get("/Dog/1")).value
    assert ("12.50", 0.1, [1.25]) == (found["weight"], found["other"], found["more"])


async def test_a_number_of_too_many_digits_is_refused_and_not_cut(rest):
    answer = await rest.put("/Dog/1", dog("1." + "3" * 40))
    assert (answer.status, "34 digits" in answer.value["detail"]) == (422, True)


async def test_an_increment_has_its_digits(rest):
    await rest.put("/Dog/1", dog("1.10"))
    operation = b'{"weight":{"__op__":"add","value":0.1000000000000000000001}}'
    assert (await rest.patch("/Dog/1", operation)).status == 204
    assert "1.2000000000000000000001" == await weight(rest)


async def test_a_float_of_a_binary_format_is_spelled_as_ever(rest):
    await rest.put("/Dog/1", encode({"name": "Rex", "weight": 0.1 + 0.2}, CBOR), content_type=CBOR)
    assert "0.30000000000000004" == await weight(rest)


async def test_inside_of_lists_and_types():
    async with HttpServer(tables=(SENSOR,)) as doors:
        text = b'{"sum":1.50,"float":1.50,"parts":[{"cost":2.0000000000000000001},{}]}'
        await doors.write("Sensor/1", value=text)
        answer = await doors.http.get("/Sensor/1")
    assert {
        "id": "1", "sum": "1.50", "float": 1.5, "parts": [{"cost": "2.0000000000000000001"}, {}],
    } == answer.json()  # fmt: skip


@pytest.mark.parametrize("topic", ["Sensor/1", "/Sensor/1"])
@pytest.mark.parametrize("op", ["put", "patch"])
async def test_in_a_command_of_a_websocket(op, topic):
    async with HttpServer(tables=(SENSOR,)) as doors, doors.ws() as peer:
        await peer.send(
            f'{{"id":1,"op":"{op}","topic":"{topic}","value":{{"sum":12.50,"float":12.50}}}}'
        )
        assert "ack" in json.loads(await peer.recv())
        answer = await doors.http.get("/Sensor/1")
    assert {"id": "1", "sum": "12.50", "float": 12.5} == answer.json()


async def test_in_what_a_class_is_given():
    class Doubled(Resource):
        path = "Sensor"

        async def put(self, value):
            return await super().put(value)

    async with HttpServer(tables=(SENSOR,), resources=[Doubled]) as doors:
        await doors.http.put("/Sensor/1", content=b'{"sum":1.00000000000000000001}')
        answer = await doors.http.get("/Sensor/1")
    assert "1.00000000000000000001" == answer.json()["sum"]


@pytest.mark.parametrize("zero", [-0.0, "-0.0", Decimal("-0.0")])
async def test_a_zero_has_no_sign(rest, zero):
    """A2: it has none in CBOR, in which rows are stored, so a restart would change the text."""
    given = encode({"name": "Rex", "weight": zero}, CBOR)
    assert (await rest.put("/Dog/1", given, content_type=CBOR)).status == 201
    assert await weight(rest) == "0.0"
