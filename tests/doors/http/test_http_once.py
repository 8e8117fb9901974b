"""The same mark, or key, gives the same answer over REST (M8, B17, P4)."""

import asyncio

import pytest

from asgi import asgi
from rowcast.codecs import CBOR, JSON
from rowcast.features.hooks.hook import DROP, Hook
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.idempotency.idempotency_keys import OWNER

DOG = b'{"name":"Rex"}'
LOOSE = {"content-length", "date"}
MARK = "rowcast-producer"
KEY = "idempotency-key"


@pytest.fixture
async def rest():
    async with asgi() as opened:
        yield opened


def headers(name, value, **others):
    return {name.replace("-", "_"): value} | others


def said(answer):
    """Return what an answer says, but that it came again."""
    told = {name: value for name, value in answer.headers.items() if name not in LOOSE}
    repeat = told.pop("rowcast-repeat", None)
    return (answer.status, told, answer.body), repeat


async def twice(rest, method, path, body, mark):
    first = said(await rest.ask(method, path, body, **mark))
    again = said(await rest.ask(method, path, body, **mark))
    return first, again


MARKS = [(MARK, "meter:1:7"), (KEY, '"8e03978e-40d5"')]
REQUESTS = {
    "put, a new one": ("PUT", "/Dog/9", DOG),
    "put, one that is there": ("PUT", "/Dog/1", DOG),
    "patch": ("PATCH", "/Dog/1", b'{"age":3}'),
    "delete": ("DELETE", "/Dog/1", b""),
    "post, an id of the server's": ("POST", "/Dog/", DOG),
    "post, a number of the server's": ("POST", "/Number/", b'{"label":"x"}'),
    "post, an id of its own": ("POST", "/Dog/", b'{"id":"own","name":"Rex"}'),
    "a message": ("POST", "/Dog/1?retain=false", b'{"id":"1","name":"said"}'),
    "put at an undeclared topic": ("PUT", "/home/t", b"21"),
    "a batch of new ones": ("POST", "/Dog/", b'[{"name":"a"},{"name":"b"}]'),
    "a batch of numbers": ("POST", "/Number/", b'[{"label":"a"},{"label":"b"}]'),
    "a batch that replaces": ("PUT", "/Dog/", b'[{"id":"1","name":"a"},{"id":"7","name":"b"}]'),
    "all or none": ("POST", "/Dog/?atomic=true", b'[{"name":"a"},{"id":"x","name":"b"}]'),
    "put all or none": ("PUT", "/Dog/?atomic=true", b'[{"id":"1","name":"a"}]'),
}


@pytest.mark.parametrize("mark", MARKS, ids=["producer", "key"])
@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
async def test_a_repeat_gets_the_same_answer_and_has_no_effect(rest, request_, mark):
    """P4: status, Location, ETag, version, position and body."""
    await rest.put("/Dog/1", b'{"name":"Old"}')
    method, path, body = request_
    given = headers(*mark, content_type="application/json")
    before = rest.store.head()
    first = said(await rest.ask(method, path, body, **given))
    head = rest.store.head()
    heard = rest.listen()
    again = said(await rest.ask(method, path, body, **given))
    assert first[0] == again[0]
    assert head == rest.store.head() > before
    assert [] == heard
    assert 200 <= first[0][0] < 300
    assert first[1] is None
    assert again[1] == (None if body.startswith(b"[") else "1")


@pytest.mark.parametrize("mark", MARKS, ids=["producer", "key"])
async def test_the_location_of_a_repeat_leads_to_the_record(rest, mark):
    """B17: and there is only one."""
    given = headers(*mark)
    first = await rest.post("/Dog/", DOG, **given)
    again = await rest.post("/Dog/", DOG, **given)
    assert (201, 201) == (first.status, again.status)
    assert 200 == (await rest.get(again.headers["location"])).status
    assert 1 == len((await rest.get("/Dog/")).value)


async def test_a_repeat_waits_for_the_first_and_gets_its_answer(rest):
    """P4: two at once with one mark, such as a retry after a short timeout."""
    mark = headers(MARK, "meter:1:7")
    answers = await asyncio.gather(*(rest.post("/Dog/", DOG, **mark) for _ in range(3)))
    assert 1 == len({answer.headers["location"] for answer in answers})
    assert {201} == {answer.status for answer in answers}
    assert 1 == len({answer.etag for answer in answers})


async def test_records_of_a_batch_have_the_numbers_that_follow(rest):
    """P4: the mark of a batch is that of its first record."""
    batch = b'[{"id":"1","name":"a"},{"id":"2","name":"b"}]'
    await rest.put("/Dog/", batch, rowcast_producer="m:1:10")
    second = await rest.put("/Dog/2", b'{"name":"b"}', rowcast_producer="m:1:11")
    assert "1" == second.headers["rowcast-repeat"]
    third = await rest.put("/Dog/2", b'{"name":"c"}', rowcast_producer="m:1:12")
    assert "rowcast-repeat" not in third.headers


async def test_a_record_of_a_batch_that_was_refused_is_tried_again(rest):
    """A refusal is no effect; what was written is not written again."""
    batch = b'[{"id":"1","name":"a"},{"id":"2"}]'
    for _ in range(2):
        answer = await rest.put("/Dog/", batch, rowcast_producer="m:1:10")
        assert [201, 422] == [row["status"] for row in answer.value]
    assert 1 == rest.store.head()


async def test_a_group_of_which_some_came_before_is_refused(rest):
    """All or none: it cannot be either."""
    await rest.put("/Dog/1", DOG, rowcast_producer="m:1:10")
    batch = b'[{"id":"1","name":"a"},{"id":"2","name":"b"}]'
    for _ in range(2):
        answer = await rest.put("/Dog/?atomic=true", batch, rowcast_producer="m:1:10")
        assert (409, "conflict") == (answer.status, answer.code)
    assert 404 == (await rest.get("/Dog/2")).status


async def test_a_refused_group_may_be_sent_again(rest):
    bad = b'[{"id":"1","name":"a"},{"id":"2"}]'
    good = b'[{"id":"1","name":"a"},{"id":"2","name":"b"}]'
    refused = await rest.put("/Dog/?atomic=true", bad, rowcast_producer="m:1:10")
    written = await rest.put("/Dog/?atomic=true", good, rowcast_producer="m:1:10")
    assert (422, 200) == (refused.status, written.status)


async def test_a_late_write_is_told_so_when_it_comes_again(rest):
    """E26: the version that won is remembered."""
    await rest.put("/Open/1", DOG, rowcast_version="1600000000000002")
    late = {"rowcast_version": "1600000000000001", "rowcast_producer": "m:1:1"}
    first, again = await twice(rest, "PUT", "/Open/1", DOG, late)
    assert first[0] == again[0]
    assert "1600000000000002" == first[0][1]["rowcast-late"]


# -- keys ------------------------------------------------------------------------------------------


async def test_a_key_with_another_request_is_refused(rest):
    """B17: 422, as the draft says."""
    await rest.post("/Dog/", DOG, idempotency_key="k")
    for method, path, body, more in (
        ("POST", "/Dog/", b'{"name":"Max"}', {}),
        ("POST", "/Number/", DOG, {}),
        ("POST", "/Dog/?atomic=true", DOG, {}),
        ("PUT", "/Dog/1", DOG, {}),
        ("POST", "/Dog/", DOG, {"content_type": CBOR}),
        ("POST", "/Dog/", DOG, {"content_type": JSON, "if_match": "*"}),
    ):
        answer = await rest.ask(method, path, body, idempotency_key="k", **more)
        assert (422, "unprocessable") == (answer.status, answer.code)
    assert 1 == rest.store.head()


async def test_a_key_that_is_in_use_is_refused(rest):
    """B17: 409 while the first is being carried out; then its answer."""
    both = await asyncio.gather(*(rest.post("/Dog/", DOG, idempotency_key="k") for _ in range(2)))
    assert [201, 409] == sorted(answer.status for answer in both)
    (refused,) = (answer for answer in both if answer.status == 409)
    assert ("conflict", "1") == (refused.code, refused.headers["retry-after"])
    assert 201 == (await rest.post("/Dog/", DOG, idempotency_key="k")).status
    assert 1 == rest.store.head()


GROUP = b'[{"id":"1","name":"a"},{"id":"2","name":"b"},{"id":"3","name":"c"}]'
MINIMAL = {"idempotency_key": "k", "prefer": "return=minimal"}


@pytest.mark.parametrize(
    ("path", "receipts"), [("/Dog/?atomic=true", 1), ("/Dog/", 3)], ids=["all or none", "each"]
)
async def test_a_batch_with_a_key_may_be_answered_minimally(rest, path, receipts):
    """B17: a transaction of which nobody is told each record has one receipt."""
    first = said(await rest.put(path, GROUP, **MINIMAL))
    assert 3 == rest.store.head()
    assert receipts == len(rest.store.states(OWNER))
    assert (first, 3) == (said(await rest.put(path, GROUP, **MINIMAL)), rest.store.head())
    assert 204 == first[0][0]


async def test_the_receipt_of_a_whole_batch_answers_for_no_single_record(rest):
    """B17: who then wants to be told of each has made another request."""
    await rest.put("/Dog/?atomic=true", GROUP, **MINIMAL)
    answer = await rest.put("/Dog/?atomic=true", GROUP, idempotency_key="k")
    assert (422, 3) == (answer.status, rest.store.head())


class Dropping(Hook):
    """Drops one record."""

    def on_publish_received(self, _caller, event):
        return DROP if event.topic == "Dog/3" else None


async def test_each_record_of_a_batch_has_its_receipt_where_hooks_may_drop_the_last():
    """B17: what was dropped is in no log, so its receipt would be lost with the process."""
    hooks = Hooks()
    hooks.add(Dropping())
    async with asgi(hooks=hooks) as rest:
        await rest.put("/Dog/?atomic=true", GROUP, **MINIMAL)
        assert (2, 2) == (rest.store.head(), len(rest.store.states(OWNER)))
        assert 204 == (await rest.put("/Dog/?atomic=true", GROUP, **MINIMAL)).status
        assert 2 == rest.store.head()


async def test_a_key_with_and_without_quotes_is_one(rest):
    first = await rest.post("/Dog/", DOG, idempotency_key='"k"')
    again = await rest.post("/Dog/", DOG, idempotency_key="k")
    assert first.headers["location"] == again.headers["location"]


async def test_keys_that_differ_make_two_records(rest):
    for key in ("a", "b"):
        await rest.post("/Dog/", DOG, idempotency_key=key)
    assert 2 == len((await rest.get("/Dog/")).value)


async def test_a_refused_request_may_be_mended(rest):
    """What had no effect leaves its key free."""
    refused = await rest.post("/Dog/", b"{}", idempotency_key="k")
    mended = await rest.post("/Dog/", DOG, idempotency_key="k")
    assert (422, 201) == (refused.status, mended.status)


async def test_a_repeat_of_a_conditional_write_meets_no_condition(rest):
    """It met it the first time."""
    given = {"idempotency_key": "k", "if_none_match": "*"}
    assert [201, 201] == [(await rest.put("/Dog/1", DOG, **given)).status for _ in range(2)]


async def test_keys_are_not_stored_with_the_event(rest):
    heard = rest.listen()
    await rest.put("/Dog/1", DOG, idempotency_key="k")
    assert [None] == [event.properties for event in heard]
    assert 1 == len(rest.store.states(OWNER))


@pytest.mark.parametrize("key", ["", '""', "x" * 256])
async def test_what_is_no_key_is_refused(rest, key):
    assert 400 == (await rest.post("/Dog/", DOG, idempotency_key=key)).status


async def test_a_key_and_a_producer_exclude_each_other(rest):
    answer = await rest.put("/Dog/1", DOG, idempotency_key="k", rowcast_producer="m:1:1")
    assert (400, "invalid") == (answer.status, answer.code)


async def test_a_delayed_write_has_no_key(rest):
    answer = await rest.put("/$delayed/60/Dog/1", DOG, idempotency_key="k")
    assert (400, "invalid") == (answer.status, answer.code)


async def test_a_key_on_a_read_is_ignored(rest):
    await rest.put("/Dog/1", DOG)
    assert 200 == (await rest.get("/Dog/1", idempotency_key="k")).status
