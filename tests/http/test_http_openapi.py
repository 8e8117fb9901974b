"""The OpenAPI document (B15)."""

import pytest
from rest_world import world

from rowcast.kernel.resource import Resource


class Lamp(Resource):
    """A place without a table."""

    async def get(self, query=None):
        return 1


@pytest.fixture
async def document(tmp_path):
    async with world(folder=tmp_path, resources=[Lamp]) as rest:
        yield (await rest.get("/openapi.json")).value


def references(value):
    """Give every $ref within a value."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


async def test_it_is_one_document(document):
    """B15: of the schema, the resources and FastAPI's own pages."""
    assert document["openapi"].startswith("3.1")
    assert document["info"] == {"title": "Rowcast", "version": "1.2.3"}
    paths = {"/Dog", "/Dog/", "/Dog/{id}", "/a/deep/table/{id}", "/Lamp", "/health"}
    assert paths <= set(document["paths"])
    assert not [path for path in document["paths"] if "Behind" in path]


async def test_types_appear(document):
    dog = document["components"]["schemas"]["Dog"]
    types = {name: item.get("type", item) for name, item in dog["properties"].items()}
    assert types == {
        "id": "string",
        "name": "string",
        "age": ["integer", "null"],
        "weight": ["string", "null"],
        "born": ["string", "null"],
        "owner": {"anyOf": [{"$ref": "#/components/schemas/Owner"}, {"type": "null"}]},
    }
    assert dog["required"] == ["name"]
    assert dog["description"] == "A dog."
    assert dog["properties"]["age"]["description"] == "In years."
    assert "required" not in document["components"]["schemas"]["DogPatch"]


async def test_a_sealed_type_takes_nothing_else(document):
    schemas = document["components"]["schemas"]
    assert schemas["Note"]["additionalProperties"] is False
    assert "additionalProperties" not in schemas["Dog"]


async def test_times_of_the_server_are_only_read(document):
    made = document["components"]["schemas"]["Timed"]["properties"]["made"]
    assert made["readOnly"] is True


async def test_every_reference_leads_somewhere(document):
    for reference in references(document):
        place = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


async def test_operations_have_names_of_their_own(document):
    names = [
        operation["operationId"]
        for path in document["paths"].values()
        for method, operation in path.items()
        if method != "parameters"
    ]
    assert len(names) == len(set(names))
    assert {"getDog", "listDog", "createDog", "putDog", "patchDog", "deleteDog"} <= set(names)


async def test_the_documentation_leads_to_the_page_that_shows_it(tmp_path):
    async with world(folder=tmp_path) as rest:
        page = await rest.get("/docs")
        assert (page.status, page.headers["location"]) == (307, "/ui/#/api")
        assert 200 == (await rest.get("/ui/api.js")).status


async def test_health(tmp_path):
    async with world(folder=tmp_path) as rest:
        await rest.put("/Dog/1", b'{"name":"Rex"}')
        health = (await rest.get("/health")).value
        assert health == {"status": "ok", "version": "1.2.3", "head": "0badcafe:1"}
