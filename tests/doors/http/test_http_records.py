"""One record over REST: methods and codes, formats, properties, metadata, messages."""

import json
import re

import pytest

from asgi import CURSOR, EPOCH, asgi
from rowcast.codecs import CBOR, JSON, MSGPACK, decode, encode
from rowcast.core.callers import ALL, Caller
from rowcast.core.events import PUT, Event

PNG = b"\x89PNG\r\n\x1a\n\x00\xff"
REX = {"name": "Rex", "age": 3}


@pytest.fixture
async def rest():
    async with asgi() as opened:
        yield opened


# -- methods and codes (B1) ------------------------------------------------------------------------


async def test_put_creates_then_replaces(rest):
    """B1: 201 with its Location, then 204; both with the position (M1)."""
    made = await rest.put("/Dog/1", b'{"name":"Rex"}')
    again = await rest.put("/Dog/1", b'{"name":"Rex"}')
    assert (made.status, made.headers["location"]) == (201, "/Dog/1")
    assert (again.status, again.body) == (204, b"")
    assert made.etag == f'"{EPOCH}:1"'
    assert again.headers["rowcast-position"] == f"{EPOCH}:2"


async def test_get_gives_back_what_was_put(rest):
    put = await rest.put("/Dog/1", b'{"name":"Rex","age":3}')
    got = await rest.get("/Dog/1")
    assert (got.status, got.value) == (200, {"id": "1"} | REX)
    assert got.etag == put.etag
    assert got.headers["rowcast-version"] == put.headers["rowcast-version"]
    assert got.headers["vary"] == "Accept"
    assert "last-modified" in got.headers


async def test_the_answer_from_memory_is_the_answer(rest):
    """The second GET sends what the first has made."""
    await rest.put("/Dog/1", b'{"name":"Rex"}')
    assert await rest.get("/Dog/1") == await rest.get("/Dog/1")


async def test_a_new_value_is_seen_at_once(rest):
    await rest.put("/Dog/1", b'{"name":"Rex"}')
    await rest.get("/Dog/1")
    await rest.put("/Dog/1", b'{"name":"Max"}')
    assert (await rest.get("/Dog/1")).value["name"] == "Max"


async def test_head_is_get_without_its_body(rest):
    await rest.put("/Dog/1", b'{"name":"Rex"}')
    got, head = await rest.get("/Dog/1"), await rest.head("/Dog/1")
    assert (head.status, head.headers, head.body) == (200, got.headers, b"")


async def test_head_of_what_is_missing_has_no_body(rest):
    head = await rest.head("/Dog/1")
    assert (head.status, head.body) == (404, b"")


async def test_patch_merges(rest):
    """B1: RFC 7396; null removes."""
    await rest.put("/Dog/1", b'{"name":"Rex","age":3,"born":null}')
    patched = await rest.patch("/Dog/1", b'{"age":4,"toy":"ball"}')
    assert patched.status == 204
    got = await rest.get("/Dog/1")
    assert got.etag == patched.etag
    assert got.value | {"age": 4, "toy": "ball", "name": "Rex"} == got.value


async def test_patch_makes_a_missing_record(rest):
    patched = await rest.patch("/Dog/1", b'{"name":"Rex"}')
    assert (patched.status, patched.headers["location"]) == (201, "/Dog/1")
    assert (await rest.get("/Dog/1")).value == {"id": "1", "name": "Rex"}


async def test_patch_adds(rest):
    await rest.put("/Dog/1", b'{"name":"Rex","age":3}')
    await rest.patch("/Dog/1", b'{"age":{"__op__":"add","value":2}}')
    assert (await rest.get("/Dog/1.age")).value == 5


async def test_patch_takes_a_merge_patch_by_its_name(rest):
    patched = await rest.patch(
        "/Dog/1", b'{"name":"Rex"}', content_type="application/merge-patch+json"
    )
    assert patched.status == 201


@pytest.mark.parametrize(
    "media_type", ["application/json-patch+json", "text/plain", "application/octet-stream"]
)
async def test_patch_takes_nothing_but_a_merge_patch(rest, media_type):
    got = await rest.patch("/Dog/1", b"[]", content_type=media_type)
    assert got.status == 415
    assert f"not '{media_type}'" in got.value["detail"]


async def test_delete_removes_once(rest):
    await rest.put("/Dog/1", b'{"name":"Rex"}')
    first, second = await rest.delete("/Dog/1"), await rest.delete("/Dog/1")
    assert (first.status, second.status) == (204, 404)
    assert first.headers["rowcast-position"] == f"{EPOCH}:2"
    assert (await rest.get("/Dog/1")).status == 404


async def test_post_creates_under_a_new_id(rest):
    """A3: 201, Location is a path, the body is the id."""
    made = await rest.post("/Dog/", b'{"name":"Rex"}')
    assert made.status == 201
    assert made.headers["location"] == f"/Dog/{made.value['id']}"
    assert (await rest.get(made.headers["location"])).etag == made.etag


async def test_post_takes_the_id_that_the_body_names(rest):
    made = await rest.post("/Dog/", b'{"id":"a/b c","name":"Rex"}')
    assert made.headers["location"] == "/Dog/a/b%20c"
    assert (await rest.post("/Dog/", b'{"id":"a/b c","name":"Rex"}')).status == 409


async def test_a_table_that_counts_gives_the_next_number(rest):
    """A3."""
    await rest.put("/Number/41", b"{}")
    made = [await rest.post("/Number/", b"{}") for _ in range(2)]
    assert [answer.value for answer in made] == [{"id": 42}, {"id": 43}]


@pytest.mark.parametrize(
    ("path", "method", "allow"),
    [
        ("/Dog/1", "POST", "GET, HEAD, PUT, PATCH, DELETE, OPTIONS"),
        ("/Dog/1", "TRACE", "GET, HEAD, PUT, PATCH, DELETE, OPTIONS"),
        ("/Dog/1", "BREW", "GET, HEAD, PUT, PATCH, DELETE, OPTIONS"),
        ("/Dog/", "BREW", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),
        ("/Dog", "POST", "GET, HEAD, OPTIONS"),
        ("/Dog", "PUT", "GET, HEAD, OPTIONS"),
        ("/Dog/a/", "PUT", "GET, HEAD, OPTIONS"),
        ("/", "PUT", "GET, HEAD, OPTIONS"),
        ("/loose/topic", "POST", "GET, HEAD, PUT, PATCH, DELETE, OPTIONS"),
    ],
)
async def test_a_method_that_is_not_offered(rest, path, method, allow):
    """B1: 405 with Allow."""
    refused = await rest.ask(method, path, b"{}")
    assert (refused.status, refused.headers["allow"]) == (405, allow)


async def test_options_tells_what_is_offered(rest):
    answer = await rest.options("/Dog/1")
    assert (answer.status, answer.headers["allow"]) == (
        204,
        "GET, HEAD, PUT, PATCH, DELETE, OPTIONS",
    )


async def test_a_missing_record_is_a_problem(rest):
    missing = await rest.get("/Dog/1")
    assert (missing.status, missing.code) == (404, "not_found")


async def test_what_is_not_of_the_table_is_refused(rest):
    refused = await rest.put("/Dog/1", b'{"name":"Rex","age":"old"}')
    assert (refused.status, refused.code) == (422, "unprocessable")
    assert "age" in refused.value["detail"]


@pytest.mark.parametrize(
    ("media_type", "body"),
    [(JSON, b'{"name":'), (JSON, b"\xff"), (CBOR, b"\xa1"), (MSGPACK, b"\x81"), ("", b"{")],
)
async def test_what_cannot_be_decoded_is_malformed(rest, media_type, body):
    refused = await rest.put("/Dog/1", body, content_type=media_type)
    assert (refused.status, refused.code) == (400, "invalid")


@pytest.mark.parametrize("path", ["/Dog/1", "/loose", "/Open/1"])
async def test_an_empty_body_is_no_record(rest, path):
    """MQTT deletes by an empty payload, so an empty record could not be told from none (B2)."""
    assert (await rest.put(path)).status == 400


async def test_a_table_hidden_from_rest_is_not_there(rest):
    assert (await rest.put("/Behind/1", b"{}")).status == 404
    assert (await rest.get("/Behind/")).status == 404


@pytest.mark.parametrize("query", ["retian=false", "x", "retain=no", "atomic=2", "%ff"])
async def test_a_write_takes_no_other_parameter(rest, query):
    """A misspelt retain=false would be stored."""
    assert (await rest.put(f"/Dog/1?{query}", b'{"name":"Rex"}')).status == 400
    assert (await rest.get("/Dog/1")).status == 404


async def test_undeclared_topics_may_be_refused():
    async with asgi(undeclared="reject") as rest:
        assert (await rest.put("/loose", b"{}")).status == 404


# -- formats (B3, B4, B5, B21) ---------------------------------------------------------------------


@pytest.mark.parametrize("given", [JSON, CBOR, MSGPACK])
@pytest.mark.parametrize("wanted", [JSON, CBOR, MSGPACK])
async def test_every_format_in_and_out(rest, given, wanted):
    """B3, B4: the 3 by 3 matrix."""
    put = await rest.put("/Dog/1", encode(REX, given), content_type=given)
    got = await rest.get("/Dog/1", accept=wanted)
    assert (put.status, got.media_type) == (201, wanted)
    assert got.value == {"id": "1"} | REX


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("*/*", JSON),
        ("application/*", JSON),
        ("text/html, */*;q=0.1", JSON),
        ("application/cbor, application/json;q=0.9", CBOR),
        ("application/json;q=0.2, application/x-msgpack;q=0.3", MSGPACK),
        ("application/msgpack", MSGPACK),
        ("application/json;q=0, */*", CBOR),
    ],
)
async def test_accept_is_weighed(rest, accept, expected):
    """B3."""
    await rest.put("/Dog/1", b'{"name":"Rex"}')
    assert (await rest.get("/Dog/1", accept=accept)).media_type == expected


@pytest.mark.parametrize(
    ("accept", "status"), [("image/png", 406), ("application/json;q=x", 400), ("*/*;q=0", 406)]
)
async def test_an_accept_that_cannot_be_met(rest, accept, status):
    await rest.put("/Dog/1", b'{"name":"Rex"}')
    refused = await rest.get("/Dog/1", accept=accept)
    assert (refused.status, refused.media_type) == (status, "application/problem+json")


@pytest.mark.parametrize("media_type", ["image/png", "text/plain", "nonsense", "application/xml"])
async def test_a_declared_table_takes_values_only(rest, media_type):
    """B4."""
    assert (await rest.put("/Dog/1", b"x", content_type=media_type)).status == 415


@pytest.mark.parametrize(
    "media_type",
    [
        "application/x-www-form-urlencoded",
        "application/json; charset=utf-8",
        "",
        "application/x+json",
    ],
)
async def test_json_by_other_names(rest, media_type):
    """B4: what `curl -d` sends without being told, too."""
    put = await rest.put("/Dog/1", b'{"name":"Rex"}', content_type=media_type)
    assert (put.status, (await rest.get("/Dog/1")).value["name"]) == (201, "Rex")


async def test_a_charset_that_is_not_read(rest):
    put = await rest.put("/Dog/1", b"{}", content_type="application/json; charset=utf-16")
    assert put.status == 415


@pytest.mark.parametrize("path", ["/loose/logo", "/Open/logo"])
async def test_any_content_comes_back_as_it_was(rest, path):
    """B21."""
    await rest.put(path, PNG, content_type="image/png")
    got = await rest.get(path, accept="image/*, */*;q=0.5")
    assert (got.body, got.headers["content-type"]) == (PNG, "image/png")
    assert got.headers["content-security-policy"] == "sandbox"
    assert (await rest.get(path, accept=JSON)).status == 406


async def test_an_open_value_comes_back_as_it_was_or_as_asked(rest):
    """B21, B3."""
    body = b'{ "a" : 1 }'
    await rest.put("/loose", body, content_type="application/json; charset=utf-8")
    plain = await rest.get("/loose")
    assert (plain.body, plain.headers["content-type"]) == (body, "application/json; charset=utf-8")
    assert (await rest.get("/loose", accept=CBOR)).value == {"a": 1}


@pytest.mark.parametrize("given", [CBOR, MSGPACK])
@pytest.mark.parametrize("accept", [None, "*/*", "text/html, */*;q=0.1"])
async def test_a_table_without_types_is_json_for_who_has_no_wish(rest, given, accept):
    """B3: whatever it was written in; in that one on request, and a topic stays as it came."""
    for path in ("/Open/1", "/loose/1"):
        await rest.put(path, encode({"a": 1}, given), content_type=given)
    wish = {} if accept is None else {"accept": accept}
    got = await rest.get("/Open/1", **wish)
    assert (got.media_type, got.body) == (JSON, b'{"a":1}')
    assert (await rest.get("/Open/1", accept=given)).media_type == given
    assert (await rest.get("/loose/1", **wish)).media_type == given


async def test_a_content_type_that_no_header_may_hold_is_not_sent(rest):
    """What MQTT wrote may be anything."""
    event = Event("loose", PUT, b"x", "text/plain\r\nx: y", 1, True)
    await rest.kernel.write(event, Caller("mqtt", ALL))
    assert (await rest.get("/loose")).headers["content-type"] == "application/octet-stream"


@pytest.mark.parametrize(
    ("suffix", "media_type", "body"),
    [
        ("json", JSON, b'{"id":"1","name":"Rex"}'),
        ("cbor", CBOR, None),
        ("msgpack", MSGPACK, None),
        ("csv", "text/csv", b"id,name\r\n1,Rex\r\n"),
        ("ndjson", "application/x-ndjson", b'{"id":"1","name":"Rex"}\n'),
    ],
)
async def test_a_suffix_is_a_format(rest, suffix, media_type, body):
    """B5: it wins over Accept."""
    await rest.put("/Dog/1", b'{ "name":"Rex"}')
    got = await rest.get(f"/Dog/1.{suffix}", accept="text/plain")
    assert (got.status, got.media_type) == (200, media_type)
    assert body is None or got.body == body
    if body is None:
        assert got.value == {"id": "1", "name": "Rex"}


async def test_an_id_with_a_dot_is_an_id_first(rest):
    """A11, B5."""
    await rest.put("/Dog/1", b'{"name":"Rex"}')
    await rest.put("/Dog/1.json", b'{"name":"Dot"}')
    await rest.put("/Dog/v1.2", b'{"name":"Two"}')
    names = [(await rest.get(f"/Dog/{name}")).value["name"] for name in ("1.json", "v1.2")]
    assert names == ["Dot", "Two"]
    assert (await rest.get("/Dog/v1.2.json")).value["name"] == "Two"


async def test_values_keep_their_types(rest):
    """A date and a decimal are text in JSON, and themselves where the format has them."""
    body = b'{"name":"Rex","weight":"12.50","born":"2020-01-02T03:04:05Z"}'
    await rest.put("/Dog/1", body)
    got = json.loads((await rest.get("/Dog/1")).body)
    assert (got["weight"], got["born"][:19]) == ("12.50", "2020-01-02T03:04:05")
    exact = (await rest.get("/Dog/1", accept=CBOR)).value
    assert (str(exact["weight"]), exact["born"].year) == ("12.50", 2020)


async def test_hidden_attributes_never_leave(rest):
    await rest.put("/Dog/1", b'{"name":"Rex","secret":"hush"}')
    paths = ["/Dog/1", "/Dog/1.secret", "/Dog/", "/Dog/1?select(secret)", "/Dog/1.csv", "/Dog"]
    for path in [*paths, "/Dog/1?meta", "/Dog/?meta", "/Dog/.csv", "/openapi.json"]:
        got = await rest.get(path)
        assert b"hush" not in got.body, path
        assert got.status in {400, 404} or b"secret" not in got.body, path


async def test_hidden_attributes_cannot_be_guessed(rest):
    await rest.put("/Dog/1", b'{"name":"Rex","secret":"hush"}')
    for query in ("secret==h*", "sort(secret)", "secret=hush&count"):
        assert (await rest.get(f"/Dog/?{query}")).status == 400


# -- properties, parts, metadata (B8, B7, A17) -----------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/Dog/1.name", "Rex"),
        ("/Dog/1.owner", {"name": "Ann"}),
        ("/Dog/1.owner.name", "Ann"),
        ("/Dog/1.owner.phone", None),
        ("/Dog/1.name.cbor", "Rex"),
        ("/Dog/a.b.name", "Dot"),
        ("/Dog/1?select(name)", "Rex"),
        ("/Dog/1?select(name,age)", {"name": "Rex", "age": 3}),
    ],
)
async def test_a_part_of_a_record(rest, path, expected):
    """B8: its ETag is the record's, with the suffix of another format."""
    put = await rest.put("/Dog/1", b'{"name":"Rex","age":3,"owner":{"name":"Ann"}}')
    await rest.put("/Dog/a.b", b'{"name":"Dot"}')
    got = await rest.get(path)
    assert (got.status, got.value) == (200, expected)
    assert "a.b" in path or got.etag.replace(".cbor", "") == put.etag
    assert (await rest.get(path, if_none_match=got.etag)).status == 304


async def test_an_undeclared_attribute_is_no_suffix(rest):
    await rest.put("/Dog/1", b'{"name":"Rex","toy":"ball"}')
    assert (await rest.get("/Dog/1.toy")).status == 404


@pytest.mark.parametrize("query", ["name=Rex", "limit(1)", "sort(name)", "select(", "select(a"])
async def test_one_record_has_no_query(rest, query):
    await rest.put("/Dog/1", b'{"name":"Rex"}')
    assert (await rest.get(f"/Dog/1?{query}")).status == 400


@pytest.mark.parametrize("accept", [JSON, CBOR, MSGPACK])
async def test_metadata_on_request(rest, accept):
    """A17."""
    put = await rest.put("/Dog/1", b'{"name":"Rex"}')
    meta = (await rest.get("/Dog/1?meta=true", accept=accept)).value
    assert {name: meta[name] for name in ("_seq", "_origin", "_client", "_op")} == {
        "_seq": 1,
        "_origin": EPOCH,
        "_client": "anonymous",
        "_op": "put",
    }
    assert str(meta["_version"]) == put.headers["rowcast-version"]
    assert meta["_ts"] == meta["_version"] // 1_000
    (listed,) = (await rest.get("/Dog/?meta", accept=accept)).value
    assert listed == meta


async def test_metadata_of_what_is_no_object(rest):
    await rest.put("/loose", b"hello", content_type="text/plain")
    assert (await rest.get("/loose?meta")).value["value"] == "hello"


# -- messages (B10) and events (B2) ----------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_a_message_leaves_the_record(rest, method):
    """B10: delivered, with its position when the log keeps it."""
    await rest.put("/Dog/1", b'{"name":"Rex"}')
    heard = rest.listen("Dog/1")
    sent = await rest.ask(method, "/Dog/1?retain=false", b'{"age":9}')
    assert (sent.status, sent.headers["rowcast-position"]) == (204, f"{EPOCH}:2")
    assert [(event.kind, event.payload, event.retain) for event in heard] == [
        ("message", b'{"age":9}', False)
    ]
    assert (await rest.get("/Dog/1")).value == {"id": "1", "name": "Rex"}


async def test_a_message_that_no_log_keeps_is_only_accepted():
    async with asgi(undeclared="route") as rest:
        heard = rest.listen("loose")
        sent = await rest.post("/loose?retain=false", b"hi", content_type="text/plain")
        assert (sent.status, sent.body, len(heard)) == (202, b"", 1)
        assert "rowcast-position" not in sent.headers


async def test_a_message_at_an_undeclared_topic_is_stored(rest):
    """X1: by default, in its topic table."""
    heard = rest.listen("loose")
    sent = await rest.post("/loose?retain=false", b"hi", content_type="text/plain")
    assert (sent.status, sent.body, len(heard)) == (204, b"", 1)
    assert f"{EPOCH}:1" == sent.headers["rowcast-position"]


async def test_a_message_meets_no_conditions(rest):
    assert (await rest.post("/loose?retain=false", b"hi", if_match="*")).status == 400


async def test_put_is_a_retained_publish(rest):
    """B2: the event is the one that a PUBLISH with QoS 1 and retain makes."""
    heard = rest.listen()
    await rest.put("/Dog/1", b'{"id":"1","name":"Rex"}', content_type=JSON)
    (event,) = heard
    assert (event.topic, event.kind, event.qos, event.retain) == ("Dog/1", "put", 1, True)
    assert (event.payload, event.content_type) == (b'{"id":"1","name":"Rex"}', JSON)


async def test_a_problem_comes_in_the_accepted_format(rest):
    """RFC 9457 in JSON, CBOR or MessagePack."""
    for wanted in (JSON, CBOR, MSGPACK):
        missing = await rest.get("/Dog/1", accept=wanted)
        assert missing.value["instance"] == "/Dog/1"
        assert decode(missing.body, wanted) == missing.value


async def test_the_position_is_a_cursor(rest):
    put = await rest.put("/Dog/1", b'{"name":"Rex"}')
    assert re.fullmatch(CURSOR, put.headers["rowcast-position"])


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/home/temperature", "?last=10"),
        ("/mqtt_home/", "$SYS/topic_tables/ lists those that are"),
        ("/Dog/404", "at 'Dog/404'"),
    ],
)
async def test_a_404_says_where_else_it_may_be(rest, path, hint):
    """D43: what was not retained is no record, and a table without messages is not there yet."""
    answer = await rest.get(path)
    assert (404, True) == (answer.status, answer.value["detail"].endswith(hint))
