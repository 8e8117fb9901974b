"""Collections over REST: queries, pages, formats, counts, streams, and what a table is."""

import asyncio
import csv
import io
import json
import re
from collections import deque

import pytest

from asgi import EPOCH, asgi
from rowcast.codecs import CBOR, CBOR_SEQ, JSON, MSGPACK, NDJSON, decode
from rowcast.core import limits

DOGS = [("1", "Rex", 3), ("2", "Max", 5), ("3", "Ada", 7), ("a/1", "Bo", 1), ("a/2", "Cy", 2)]
ROWS = (JSON, CBOR, MSGPACK, NDJSON, CBOR_SEQ)


@pytest.fixture
async def rest():
    async with asgi() as opened:
        for record_id, name, age in DOGS:
            body = json.dumps({"name": name, "age": age}).encode()
            await opened.put(f"/Dog/{record_id}", body)
        yield opened


def names(answer):
    return [row["name"] for row in answer.value]


async def test_a_collection_is_all_its_records(rest):
    got = await rest.get("/Dog/")
    assert (got.status, got.media_type) == (200, JSON)
    assert [(row["id"], row["name"], row["age"]) for row in got.value] == DOGS


async def test_a_collection_says_its_position(rest):
    """M1: a client may go on from there over any protocol."""
    assert (await rest.get("/Dog/")).headers["rowcast-position"] == f"{EPOCH}:5"


async def test_a_collection_is_asked_for_again_before_it_is_shown(rest):
    """RFC 9111, 4.2.2."""
    assert "private, no-cache" == (await rest.get("/Dog/")).headers["cache-control"]


async def test_an_empty_collection_is_an_empty_list(rest):
    for media_type in (*ROWS, "text/csv"):
        got = await rest.get("/Note/", accept=media_type)
        assert got.status == 200
        assert media_type == "text/csv" or got.value == []


@pytest.mark.parametrize("media_type", ROWS)
@pytest.mark.parametrize("query", ["", "select(name,age)", "meta"])
async def test_every_format_says_the_same(rest, media_type, query):
    """B3, B5, B20."""
    expected = (await rest.get(f"/Dog/?{query}", accept=JSON)).value
    assert (await rest.get(f"/Dog/?{query}", accept=media_type)).value == expected


async def test_csv_has_the_declared_columns(rest):
    """B5."""
    got = await rest.get("/Dog/.csv")
    rows = list(csv.DictReader(io.StringIO(got.body.decode())))
    assert got.headers["content-type"] == "text/csv; charset=utf-8"
    assert list(rows[0]) == ["id", "name", "age", "weight", "born", "owner"]
    assert [(row["id"], row["name"], int(row["age"])) for row in rows] == DOGS


async def test_csv_has_what_the_first_page_has(rest):
    await rest.put("/Dog/4", b'{"name":"Di","toy":"ball"}')
    (row,) = csv.DictReader(io.StringIO((await rest.get("/Dog/.csv?name=Di")).body.decode()))
    assert row["toy"] == "ball"


@pytest.mark.parametrize("query", ["select(toy,id)", "select(toy,id)&sort(id)&limit(2)"])
async def test_csv_has_the_columns_that_are_selected(rest, query):
    """B5: in their order, also where the first records lack one."""
    await rest.put("/Dog/4", b'{"name":"Di","toy":"ball"}')
    got = await rest.get(f"/Dog/.csv?{query}")
    assert b"toy,id" == got.body.splitlines()[0]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("age=gt=2", ["Rex", "Max", "Ada"]),
        ("age=gt=2&age=lt=7", ["Rex", "Max"]),
        ("name=Rex|name=Bo", ["Rex", "Bo"]),
        ("sort(-age)&limit(2)", ["Ada", "Max"]),
        ("sort(name)&limit(1,3)", ["Bo", "Cy"]),
        ("limit(0)", []),
        ("name=Nobody", []),
    ],
)
async def test_queries(rest, query, expected):
    """B6, B7."""
    assert names(await rest.get(f"/Dog/?{query}")) == expected


async def test_select(rest):
    """B7: objects, bare values, lists."""
    assert (await rest.get("/Dog/?select(name)&limit(2)")).value == ["Rex", "Max"]
    assert (await rest.get("/Dog/?select([id,age])&limit(1)")).value == [["1", 3]]
    assert (await rest.get("/Dog/.csv?select(name)&limit(1)")).body == b"value\r\nRex\r\n"


@pytest.mark.parametrize(
    "query",
    ["age=gt=x", "(", "nope(1)", "age=zz=1", "sort(secret)", "limit(-1)", "after(x)", "%ff"],
)
async def test_a_query_that_means_nothing_is_malformed(rest, query):
    """B6: never a 500."""
    assert (await rest.get(f"/Dog/?{query}")).status == 400


@pytest.mark.parametrize("query", ["limit(2)", "sort(-name)&limit(2)", "limit(1,3)&select(id)"])
async def test_pages_link_to_the_next(rest, query):
    """B7: the pages are the whole; the link is good as it is."""
    found, path = [], f"/Dog/?{query}"
    while path:
        got = await rest.get(path)
        found += [row if isinstance(row, str) else row["id"] for row in got.value]
        link = re.fullmatch(r'<(.*)>; rel="next"', got.headers.get("link", ""))
        assert ("rowcast-after" in got.headers) == bool(link)
        path = link and link[1]
    whole = await rest.get(f"/Dog/?{re.sub(r'limit[(].*?[)]', 'limit(99)', query)}")
    ids = [row if isinstance(row, str) else row["id"] for row in whole.value]
    assert found == ids[1 if "limit(1," in query else 0 :]


@pytest.mark.parametrize("limit", ["limit(1%2C2)", "limit%281,2%29", "limit(%201,2)"])
async def test_a_page_may_have_an_encoded_beginning(rest, limit):
    """B7: a client that encodes the comma can follow the link, too."""
    first = await rest.get(f"/Dog/?{limit}")
    second = await rest.get(re.match(r"<(.*?)>", first.headers["link"])[1])
    assert ["Max", "Ada"] == names(first) + names(second)


async def test_a_value_that_looks_like_a_limit_is_the_same_on_the_next_page(rest):
    """B7: the link has the conditions of the request."""
    for number in (7, 8, 9):
        await rest.put(f"/Dog/{number}", b'{"name":"limit(1,2)"}')
    first = await rest.get("/Dog/?name==limit(1,2)&limit(2)")
    second = await rest.get(re.match(r"<(.*?)>", first.headers["link"])[1])
    assert ["7", "8", "9"] == [row["id"] for row in first.value + second.value]


async def test_pages_are_stable_under_writes(rest):
    """B7: what is written before the page neither repeats nor skips a record."""
    first = await rest.get("/Dog/?limit(2)")
    await rest.put("/Dog/0", b'{"name":"New"}')
    await rest.delete("/Dog/1")
    second = await rest.get(f"/Dog/?limit(2)&after({first.headers['rowcast-after']})")
    assert names(first) + names(second) == ["Rex", "Max", "Ada", "Bo"]


async def test_no_link_when_no_more_is_there(rest):
    got = await rest.get("/Dog/?limit(5)")
    assert "link" not in got.headers


@pytest.mark.parametrize(
    ("query", "count"), [("count", 5), ("count=true&age=gt=2", 3), ("count&name=Nobody", 0)]
)
async def test_counts(rest, query, count):
    """B19."""
    assert (await rest.get(f"/Dog/?{query}")).value == {"count": count}


async def test_a_table_with_such_an_attribute_is_counted_too():
    """The word alone is no condition (B19)."""
    schema = "type Tally @table @export { id: ID @primaryKey count: Int }"
    async with asgi(schema) as rest:
        await rest.put("/Tally/1", b'{"count": 5}')
        await rest.put("/Tally/2", b'{"count": 6}')
        assert (await rest.get("/Tally/?count")).value == {"count": 2}
        assert [row["id"] for row in (await rest.get("/Tally/?count=6")).value] == ["2"]


async def test_head_counts(rest):
    head = await rest.head("/Dog/?age=gt=2")
    assert (head.status, head.headers["rowcast-count"]) == (200, "3")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/Dog/a/", ["Bo", "Cy"]),
        ("/Dog/a/?sort(-age)", ["Cy", "Bo"]),
        ("/Dog/a/.json", ["Bo", "Cy"]),
        ("/Dog/b/", []),
    ],
)
async def test_a_part_of_a_collection_is_by_prefix(rest, path, expected):
    await rest.put("/Dog/a", b'{"name":"Parent"}')
    await rest.put("/Dog/ab/1", b'{"name":"Neighbour"}')
    assert names(await rest.get(path)) == expected


async def test_a_part_of_a_collection_is_counted(rest):
    assert (await rest.get("/Dog/a/?count")).value == {"count": 2}


async def test_records_without_a_key_are_told_apart(rest):
    """In a listing each has its id."""
    await rest.put("/Note/x", b'{"text":"hi"}')
    await rest.put("/Open/1", b'{"id":"own","a":1}')
    await rest.put("/Open/2", b"[1,2]")
    await rest.put("/Open/3", b"plain", content_type="text/plain")
    assert (await rest.get("/Note/")).value == [{"id": "x", "text": "hi"}]
    assert (await rest.get("/Open/")).value == [
        {"id": "own", "a": 1},
        {"id": "2", "value": [1, 2]},
        {"id": "3", "value": "plain"},
    ]


async def test_a_table_describes_itself(rest):
    got = (await rest.get("/Dog")).value
    assert got["records"] == "/Dog/"
    assert got["count"] == 5
    assert [item["name"] for item in got["attributes"]][:2] == ["id", "name"]
    assert {item["name"]: item["type"] for item in got["attributes"]}["name"] == "String!"


async def test_the_root_lists_what_is_there(rest):
    got = (await rest.get("/")).value
    assert {"path": "/Dog", "kind": "table"} in got["resources"]
    assert "/Behind" not in [item["path"] for item in got["resources"]]


async def test_a_table_at_the_root():
    schema = 'type All @table @export(name: "") { id: ID @primaryKey x: Int }'
    async with asgi(schema) as rest:
        assert (await rest.put("/a/b", b'{"x":1}')).status == 201
        assert (await rest.get("/a/b")).value == {"id": "a/b", "x": 1}
        assert (await rest.get("/")).value == [{"id": "a/b", "x": 1}]


# -- large ones (B20) ------------------------------------------------------------------------------

MANY = limits.HTTP_PAGE_RECORDS * 2 + 7


@pytest.fixture
async def large():
    async with asgi() as opened:
        for start in range(0, MANY, 500):
            batch = [{"n": number, "label": "x"} for number in range(start, min(start + 500, MANY))]
            answer = await opened.put("/Number/", json.dumps(batch).encode())
            assert answer.status == 200
        yield opened


@pytest.mark.parametrize("query", ["", "sort(n)", "asof=now", "meta=true"])
async def test_a_large_collection_as_csv_has_what_only_later_records_have(large, query):
    """B5, B20: the columns are sent before these records are read, so the last column has it."""
    await large.put("/Number/5000", b'{"toy": {"a": [1, null]}, "none": null, "odd": 2}')
    got = await large.get(f"/Number/.csv?{query}")
    *rows, last = csv.DictReader(io.StringIO(got.body.decode()))
    assert "_extra" == list(last)[-1]
    assert {""} == {row["_extra"] for row in rows}
    assert {"toy": {"a": [1, None]}, "odd": 2} == json.loads(last["_extra"])


@pytest.mark.parametrize("media_type", ROWS)
@pytest.mark.parametrize("query", ["", "sort(-n)", "label=x&meta", "limit(5,100000)"])
async def test_a_large_collection_comes_in_pieces(large, media_type, query):
    """B20: no piece holds more than a page."""
    got = await large.get(f"/Number/?{query}", accept=media_type)
    numbers = [row["n"] for row in decode(got.body, media_type)]
    expected = list(range(MANY))[::-1] if "sort" in query else list(range(MANY))
    assert numbers == expected[5 if "limit" in query else 0 :]
    assert got.pieces >= 4
    assert "content-length" not in got.headers


async def test_a_large_limit_ends_a_stream(large):
    wanted = limits.HTTP_LIMIT_LINKED_RECORDS_MAX + 1
    got = await large.get(f"/Number/?limit({wanted})")
    assert (len(got.value), "link" in got.headers) == (MANY, False)


async def test_a_client_that_leaves_ends_the_reading(large):
    """C26: nothing reads on for nobody."""
    sent, left = [], asyncio.Event()
    messages = deque([{"type": "http.request", "body": b""}])

    async def receive():
        if not messages:
            await left.wait()
            return {"type": "http.disconnect"}
        return messages.popleft()

    async def send(message):
        sent.append(message)
        if message.get("more_body"):
            left.set()

    scope = {
        "type": "http", "method": "GET", "path": "/Number/", "raw_path": b"/Number/",
        "query_string": b"", "headers": [], "client": None,
    }  # fmt: skip
    await large.edge(scope, receive, send)
    bodies = [message for message in sent if message["type"] == "http.response.body"]
    assert bodies[-1]["more_body"]
    assert len(bodies) < 3
