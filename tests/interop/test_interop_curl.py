"""curl against the whole program: every verb of a record, and its stream."""

import json

import cbor2
import pytest
from clients import needs, run, running

pytestmark = [pytest.mark.interop, needs("curl")]


@pytest.fixture
def curl(server):
    """Return a function that runs curl on a path and gives the status and the body."""

    def call(path, *options, given=None):
        status = ("-w", "\n%{http_code}")
        answer = run("curl", "-sS", *status, *options, server.url + path, given=given)
        body, _, code = answer.rpartition(b"\n")
        return int(code), body

    return call


def test_put_get_patch_and_delete(curl):
    name, age = '{"name": "Rex"}', '{"age": 3}'
    assert 201 == curl("/Dog/1", "-X", "PUT", "--json", name)[0]
    assert 204 == curl("/Dog/1", "-X", "PUT", "--json", name)[0]
    assert curl("/Dog/1", "-X", "PATCH", "--json", age)[0] in {200, 204}
    assert {"id": "1", "name": "Rex", "age": 3} == json.loads(curl("/Dog/1")[1])
    assert curl("/Dog/1", "-X", "DELETE")[0] in {200, 204}
    assert 404 == curl("/Dog/1")[0]


def test_a_collection_answers_a_query(curl):
    for number in range(4):
        curl(f"/Dog/{number}", "-X", "PUT", "--json", json.dumps({"name": "Rex", "age": number}))
    found = json.loads(curl("/Dog/?age=gt=1")[1])
    assert [2, 3] == sorted(dog["age"] for dog in found)


def test_post_makes_an_id(curl, server):
    status, _ = curl("/Dog/", "--json", '{"name": "Rex"}')
    assert (201, ["Rex"]) == (
        status,
        [dog["name"] for dog in server.request("GET", "/Dog/").json()],
    )


def test_head_is_get_without_the_body(curl):
    curl("/Dog/1", "-X", "PUT", "--json", '{"name": "Rex"}')
    head = curl("/Dog/1", "--head")[1].decode().lower()
    whole = curl("/Dog/1", "-i")[1].decode().lower()
    assert head.strip() == whole.partition("\r\n\r\n")[0].strip()


def test_a_conditional_get_needs_no_body(curl):
    curl("/Dog/1", "-X", "PUT", "--json", '{"name": "Rex"}')
    head = curl("/Dog/1", "-i")[1].decode()
    etag = next(line for line in head.splitlines() if line.lower().startswith("etag:"))[5:].strip()
    assert 304 == curl("/Dog/1", "-H", f"If-None-Match: {etag}")[0]
    curl("/Dog/1", "-X", "PUT", "--json", '{"name": "Max"}')
    stale = ("-X", "PUT", "--json", '{"name": "Late"}', "-H", f"If-Match: {etag}")
    assert 412 == curl("/Dog/1", *stale)[0]


def test_cbor_goes_in_and_comes_out(curl):
    body = cbor2.dumps({"name": "Rex", "age": 3})
    form = ("-H", "Content-Type: application/cbor", "--data-binary", "@-")
    assert 201 == curl("/Dog/1", "-X", "PUT", *form, given=body)[0]
    answer = curl("/Dog/1", "-H", "Accept: application/cbor")[1]
    assert {"id": "1", "name": "Rex", "age": 3} == cbor2.loads(answer)


def test_any_content_comes_back_as_it_went_in(curl):
    """B21."""
    image = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
    form = ("-H", "Content-Type: image/png", "--data-binary", "@-")
    curl("/open/image", "-X", "PUT", *form, given=image)
    assert image == curl("/open/image")[1]


def test_a_stream_of_events(server):
    server.request("PUT", "/Dog/1", json={"name": "Rex"})
    accept = ("-H", "Accept: text/event-stream")
    with running("curl", "-sSN", *accept, f"{server.url}/Dog/1") as program:
        assert ["snapshot", "current"] == [event(program)["kind"] for _ in range(2)]
        server.request("PUT", "/Dog/1", json={"name": "Max"})
        assert {"id": "1", "name": "Max"} == event(program)["value"]


def event(program):
    """Return the next event of a stream."""
    while not (line := program.line()).startswith(b"data: "):
        if line == b"(the program has ended)":
            raise AssertionError(line)
    return json.loads(line[6:])
