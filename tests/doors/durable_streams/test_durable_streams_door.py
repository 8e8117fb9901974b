"""The door of durable streams: its errors, bounds and rights, without a network (V7)."""

import json

import pytest

from asgi import SCHEMA, Asgi
from build import Server
from rowcast.core.callers import ALL, NONE
from rowcast.core.durable_stream_limits import DURABLE_NAME_BYTES_MAX
from rowcast.doors.durable_streams.door import streams_door
from rowcast.doors.durable_streams.headers import messages_of
from rowcast.features.durable_streams.feature import StreamsOfTopics
from rowcast.features.durable_streams.settings import DurableStreamsSection
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.schema import parse_schema

JSON = {"content_type": "application/json"}


def open_edge(grants=ALL, **limits):
    """Return an edge with the door, and its server; ``grants`` are those of nobody."""
    room = Server(topics=TopicSettings())
    StreamsOfTopics(DurableStreamsSection(**limits)).install(room.kernel)
    edge = room.make_edge(grants=grants)
    edge.streams = streams_door(room.kernel, 0.01, edge.closing)
    return Asgi(edge, room.store), room


async def test_v7_errors_are_problems_with_a_sentence():
    """V7."""
    edge, _ = open_edge()
    await edge.put("/$streams/s/1", **JSON)
    assert 200 == (await edge.get("/$streams/Dog/+?offset=now&v=a-b")).status
    cases = (
        (404, await edge.get("/$streams/s/2"), "create it with PUT"),
        (400, await edge.post("/$streams/s/1", b"{", **JSON), "no JSON"),
        (400, await edge.post("/$streams/s/1", b"[]", **JSON), "at least one"),
        (400, await edge.get("/$streams/s/1?offset=x"), "no offset"),
        (400, await edge.get("/$streams/s/1?live=sse"), "needs an offset"),
        (400, await edge.get("/$streams/s/1?ofset=now"), 'did you mean "offset"?'),
        (400, await edge.get("/$streams/Dog/1?offset=now&Live=sse"), 'did you mean "live"?'),
        (400, await edge.get("/$streams/Dog/+?age=gt=3"), "no conditions, such as that on 'age'"),
        (400, await edge.get("/$streams/Dog/+?offset=now&breed==a"), "a live query has them"),
        (400, await edge.get("/$streams/Dog/+?breed!=a"), "no conditions"),
        (400, await edge.get("/$streams/Dog/+?age%3E3"), "no conditions"),
        (400, await edge.put("/$streams/s/3", stream_ttl="010"), "Stream-TTL"),
        (409, await edge.post("/$streams/s/1", b"x", content_type="text/plain"), "is of"),
        (405, await edge.patch("/$streams/s/1", b"x"), "no PATCH"),
        (405, await edge.put("/$streams/Dog/1"), "only read here"),
        (405, await edge.post("/$streams/s/+", b"x"), "only read here"),
        (403, await edge.put("/$streams/$SYS/users/eve"), ""),
    )
    for status, answer, words in cases:
        assert (status, True) == (answer.status, words in answer.value["detail"]), answer.value
        assert "application/problem+json" == answer.headers["content-type"]
        assert "nosniff" == answer.headers["x-content-type-options"]


async def test_v7_a_parameter_that_is_of_somebody_else_is_ignored():
    """V7: as the protocol says, if it is not like one that is missing."""
    edge, _ = open_edge()
    await edge.put("/$streams/s/1")
    for query in ("?tenant=a&baz=qux", "?offset=-1&ofset=2"):
        assert 200 == (await edge.get(f"/$streams/s/1{query}")).status


async def test_v7_names_headers_and_bodies_are_bounded():
    """V7."""
    edge, _ = open_edge()
    await edge.put("/$streams/s/1")
    binary = {"content_type": "application/octet-stream"}
    mark = {"producer_id": "p" * 300, "producer_epoch": "0", "producer_seq": "0"}
    name = "s/" + "x" * DURABLE_NAME_BYTES_MAX
    assert 400 == (await edge.put("/$streams/" + name)).status
    assert 400 == (await edge.put("/$streams/s/2", content_type="a/" + "b" * 300)).status
    assert 400 == (await edge.post("/$streams/s/1", b"x", **binary, **mark)).status
    assert 400 == (await edge.post("/$streams/s/1", b"x", **binary, stream_seq="9" * 300)).status
    assert 413 == (await edge.post("/$streams/s/1", b"x" * 200_000, **binary)).status
    assert b"" == (await edge.get("/$streams/s/1")).body


async def test_v7_too_many_streams_are_refused_as_a_rate():
    """V7."""
    edge, _ = open_edge(most=1)
    assert 201 == (await edge.put("/$streams/s/1")).status
    answer = await edge.put("/$streams/s/2")
    assert (429, "60") == (answer.status, answer.headers["retry-after"])


@pytest.mark.parametrize("path", ["/$streams/s/1", "/$streams/Dog/+", "/$streams/Dog/1"])
async def test_v7_who_may_not_read_reads_nothing(path):
    """V7: neither what is there, nor what comes, nor whether it is there."""
    edge, room = open_edge(grants=NONE)
    await room.put("Dog/1", b'{"name": "Rex"}')
    for query in ("", "?offset=-1&live=sse", "?offset=-1&live=long-poll"):
        answer = await edge.get(path + query)
        assert (401, False) == (answer.status, b"Rex" in answer.body)
    assert 401 == (await edge.head(path)).status
    assert 401 == (await edge.put("/$streams/s/1")).status


async def test_v7_the_events_of_a_table_are_read_from_an_offset():
    """V7: with deletions; and a poll without news says so."""
    edge, room = open_edge()
    await room.put("Dog/1", b'{"name": "Rex"}')
    first = await edge.get("/$streams/Dog/+")
    await room.delete("Dog/1")
    after = first.headers["stream-next-offset"]
    then = await edge.get(f"/$streams/Dog/+?offset={after}")
    assert ["Rex", None] == [
        item["value"] and item["value"]["name"]
        for item in (json.loads(first.body) + json.loads(then.body))
    ]
    end = then.headers["stream-next-offset"]
    none = await edge.get(f"/$streams/Dog/+?offset={end}&live=long-poll")
    assert (204, "true") == (none.status, none.headers["stream-up-to-date"])


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        (b' {"a": 1.0} ', [b'{"a": 1.0}']),
        (b'[1, [2], {"b" : [3]}, "],["]', [b"1", b"[2]", b'{"b" : [3]}', b'"],["']),
        (b"[]", []),
        (b"[[1,2]]", [b"[1,2]"]),
        (b"[123456789012345678901234567890]", [b"123456789012345678901234567890"]),
    ],
)
def test_v7_messages_are_the_text_that_was_sent(body, messages):
    """V7."""
    assert messages == messages_of(body)


@pytest.mark.parametrize("kind", ["text/html", "image/svg+xml", "application/json"])
async def test_v7_what_a_stream_holds_runs_nothing_on_this_server_s_pages(kind):
    """V7: a browser that opens a stream may be signed in at this server."""
    edge, _ = open_edge()
    body = b"[1]" if kind == "application/json" else b"<script>alert(1)</script>"
    made = await edge.put("/$streams/x/html", body, content_type=kind)
    for answer in (made, await edge.get("/$streams/x/html"), await edge.get("/$streams/none")):
        assert "sandbox" == answer.headers["content-security-policy"]
        assert "nosniff" == answer.headers["x-content-type-options"]


async def test_v7_a_table_that_other_doors_do_not_offer_is_not_offered_as_a_stream():
    """V7: `Behind` of the schema has `@export(rest: false)`."""
    room = Server(parse_schema(SCHEMA).tables, topics=TopicSettings())
    StreamsOfTopics(DurableStreamsSection()).install(room.kernel)
    edge = room.make_edge(grants=ALL)
    edge.streams = streams_door(room.kernel, 0.01, edge.closing)
    asked = Asgi(edge, room.store)
    await room.put("Behind/1", b'{"id": "1"}')
    assert 404 == (await asked.get("/Behind/1")).status
    for path in ("/$streams/Behind/+?offset=-1", "/$streams/Behind/1?offset=-1"):
        refused = await asked.get(path)
        assert (404, True) == (refused.status, "not offered" in refused.value["detail"]), path
        assert 404 == (await asked.head(path)).status


async def test_v7_the_source_of_a_fork_is_a_path_of_a_url():
    """V7: percent-encoded, as the path of a request."""
    edge, _ = open_edge()
    await edge.put("/$streams/s/caf%C3%A9%20one", b"x", content_type="text/plain")
    for number, path in enumerate(("/s/caf%C3%A9%20one", "/$streams/s/caf%C3%A9%20one")):
        assert 201 == (await edge.put(f"/$streams/f/{number}", stream_forked_from=path)).status
        assert b"x" == (await edge.get(f"/$streams/f/{number}?offset=-1")).body
    assert 400 == (await edge.put("/$streams/f/9", stream_forked_from="/s/%FF")).status


async def test_v7_text_is_as_it_was_for_readers_of_events():
    """They drop a space after the colon: words that come one at a time would run together."""
    edge, _ = open_edge()
    text = b" one\n  two\n\nthree \n "
    await edge.put("/$streams/s/1", text, content_type="text/plain", stream_closed="true")
    answer = await edge.get("/$streams/s/1?offset=-1&live=sse")
    lines = answer.body.partition(b"\n\n")[0].split(b"\n")[1:]
    assert text == b"\n".join(line.removeprefix(b"data:").removeprefix(b" ") for line in lines)
