"""Batches over REST (B11)."""

import asyncio
import json

import pytest

from asgi import EPOCH, asgi
from rowcast.codecs import CBOR, CBOR_SEQ, JSON, MSGPACK, NDJSON, encode
from rowcast.core import limits

TWO = [{"id": "1", "name": "Rex"}, {"id": "2", "name": "Max"}]


@pytest.fixture
async def rest():
    async with asgi() as opened:
        yield opened


def body(*records):
    return json.dumps(records).encode()


async def stored(rest):
    return [row["id"] for row in (await rest.get("/Dog/")).value]


@pytest.mark.parametrize("media_type", [JSON, CBOR, MSGPACK, NDJSON, CBOR_SEQ])
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_outcomes_in_order(rest, method, media_type):
    """B11: in seq order, whatever the format."""
    answer = await rest.ask(method, "/Dog/", encode(TWO, media_type), content_type=media_type)
    assert (answer.status, answer.value) == (
        200,
        [
            {"id": "1", "status": 201, "position": f"{EPOCH}:1"},
            {"id": "2", "status": 201, "position": f"{EPOCH}:2"},
        ],
    )
    assert await stored(rest) == ["1", "2"]


async def test_one_failure_is_its_own(rest):
    """B11: 207, and the neighbours are written."""
    answer = await rest.post("/Dog/", body(TWO[0], {"id": "x"}, 7, TWO[1]))
    outcomes = answer.value
    assert answer.status == 207
    assert [item["status"] for item in outcomes] == [201, 422, 422, 201]
    assert [item["id"] for item in outcomes] == ["1", "x", None, "2"]
    assert outcomes[1]["error"]["code"] == "unprocessable"
    assert await stored(rest) == ["1", "2"]


async def test_post_creates_and_put_replaces(rest):
    await rest.put("/Dog/1", b'{"name":"Old"}')
    posted = (await rest.post("/Dog/", body(*TWO))).value
    put = (await rest.put("/Dog/", body(*TWO))).value
    assert [item["status"] for item in posted] == [409, 201]
    assert [item["status"] for item in put] == [204, 204]


async def test_new_ids_are_given(rest):
    """A3."""
    answer = (await rest.post("/Number/", body({}, {}, {"n": 9}, {}))).value
    assert [item["id"] for item in answer] == [1, 2, 9, 3]
    answer = (await rest.post("/Dog/?atomic=true", body({"name": "A"}, {"name": "B"}))).value
    assert sorted(item["id"] for item in answer) == await stored(rest)


@pytest.mark.parametrize("bad", [{"id": "2"}, {"name": "x", "id": "a+b"}, 1])
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_atomic_is_all_or_nothing(rest, method, bad):
    """B11: the error says which record it was for."""
    answer = await rest.ask(method, "/Dog/?atomic=true", body(TWO[0], bad))
    assert answer.status in {400, 422}
    assert answer.value["index"] == 1
    assert "nothing was written, because: record 1: " in answer.value["detail"]
    assert await stored(rest) == []


async def test_atomic_succeeds_together(rest):
    heard = rest.listen()
    answer = await rest.put("/Dog/?atomic=true", body(*TWO))
    assert [item["status"] for item in answer.value] == [201, 201]
    assert [event.topic for event in heard] == ["Dog/1", "Dog/2"]


async def test_an_atomic_creation_meets_a_taken_id(rest):
    await rest.put("/Dog/2", b'{"name":"Old"}')
    answer = await rest.post("/Dog/?atomic=true", body(*TWO))
    assert (answer.status, answer.value["index"]) == (409, 1)
    assert await stored(rest) == ["2"]


async def test_atomic_creations_of_one_id_are_not_both_done(rest):
    """B11, A3: neither of two requests at once, nor twice in one, replaces what was created."""
    one, two = body({"id": "1", "name": "Rex"}), body({"id": "1", "name": "Max"})
    answers = await asyncio.gather(*[rest.post("/Dog/?atomic=true", it) for it in (one, two)])
    assert [200, 409] == sorted(answer.status for answer in answers)
    refused = next(answer for answer in answers if answer.status == 409)
    assert (0, True) == (refused.value["index"], "'Dog/1' already" in refused.value["detail"])
    twice = body({"id": "2", "name": "Rex"}, {"id": "2", "name": "Max"})
    answer = await rest.post("/Dog/?atomic=true", twice)
    assert (409, 1) == (answer.status, answer.value["index"])
    assert ["1"] == await stored(rest)


async def test_put_needs_ids(rest):
    answer = await rest.put("/Dog/", body({"name": "Rex"}))
    assert (answer.status, answer.value[0]["status"]) == (207, 422)


async def test_a_listing_can_be_put_back(rest):
    """The id that a listing adds to a record without a key is taken off again."""
    await rest.put("/Note/x", b'{"text":"hi"}')
    listed = await rest.get("/Note/")
    answer = await rest.put("/Note/", listed.body)
    assert answer.value[0]["status"] == 204
    assert (await rest.get("/Note/x")).value == {"text": "hi"}


async def test_an_empty_batch_is_nothing(rest):
    assert (await rest.post("/Dog/", b"[]")).value == []
    assert (await rest.put("/Dog/?atomic=true", b"[]")).value == []


async def test_a_batch_is_bounded(rest):
    many = b"[" + b",".join([b"1"] * (limits.HTTP_BATCH_RECORDS_MAX + 1)) + b"]"
    assert (await rest.post("/Dog/", many)).status == 413


async def test_a_malformed_line_is_told_by_its_number(rest):
    answer = await rest.post("/Dog/", b'{"name":"A"}\n{"name"', content_type=NDJSON)
    assert (answer.status, "line 2" in answer.value["detail"]) == (400, True)
    assert await stored(rest) == []


async def test_a_batch_brings_no_version(rest):
    """E26: one stamp cannot be that of many records."""
    for method in (rest.post, rest.put):
        answer = await method("/Dog/", b'[{"id":"9","name":"x"}]', rowcast_version="1")
        assert (400, True) == (answer.status, "one by one" in answer.value["detail"])


@pytest.mark.parametrize("media_type", [JSON, CBOR, MSGPACK, NDJSON, CBOR_SEQ])
async def test_an_upsert_replaces_and_creates(rest, media_type):
    """B11: one answer for each record, in the order of the list; ids are given where none is."""
    await rest.put("/Dog/1", b'{"name":"Old","age":9}')
    first = b"\x82\xa2id\xa11\xa4name\xa1x"
    second = b"\x83\xa2id\xa12\xa4name\xa1y\xa3age\xd3" + bytes(7) + b"\x05"
    heard = rest.listen("Dog/#")
    answer = await rest.put("/Dog/", b"\x92" + first + second, content_type=MSGPACK)
    assert (200, [first, second]) == (answer.status, [event.payload for event in heard])
    assert {"id": "2", "name": "y", "age": 5} == (await rest.get("/Dog/2")).value
