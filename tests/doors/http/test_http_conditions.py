"""Conditional requests over REST (A16, B9; RFC 9110, section 13)."""

import asyncio
import time
from email.utils import formatdate, parsedate_to_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asgi import EPOCH, asgi
from rowcast.core.errors import Error
from rowcast.core.limits import CURSORS_IN_CONDITION_MAX
from rowcast.doors.http.rest.conditions import tags_of

ONE = f'"{EPOCH}:1"'
TWO = f'"{EPOCH}:2"'


@pytest.fixture
async def rest():
    """A world with the record Dog/1, of which ONE is the ETag."""
    async with asgi() as opened:
        await opened.put("/Dog/1", b'{"name":"Rex"}')
        yield opened


# -- reads (B9) ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tags", "status"),
    [
        (ONE, 304),
        (f"W/{ONE}", 304),
        (f'"x", {ONE}', 304),
        (f'"x",,W/"y" , {ONE},', 304),
        (f"{EPOCH}:1", 304),
        ("*", 304),
        (TWO, 200),
        ('"0badcaff:1"', 200),
        ('""', 200),
    ],
)
@pytest.mark.parametrize("path", ["/Dog/1", "/Dog/1.name", "/Dog/1?meta"])
async def test_if_none_match(rest, path, tags, status):
    """RFC 9110, 13.1.2: lists, *, weak comparison; the 304 has the ETag (15.4.5)."""
    for _ in range(2):  # from the store, then from memory
        got = await rest.get(path, if_none_match=tags)
        assert (got.status, got.etag) == (status, ONE)


FORMATS = [
    ("application/json", ""),
    ("*/*", ""),
    ("application/cbor", ".cbor"),
    ("application/x-msgpack", ".msgpack"),
    ("text/csv", ".csv"),
    ("application/x-ndjson", ".ndjson"),
]


@pytest.mark.parametrize(("accept", "suffix"), FORMATS)
@pytest.mark.parametrize("path", ["/Dog/1", "/Dog/1?meta"])
async def test_each_format_has_an_etag_of_its_own(rest, path, accept, suffix):
    """RFC 9110, 8.8.1: a cache that has JSON asks for CBOR with the ETag of JSON (9111, 4.1)."""
    etag = f'"{EPOCH}:1{suffix}"'
    for _ in range(2):  # from the store, then from memory
        assert (await rest.get(path, accept=accept)).etag == etag
        got = await rest.get(path, accept=accept, if_none_match=etag)
        assert (got.status, got.etag) == (304, etag)
    for _, other in FORMATS:
        got = await rest.get(path, accept=accept, if_none_match=f'"{EPOCH}:1{other}"')
        assert got.status == (304 if other == suffix else 200)


async def test_a_topic_has_the_etag_of_its_cursor_in_the_format_it_was_written_in(rest):
    await rest.put("/home/x", b"\xa1aa\x01", content_type="application/cbor")
    assert (await rest.get("/home/x")).etag == TWO
    assert (await rest.get("/home/x", accept="application/cbor")).etag == TWO
    assert (await rest.get("/home/x", accept="application/json")).etag == f'"{EPOCH}:2.json"'
    assert (await rest.get("/home/x.json")).etag == f'"{EPOCH}:2.json"'


@pytest.mark.parametrize("quoted", ['"%s"', "%s"])
async def test_a_condition_that_a_record_is_unchanged_takes_the_etag_of_any_format(rest, quoted):
    """A client may read CBOR and write JSON."""
    tag = quoted % f"{EPOCH}:1.cbor"
    assert (await rest.get("/Dog/1", if_match=tag)).status == 200
    assert (await rest.put("/Dog/1", b'{"name":"Bo"}', if_none_match=tag)).status == 412
    assert (await rest.put("/Dog/1", b'{"name":"Bo"}', if_match=tag)).status == 204
    assert (await rest.put("/Dog/1", b'{"name":"Bo"}', if_match=tag)).status == 412


async def test_a_format_is_offered_once(rest):
    await rest.put("/home/x", b"{}", content_type="application/json")
    got = await rest.get("/home/x", accept="image/png")
    assert (got.status, got.value["detail"].count("application/json")) == (406, 1)


@pytest.mark.parametrize("query", ["from", "_from"])
async def test_the_etag_of_any_format_is_a_cursor(rest, query):
    await rest.put("/Dog/1", b'{"name":"Bo"}')
    got = await rest.get(f"/Dog/1?{query}={EPOCH}:1.cbor")
    assert got.status == 200
    assert b'"Bo"' in got.body


@pytest.mark.parametrize("tags", ["x", '"x', "", '"a" "b"', '"a";'])
async def test_tags_that_are_none(rest, tags):
    assert (await rest.get("/Dog/1", if_none_match=tags)).status == 400


async def test_too_many_tags(rest):
    tags = ", ".join(['"x"'] * (CURSORS_IN_CONDITION_MAX + 1))
    assert (await rest.get("/Dog/1", if_none_match=tags)).status == 400


async def test_if_modified_since(rest):
    """RFC 9110, 13.1.3; If-None-Match wins, and a malformed date says nothing."""
    date = (await rest.get("/Dog/1")).headers["last-modified"]
    before = formatdate(parsedate_to_datetime(date).timestamp() - 1, usegmt=True)
    assert (await rest.get("/Dog/1", if_modified_since=date)).status == 304
    assert (await rest.get("/Dog/1", if_modified_since=before)).status == 200
    assert (await rest.get("/Dog/1", if_modified_since="yesterday")).status == 200
    assert (await rest.get("/Dog/1", if_modified_since=date, if_none_match=TWO)).status == 200


async def test_a_date_without_a_zone_is_in_utc(rest, monkeypatch):
    """RFC 9110, 5.6.7: asctime's form names no zone; the server's own one does not count."""
    date = parsedate_to_datetime((await rest.get("/Dog/1")).headers["last-modified"])
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        got = await rest.get("/Dog/1", if_modified_since=date.strftime("%a %b %d %H:%M:%S %Y"))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert got.status == 304


async def test_if_match_of_a_read(rest):
    for _ in range(2):
        assert (await rest.get("/Dog/1", if_match=ONE)).status == 200
        assert (await rest.get("/Dog/1", if_match=TWO)).status == 412


@pytest.mark.parametrize(
    "path", ["/Dog/1", "/Dog/1.name", "/Dog/1?select(name)", "/Dog/1?meta=true"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_if_unmodified_since_of_a_read(rest, path, method):
    """RFC 9110, 13.1.4; If-Match wins (13.2.2), and a malformed date says nothing."""
    date = (await rest.get("/Dog/1")).headers["last-modified"]
    before = formatdate(parsedate_to_datetime(date).timestamp() - 1, usegmt=True)
    for headers, status in [
        ({"if_unmodified_since": date}, 200),
        ({"if_unmodified_since": before}, 412),
        ({"if_unmodified_since": before, "if_none_match": ONE}, 412),
        ({"if_unmodified_since": before, "if_match": ONE}, 200),
        ({"if_unmodified_since": "yesterday"}, 200),
    ]:
        assert (await rest.ask(method, path, **headers)).status == status


async def test_head_is_conditional_too(rest):
    assert (await rest.head("/Dog/1", if_none_match=ONE)).status == 304


# -- writes (A16) ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"if_match": ONE}, 204),
        ({"if_match": f'"x", {ONE}'}, 204),
        ({"if_match": "*"}, 204),
        ({"if_match": TWO}, 412),
        ({"if_match": f"W/{ONE}"}, 412),
        ({"if_match": '"0badcaff:1"'}, 412),
        ({"if_none_match": "*"}, 412),
        ({"if_none_match": ONE}, 412),
        ({"if_none_match": TWO}, 204),
        ({"if_match": "*", "if_none_match": "*"}, 400),
        ({"if_match": "nonsense"}, 400),
        ({"if_unmodified_since": "Fri, 31 Dec 9999 23:59:59 GMT"}, 204),
        ({"if_unmodified_since": "Sat, 01 Jan 2000 00:00:00 GMT"}, 412),
        ({"if_unmodified_since": "Sat Jan  1 00:00:00 2000"}, 412),
        # RFC 9110, 13.1.4: a date that is none is ignored.
        ({"if_unmodified_since": "yesterday"}, 204),
        ({"if_unmodified_since": ""}, 204),
        ({"if_unmodified_since": "Sat, 99 Jan 2000 00:00:00 GMT"}, 204),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
async def test_a_write_may_have_conditions(rest, method, headers, status):
    """The 412 tells the current ETag, and nothing was written."""
    body = b"" if method == "DELETE" else b'{"name":"Max"}'
    answer = await rest.ask(method, "/Dog/1", body, **headers)
    assert answer.status == status
    if status == 412:
        assert answer.etag == ONE
        assert (answer.value["cursor"], "seq" in answer.value) == (f"{EPOCH}:1", False)
    if status >= 400:
        assert (await rest.get("/Dog/1")).etag == ONE


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"if_match": "*"}, 412), ({"if_match": ONE}, 412), ({"if_none_match": "*"}, 201)],
)
async def test_conditions_on_what_is_missing(rest, headers, status):
    assert (await rest.put("/Dog/2", b'{"name":"Max"}', **headers)).status == status


async def test_a_conditional_delete_of_what_is_missing(rest):
    assert (await rest.delete("/Dog/2", if_match="*")).status == 412
    assert (await rest.delete("/Dog/2")).status == 404


async def test_of_many_writers_one_wins(rest):
    """A16: the same ETag is good once."""
    answers = await asyncio.gather(
        *(rest.put("/Dog/1", b'{"name":"Max"}', if_match=ONE) for _ in range(20))
    )
    assert sorted(answer.status for answer in answers) == [204] + [412] * 19


async def test_of_many_creators_one_wins(rest):
    answers = await asyncio.gather(
        *(rest.put("/loose", b"x", if_none_match="*") for _ in range(20))
    )
    assert sorted(answer.status for answer in answers) == [201] + [412] * 19


async def test_a_collection_has_no_conditions(rest):
    assert (await rest.post("/Dog/", b'{"name":"Max"}', if_none_match="*")).status == 400


@given(st.binary(max_size=60))
def test_any_header_is_tags_or_refused(header):
    try:
        tags = tags_of(header, "If-Match")
    except Error:
        return
    assert tags is None or all(isinstance(text, str) for _, text in tags)


# -- writes that come late (E26) -------------------------------------------------------------------


async def test_a_late_write_is_told_what_won(rest):
    """E26: 204 without a position, and the version that won."""
    now = {"rowcast_version": "2023-11-14T22:00:02Z"}
    before = {"rowcast_version": "2023-11-14T22:00:01Z", "rowcast_origin": "north"}
    won = await rest.put("/Dog/2", b'{"name":"new"}', **now)
    lost = await rest.put("/Dog/2", b'{"name":"old"}', **before)
    gone = await rest.delete("/Dog/2", **before)
    assert (201, 204, 204) == (won.status, lost.status, gone.status)
    assert ["1699999202000000"] * 2 == [each.headers["rowcast-late"] for each in (lost, gone)]
    assert "etag" not in lost.headers
    assert "new" == (await rest.get("/Dog/2")).value["name"]


async def test_a_late_message_is_sent(rest):
    """E27."""
    await rest.put("/Dog/2", b'{"name":"new"}')
    stamp = {"rowcast_version": "2023-11-14T22:00:01Z"}
    said = await rest.post("/Dog/1?retain=false", b'{"name":"old"}', **stamp)
    assert (204, "1699999201000000") == (said.status, said.headers["rowcast-version"])


async def test_a_version_that_is_none_is_refused(rest):
    answer = await rest.put("/Dog/2", b'{"name":"x"}', rowcast_version="soon")
    assert 400 == answer.status
    assert "microseconds since 1970" in answer.value["detail"]


async def test_a_numbered_write_that_comes_again_has_no_effect(rest):
    """M8: the same position, and the word that it is a repeat; an older epoch is fenced off."""
    mark = {"rowcast_producer": "meter:2:7"}
    first = await rest.put("/Dog/7", b'{"name":"once"}', **mark)
    again = await rest.put("/Dog/7", b'{"name":"once"}', **mark)
    assert (201, 201) == (first.status, again.status)
    assert first.headers["rowcast-position"] == again.headers["rowcast-position"]
    assert "1" == again.headers["rowcast-repeat"]
    assert first.headers["rowcast-version"] == again.headers["rowcast-version"]
    fenced = await rest.put("/Dog/7", b'{"name":"late"}', rowcast_producer="meter:1:8")
    assert (412, True) == (fenced.status, "epoch 2" in fenced.value["detail"])


@pytest.mark.parametrize("path", ["/Dog/1", "/Dog/1?select(name)", "/Dog/1.name", "/Dog/1?last=5"])
async def test_a_browser_asks_again_before_it_shows_what_it_kept(rest, path):
    """RFC 9111, 4.2.2: without a word of its freshness it may show an old record for hours."""
    await rest.put("/Dog/1", b'{"name":"Rex"}')
    got = await rest.get(path)
    assert (200, "private, no-cache") == (got.status, got.headers["cache-control"])


async def test_what_has_not_changed_is_asked_for_again_too(rest):
    put = await rest.put("/Dog/1", b'{"name":"Rex"}')
    got = await rest.get("/Dog/1", **{"if-none-match": put.etag})
    assert (304, "private, no-cache") == (got.status, got.headers["cache-control"])
