"""PATCH and DELETE of the records that a query selects (B12)."""

import json

import pytest

from asgi import EPOCH, asgi
from rowcast.routes.resource import Resource

DOGS = [("1", "Rex", 3), ("2", "Max", 5), ("3", "Ada", 7), ("a/1", "Bo", 1), ("a/2", "Cy", 2)]


@pytest.fixture
async def rest():
    async with asgi(query_writes_max=3) as opened:
        for record_id, name, age in DOGS:
            body = json.dumps({"name": name, "age": age}).encode()
            await opened.put(f"/Dog/{record_id}", body)
        yield opened


async def ages(rest):
    return {row["id"]: row["age"] for row in (await rest.get("/Dog/")).value}


async def test_a_deletion_by_query_is_one_event_each(rest):
    """B12: in the order of the query, at consecutive positions; the answer has the last."""
    heard = rest.listen()
    answer = await rest.delete("/Dog/?age=gt=4&sort(-age)")
    assert (answer.status, answer.value) == (200, {"count": 2, "position": f"{EPOCH}:7"})
    assert answer.headers["rowcast-position"] == f"{EPOCH}:7"
    assert [(it.kind, it.topic, it.seq) for it in heard] == [
        ("delete", "Dog/3", 6),
        ("delete", "Dog/2", 7),
    ]
    assert list(await ages(rest)) == ["1", "a/1", "a/2"]


async def test_a_patch_by_query(rest):
    """B12: a merge patch of each; what matches by its old value need not match afterwards."""
    heard = rest.listen()
    answer = await rest.patch("/Dog/?age=lt=3", b'{"age":30}')
    assert (answer.status, answer.value["count"]) == (200, 2)
    assert await ages(rest) == {"1": 3, "2": 5, "3": 7, "a/1": 30, "a/2": 30}
    assert [(it.kind, json.loads(it.payload)["name"]) for it in heard] == [
        ("patch", "Bo"),
        ("patch", "Cy"),
    ]


async def test_a_dry_run_writes_nothing(rest):
    """B12: the whole number, even beyond the bound, and some ids."""
    heard = rest.listen()
    for method in ("DELETE", "PATCH"):
        answer = await rest.ask(method, "/Dog/?dry_run&age=gt=0", b"{}")
        sample = ["1", "2", "3", "a/1", "a/2"]
        assert answer.value == {"count": 5, "sample": sample, "dry_run": True}
    few = (await rest.delete("/Dog/?sort(-age)&limit(1)&dry_run=true")).value
    assert few == {"count": 1, "sample": ["3"], "dry_run": True}
    none = (await rest.delete("/Dog/?age=99&dry_run")).value
    assert none == {"count": 0, "sample": [], "dry_run": True}
    assert heard == []


@pytest.mark.parametrize("query", ["age=gt=99", "age=gt=99&dry_run", "age=gt=0"])
async def test_a_patch_that_cannot_be_read_is_told(rest, query):
    """B12: also where it would change no record, as by a dry run."""
    answer = await rest.ask("PATCH", f"/Dog/?{query}", b'{"age": ')
    assert (answer.status, "malformed at line 1" in answer.value["detail"]) == (400, True)


async def test_too_many_are_refused_with_their_number(rest):
    """B12: a bound, and how many it would be; the first ones are written on request."""
    refused = await rest.delete("/Dog/?age=gt=1")
    assert (refused.status, refused.value["count"]) == (422, 4)
    assert "matches 4 records" in refused.value["detail"]
    assert "at most 3" in refused.value["detail"]
    assert len(await ages(rest)) == 5
    assert (await rest.delete("/Dog/?age=gt=1&limit(3)")).value["count"] == 3
    assert (await rest.delete("/Dog/?age=gt=0&limit(1,3)")).value["count"] == 1


async def test_a_confirmed_number_has_to_be_right(rest):
    """B12: ``?confirm=count`` is the guard."""
    refused = await rest.delete("/Dog/?age=gt=4&confirm=3")
    assert (refused.status, refused.value["count"]) == (412, 2)
    assert len(await ages(rest)) == 5
    assert (await rest.delete("/Dog/?age=gt=4&confirm=2")).value["count"] == 2


async def test_a_whole_table_is_confirmed(rest):
    """B12: a forgotten condition deletes nothing."""
    refused = await rest.delete("/Dog/")
    assert (refused.status, refused.value["count"]) == (412, 5)
    assert "confirm=5" in refused.value["detail"]
    assert (await rest.patch("/Dog/?limit(2)", b'{"age":1}')).status == 412
    assert (await rest.patch("/Dog/?limit(2)&confirm=2", b'{"age":1}')).status == 200
    assert len(await ages(rest)) == 5


async def test_nothing_to_write_is_no_error(rest):
    answer = await rest.delete("/Dog/?age=99")
    assert (answer.status, answer.value) == (200, {"count": 0, "position": None})
    assert "rowcast-position" not in answer.headers


@pytest.mark.parametrize(
    ("path", "headers", "words"),
    [
        ("/Dog/?colour=red", {}, "colour"),
        ("/Dog/?age=1&select(age)", {}, "no select"),
        ("/Dog/?age=1&after(x)", {}, "no after"),
        ("/Dog/?secret=1", {}, "no attribute"),
        ("/Dog/?age=1", {"if_match": "*"}, "If-Match"),
        ("/Dog/?age=1", {"idempotency_key": "k"}, "Idempotency-Key"),
        ("/Dog/?age=1", {"rowcast_producer": "a:1:1"}, "Rowcast-Producer"),
        ("/Dog/?age=1", {"rowcast_version": "1"}, "Rowcast-Version"),
        ("/Dog/?age=1&dry_run=maybe", {}, "dry_run"),
        ("/Dog/?age=1&confirm=all", {}, "confirm=all is no number of records"),
        ("/Dog/?age=1&confirm=-1", {}, "confirm=-1 is no number of records"),
    ],
)
async def test_a_mistake_is_told(rest, path, headers, words):
    """P5."""
    refused = await rest.delete(path, **headers)
    assert (refused.status, words in refused.value["detail"]) == (400, True), refused.value
    assert len(await ages(rest)) == 5


async def test_one_record_that_cannot_be_patched_refuses_all(rest):
    """B12: one transaction."""
    refused = await rest.patch("/Dog/?age=gt=4", b'{"name":null}')
    assert refused.status == 422
    assert await ages(rest) == {"1": 3, "2": 5, "3": 7, "a/1": 1, "a/2": 2}


async def test_rows_and_parts_of_a_collection_are_not_written(rest):
    for path in ("/Dog/a/?age=1", "/Dog?age=1"):
        assert (await rest.delete(path)).status == 405
    await rest.ask("POST", "/home/t?retain=false", b"1")
    assert (await rest.delete("/mqtt_home/?qos=1")).status == 405


class Dog(Resource):
    """The table, with a deletion of its own."""

    async def delete(self):
        """Delete nothing."""


async def test_an_own_verb_is_why_there_is_no_query():
    """B12: it takes records one by one; the other verb has its queries."""
    async with asgi(resources=[Dog]) as rest:
        refused = await rest.delete("/Dog/?age=gt=4")
        assert refused.status == 400
        assert refused.value["detail"].endswith("because the resource has its own delete")
        assert (await rest.patch("/Dog/?age=gt=4", b"{}")).value["count"] == 0
