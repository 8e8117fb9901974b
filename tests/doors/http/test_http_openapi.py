"""The OpenAPI document (B15)."""

import gc
import weakref

import pytest

from asgi import asgi
from build import Server
from rowcast.core.compiled import CODE
from rowcast.doors.http.documents.asyncapi import AsyncDocument
from rowcast.doors.http.documents.openapi import openapi_document
from rowcast.doors.http.documents.servers import servers_at
from rowcast.routes.registry import Registry
from rowcast.routes.resource import Resource
from rowcast.schema import parse_schema


class Lamp(Resource):
    """A place without a table."""

    async def get(self, query=None):
        return 1

    async def put(self, value):
        return None

    async def post(self, value):
        return None


@pytest.fixture
async def document():
    async with asgi(resources=[Lamp]) as rest:
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


async def test_answers_of_resources_are_declared(document):
    """B15: of which each is not what it is for a table."""
    async with asgi(resources=[Lamp]) as rest:
        for verb in ("get", "put", "post"):
            answer = await getattr(rest, verb)("/Lamp", *([b"1"] if verb != "get" else []))
            declared = document["paths"]["/Lamp"][verb]["responses"]
            assert str(int(answer.status)) in declared
            assert bool(answer.body) == ("content" in declared[str(int(answer.status))])


async def test_values_that_do_not_fit_are_declared_where_they_are_taken():
    """B15: a POST of such a record is answered 202 as a PUT is."""
    drop, keep = parse_schema(
        'type Drop @table(invalid: "drop") @export { n: Int } type Keep @table @export { n: Int }'
    ).tables
    paths = openapi_document(Registry([drop, keep]), "x", "1")["paths"]
    for path, verb in (("/Drop/", "post"), ("/Drop/{id}", "put")):
        assert "202" in paths[path][verb]["responses"]
        assert "202" not in paths[path.replace("Drop", "Keep")][verb]["responses"]


@pytest.mark.slow
async def test_documents_are_freed_with_their_server():
    """FastAPI remembers each function that handles a request; none of them holds a document."""
    server = Server()
    documents = weakref.ref(server.make_edge().fixed.state.documents)
    assert documents()
    await server.stop()
    del server
    gc.collect()
    assert documents() is None


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
    assert {"patchAllDog", "deleteAllDog"} <= set(names)


SIGNING_IN = {"/$SYS/login", "/$SYS/logout", "/$SYS/tickets/", "/$SYS/me"}


async def test_signing_in_is_described_from_its_models(document):
    login = document["paths"]["/$SYS/login"]["post"]
    body = login["requestBody"]["content"]["application/json"]["schema"]
    assert {"user", "password", "cookie"} == set(body["properties"])
    assert False is body["additionalProperties"]
    assert {"200", "default"} == set(login["responses"])
    answers = {
        path: [name for name in operation["responses"] if name != "default"]
        for path, item in document["paths"].items()
        if path in SIGNING_IN
        for operation in item.values()
    }
    assert answers == {
        "/$SYS/login": ["200"],
        "/$SYS/logout": ["204"],
        "/$SYS/tickets/": ["201"],
        "/$SYS/me": ["200"],
    }
    asked = document["paths"]["/$SYS/me"]["get"]["parameters"]
    most = {one["name"]: one["schema"]["maxItems"] for one in asked}
    assert {"read": 32, "administer": 32} == most


async def test_a_table_may_be_called_as_a_model_of_the_server_is():
    schema = "type Ticket @table @export { id: ID @primaryKey seat: String }"
    async with asgi(schema) as rest:
        schemas = (await rest.get("/openapi.json")).value["components"]["schemas"]
    assert {"id", "seat"} == set(schemas["Ticket"]["properties"])
    assert {"ticket", "expires_at"} == set(schemas["server.Ticket"]["properties"])


@pytest.mark.parametrize("path", ["/health", "/health/ready", "/openapi.json", "/$SYS/me"])
async def test_what_is_read_takes_get_and_head_only(path):
    async with asgi() as rest:
        assert 200 == (await rest.get(path)).status
        refused = await rest.delete(path)
    assert (405, "not_allowed", "GET, HEAD") == (
        refused.status,
        refused.code,
        refused.headers["allow"],
    )


async def test_the_documentation_leads_to_the_page_that_shows_it():
    async with asgi() as rest:
        page = await rest.get("/docs")
        assert (page.status, page.headers["location"]) == (307, "/ui/#/api")
        assert 200 == (await rest.get("/ui/api.js")).status


async def test_health():
    async with asgi() as rest:
        await rest.put("/Dog/1", b'{"name":"Rex"}')
        health = (await rest.get("/health")).value
        assert health == {
            "status": "ok", "version": "1.2.3", "code": CODE, "head": "0badcafe:1",
            "lag_events": 0, "lag_seconds": 0, "warnings": {},
        }  # fmt: skip


KEPT = """
type Sensor @table @export { id: ID @primaryKey at: Date temp: Float }
type Hourly @table @export @rollup(of: "Sensor", time: "at", every: "1h", values: {temp: ["avg"]})
type Mean @table @export @derived(job: "jobs/mean.py", from: ["Sensor"], every: "5m") {
  id: ID @primaryKey
}
"""


def test_what_the_server_writes_alone_is_read_only():
    """B15: no client makes a request from the documents that is always refused."""
    registry = Registry(parse_schema(KEPT).tables, undeclared=False)
    document = openapi_document(registry, "t", "1")
    paths, schemas = document["paths"], document["components"]["schemas"]
    assert {"get", "delete"} == set(paths["/Hourly/"]) == {*paths["/Hourly/{id}"]} - {"parameters"}
    assert {"get"} == set(paths["/Mean/"]) == {*paths["/Mean/{id}"]} - {"parameters"}
    assert "put" in paths["/Sensor/"] and "readOnly" not in schemas["Sensor"]
    assert schemas["Hourly"]["readOnly"] is schemas["Mean"]["readOnly"] is True
    servers = servers_at("http", "a.example", {"http": 1, "mqtt": 2})
    made = AsyncDocument(registry, "t", "1").made(servers)
    writes = {name for name in made["operations"] if name.startswith("write")}
    assert "writeSensor" in writes and not {"writeHourly", "writeMean"} & writes
