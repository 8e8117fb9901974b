"""Tables of one name in several databases over REST (A6)."""

import pytest

from asgi import asgi

SCHEMA = """
type Dog @table(database: "a") @export(name: "a-dogs") { id: ID @primaryKey name: String! }
type Dog2 @table(database: "b", table: "Dog") @export { id: ID @primaryKey age: Int! }
"""


@pytest.fixture
async def rest():
    async with asgi(SCHEMA) as opened:
        await opened.put("/a-dogs/1", b'{"name": "Rex"}')
        await opened.put("/Dog2/1", b'{"age": 3}')
        yield opened


async def test_each_has_its_own_records(rest):
    """A6: beside one another, each checked as its own type declares it."""
    assert {"id": "1", "name": "Rex"} == (await rest.get("/a-dogs/1")).value
    assert {"id": "1", "age": 3} == (await rest.get("/Dog2/1")).value
    assert 422 == (await rest.put("/Dog2/1", b'{"name": "Rex"}')).status


async def test_each_is_queried_by_its_own_attributes(rest):
    """A6."""
    assert ["Rex"] == [row["name"] for row in (await rest.get("/a-dogs/?name=Rex")).value]
    assert [3] == [row["age"] for row in (await rest.get("/Dog2/?age=ge=3")).value]
    assert 400 == (await rest.get("/a-dogs/?age=3")).status


async def test_each_has_its_own_past(rest):
    """A6."""
    values = [
        [row["value"] for row in (await rest.get(f"/{path}/?from=0")).value]
        for path in ("a-dogs", "Dog2")
    ]
    assert [[{"id": "1", "name": "Rex"}], [{"id": "1", "age": 3}]] == values


async def test_descriptions_name_the_database(rest):
    """A6."""
    found = [(await rest.get(f"/{path}")).value for path in ("a-dogs", "Dog2")]
    assert [("a.Dog", "a", 1), ("b.Dog", "b", 1)] == [
        (each["name"], each["database"], each["count"]) for each in found
    ]


async def test_documents_have_a_component_for_each(rest):
    """A6, B15: with the attributes of each, and operations that differ in their names."""
    document = (await rest.get("/openapi.json")).value
    schemas = document["components"]["schemas"]
    assert [["id", "name"], ["age", "id"]] == [
        sorted(schemas[name]["properties"]) for name in ("a.Dog", "b.Dog")
    ]
    names = [
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
        if isinstance(operation, dict) and "operationId" in operation
    ]
    assert len(set(names)) == len(names)
    messages = (await rest.get("/asyncapi.json")).value["components"]["messages"]
    assert {"a.Dog", "b.Dog"} <= {name.removesuffix("Event") for name in messages} | set(messages)
