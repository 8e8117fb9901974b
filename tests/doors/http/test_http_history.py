"""History over REST: windows, series, formats and what is refused (B13, E25, F27)."""

import csv
import io
import json
from contextlib import asynccontextmanager
from functools import partialmethod
from urllib.parse import quote

import pytest

from asgi import EPOCH, SCHEMA, asgi
from rowcast.codecs import CBOR, CBOR_SEQ, JSON, MSGPACK, NDJSON
from rowcast.core.callers import Grants
from rowcast.core.clock import milliseconds_of
from rowcast.features.history.bounds import HistoryBounds
from rowcast.features.history.feature import History
from rowcast.features.history.history import HistoryReads
from rowcast.routes.resource import Resource
from rowcast.store.store import Keep

ROWS = (JSON, CBOR, MSGPACK, NDJSON, CBOR_SEQ)
CITY = "type Trip @table @export { id: ID @primaryKey from: String to: String last: Int }"


@asynccontextmanager
async def kennel(**options):
    """Open a world in which two dogs have a past: six events, and three of other topics."""
    async with asgi(SCHEMA + CITY, **options) as opened:
        for number in range(4):
            body = {"name": f"Rex{number}", "age": number, "weight": "1.5", "secret": "x"}
            await opened.put(f"/Dog/{number % 2}", json.dumps(body).encode())
        await opened.patch("/Dog/1", b'{"age": 50}')
        await opened.delete("/Dog/0")
        for number in (20, 21.5):
            await opened.put("/home/temp", str(number).encode(), content_type="text/plain")
        await opened.put("/home/cellar/temp", b"\xff\x00", content_type="image/x-thing")
        yield opened


@pytest.fixture
async def rest(request):
    history = History(HistoryBounds(**getattr(request, "param", {})))
    async with kennel(features=[history]) as opened:
        yield opened


def bounded(**bounds):
    """Return the mark of a test whose server has these bounds."""
    return pytest.mark.parametrize("rest", [bounds], indirect=True)


def seqs(answer):
    assert answer.status == 200, answer.body
    return [row["_seq"] for row in answer.value]


async def test_b13_the_history_of_a_record_is_its_values_and_where_they_are_from(rest):
    """B13, A17: value and metadata of each event; nothing hidden is in it."""
    got = await rest.get("/Dog/1?from=0")
    assert (JSON, f"{EPOCH}:9") == (got.media_type, got.headers["rowcast-position"])
    ages = [(row["topic"], row["value"]["age"], row["_op"]) for row in got.value]
    assert [("Dog/1", 1, "put"), ("Dog/1", 3, "put"), ("Dog/1", 50, "patch")] == ages
    event = rest.store.read(1, 1)[0]
    told = {name: item for name, item in got.value[0].items() if name.startswith("_")}
    version = event.version
    assert told == {
        "_seq": 2, "_ts": milliseconds_of(version), "_version": version, "_origin": EPOCH,
        "_client": "anonymous", "_op": "put",
    }  # fmt: skip
    assert b"secret" not in got.body


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/Dog/?from=0", [1, 2, 3, 4, 5, 6]),
        ("/Dog?from=0", [1, 2, 3, 4, 5, 6]),
        ("/Dog/?last=2", [5, 6]),
        ("/Dog/0?last=2", [3, 6]),
        ("/Dog/?from=-1h&to=now&last=1", [6]),
        (f"/Dog/?from={EPOCH}:2", [3, 4, 5, 6]),
        (f"/Dog/?from={EPOCH}:2&to={EPOCH}:4", [3, 4]),
        (f"/Dog/1?to={EPOCH}:4", [2, 4]),
        (f"/Dog/1?from=%22{EPOCH}:2%22", [4, 5]),
        ("/Dog/?from=0&limit=2", [1, 2]),
        ("/Dog/?from=0&age=gt=1", [3, 4, 5]),
        ("/Dog/?from=0&age=gt=1&limit=1", [3]),
        ("/Dog/?age=gt=1&last=1", [5]),
        ("/Dog/none?from=0", []),
        ("/Dog/?from=now", []),
        ("/home/temp?from=0", [7, 8]),
        ("/home/?from=0", [7, 8, 9]),
        ("/home/cellar/?last=5", [9]),
        ("/?from=0", [7, 8, 9]),
        ("/garden/?from=0", []),
    ],
)
async def test_e25_by_time_by_count_and_by_cursor(rest, path, expected):
    """E25: one record, a whole table, undeclared topics."""
    assert expected == seqs(await rest.get(path))


async def test_a_time_is_a_point_between_events(rest):
    """B13: from is inclusive, to is not, so windows that meet have each event once."""
    events = rest.store.read(0, 99)
    for event in events:
        text = str(milliseconds_of(event.version))
        before = seqs(await rest.get(f"/Dog/?to={text}"))
        after = seqs(await rest.get(f"/Dog/?from={text}"))
        assert [1, 2, 3, 4, 5, 6] == before + after


async def test_a_zone_need_not_be_encoded(rest):
    assert 6 == len(seqs(await rest.get("/Dog/?from=2020-01-01T00:00:00+02:00")))
    assert 6 == len(seqs(await rest.get(f"/Dog/?from={quote('2020-01-01T00:00:00+02:00')}")))


async def test_pages_follow_one_another(rest):
    """B13: limit tells where to go on, until there is nothing more."""
    path, found = "/Dog/?from=0&limit=4", []
    while path:
        got = await rest.get(path)
        found.append(seqs(got))
        link = got.headers.get("link", "")
        path = link.partition(">")[0].removeprefix("<")
    assert [[1, 2, 3, 4], [5, 6]] == found
    assert f"{EPOCH}:9" == got.headers["rowcast-position"]


@pytest.mark.parametrize(
    ("end", "more"), [("to=now", ""), ("_to=-0.001s", ""), ("to=%2D1ms", "&select=to")]
)
async def test_later_pages_end_at_the_moment_of_the_first(end, more):
    """B13: a relative ``to`` is not later for each page, or who pages would never be done."""
    clock = [1_800_000_000]
    async with kennel(features=[History()], now=lambda: clock[0]) as rest:
        path, found = f"/Dog/?from=0&limit=4&{end}{more}", []
        while path and len(found) < 5:
            clock[0] += 1
            got = await rest.get(path)
            found.append(seqs(got))
            await rest.put(f"/Dog/{len(found)}", b'{"name": "Late"}')
            path = got.headers.get("link", "").partition(">")[0].removeprefix("<")
        assert [[1, 2, 3, 4], [5, 6]] == found


@pytest.mark.parametrize("query", ["{0}&limit=1", "limit=1&{0}", "limit=1&[{0}|{0}]"])
@pytest.mark.parametrize(
    ("table", "condition"), [("Open", "from==Rome"), ("Trip", "from=Rome"), ("Trip", "from=sw=R")]
)
async def test_later_pages_have_the_conditions_on_an_attribute_from(rest, table, condition, query):
    """B13: only the parameter of that name is replaced in a link."""
    for number, start in enumerate(["Rome", "Oslo", "Rome", "Oslo", "Rome"]):
        await rest.put(f"/{table}/{number}", json.dumps({"from": start}).encode())
    start = "from" if table == "Open" else "_from"
    path, found = f"/{table}/?{start}=0&{query.format(condition)}", []
    while path:
        got = await rest.get(path)
        found += [row["value"]["from"] for row in got.value]
        path = got.headers.get("link", "").partition(">")[0].removeprefix("<")
    assert ["Rome"] * 3 == found


@pytest.mark.parametrize("media_type", ROWS)
@pytest.mark.parametrize(
    "path", ["/Dog/?last=3&select=name,age", "/home/temp?from=0", "/Dog/?from=0&every=1h"]
)
async def test_every_format_says_the_same(rest, media_type, path):
    """B3, B5."""
    expected = (await rest.get(path, accept=JSON)).value
    assert len(expected) >= 2 or "every" in path or "temp" in path
    assert expected == (await rest.get(path, accept=media_type)).value


async def test_csv_has_a_column_for_each_attribute(rest):
    """B5: of a declared table; elsewhere the value has one."""
    got = await rest.get("/Dog/.csv?from=0")
    rows = list(csv.DictReader(io.StringIO(got.body.decode())))
    expected = ["topic", "id", "name", "age", "weight", "born", "owner"]
    assert expected == list(rows[0])[:7]
    assert ["0", "1", "2", "3", "50", ""] == [row["age"] for row in rows]
    assert ["put"] * 4 + ["patch", "delete"] == [row["_op"] for row in rows]
    below = (await rest.get("/home/.csv?from=0")).body.decode()
    assert ["20", "21.5"] == [row["value"] for row in csv.DictReader(io.StringIO(below))][:2]
    plain = (await rest.get("/home/temp?from=0", accept="text/csv")).body.decode()
    assert ["20", "21.5"] == [row["value"] for row in csv.DictReader(io.StringIO(plain))]


@bounded(page_events=2, first_events=2)
async def test_csv_has_what_only_later_events_have(rest):
    """B5: the columns are sent before these are read, so the last one has it, as JSON."""
    await rest.put("/Dog/1", b'{"name": "Rex", "toy": "ball", "none": null}')
    got = await rest.get("/Dog/.csv?from=0")
    *_, last = rows = list(csv.DictReader(io.StringIO(got.body.decode())))
    assert [""] * 6 == [row["_extra"] for row in rows[:-1]]
    assert ("_extra", {"toy": "ball"}) == (list(last)[-1], json.loads(last["_extra"]))
    got = await rest.get("/Dog/.csv?from=0&select=toy,name")
    rows = list(csv.DictReader(io.StringIO(got.body.decode())))
    assert (["topic", "toy", "name"], "ball") == (list(rows[0])[:3], rows[-1]["toy"])


async def test_a_suffix_names_a_format_and_a_dot_a_property(rest):
    """B5, B8: unless there is or was something of that name."""
    assert 3 == len((await rest.get("/Dog/1.csv?from=0")).body.splitlines()) - 1
    assert [1, 3, 50] == [row["value"] for row in (await rest.get("/Dog/1.age?from=0")).value]
    await rest.put("/Dog/1.csv", b'{"name": "Dot"}')
    await rest.delete("/Dog/1.csv")
    assert [10, 11] == seqs(await rest.get("/Dog/1.csv?from=0"))


@pytest.mark.parametrize("words", ["select=age", "select(age)", "select=%61ge"])
async def test_parts_may_be_selected(rest, words):
    got = await rest.get(f"/Dog/1?from=0&{words}")
    assert [1, 3, 50] == [row["value"] for row in got.value]


@bounded(page_events=2, first_events=2)
async def test_all_of_a_table_is_streamed_page_by_page(rest):
    """B13: a page of memory, whatever the window."""
    got = await rest.get("/Dog/?from=0")
    assert got.pieces >= 4
    assert [1, 2, 3, 4, 5, 6] == seqs(got)


@bounded(page_bytes=2_000, first_events=1, whole_bytes=2_500)
async def test_large_events_are_fewer_at_a_time(rest):
    """B13: what is in memory is bounded in bytes too; limit goes on with a link, last is told."""
    for _ in range(6):
        await rest.put("/big/thing", b"x" * 1_000, content_type="text/plain")
    assert (await rest.get("/big/?from=0")).pieces >= 4
    path, found = "/big/thing?from=0&limit=5", []
    while path:
        got = await rest.get(path)
        found.append(seqs(got))
        path = got.headers.get("link", "").partition(">")[0].removeprefix("<")
    assert list(range(10, 16)) == [seq for page in found for seq in page]
    assert len(found) > 1
    assert [14, 15] == seqs(await rest.get("/big/thing?last=2"))
    got = await rest.get("/big/thing?last=6")
    assert (413, True) == (got.status, "ask for fewer" in got.value["detail"])


@bounded(page_events=1, first_events=1)
@pytest.mark.parametrize("query", ["from=0", "from=0&every=1ms", "last=50", "from=0&limit=50"])
async def test_a_client_that_leaves_is_not_sent_the_rest(rest, monkeypatch, query):
    """Nor is the log read on for it."""
    for number in range(60):
        await rest.put("/Number/1", b'{"label": "%d"}' % number)
    sent, pages = [], 0
    page, page_back = HistoryReads._page, HistoryReads._page_back

    async def counted(self, *arguments, read):
        nonlocal pages
        pages += 1
        return await read(self, *arguments)

    monkeypatch.setattr(HistoryReads, "_page", partialmethod(counted, read=page))
    monkeypatch.setattr(HistoryReads, "_page_back", partialmethod(counted, read=page_back))

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "path": "/Number/1", "raw_path": b"/Number/1",
        "query_string": query.encode(), "headers": [], "client": ("127.0.0.1", 0),
    }  # fmt: skip

    async def receive():
        return {"type": "http.disconnect"}

    await rest.edge(scope, receive, send)
    assert pages < 20
    assert len(sent) < 20
    assert not sent or sent[-1]["more_body"]


async def test_head_says_where_it_ends(rest):
    got = await rest.head("/Dog/?from=0")
    assert (200, b"", f"{EPOCH}:9") == (got.status, got.body, got.headers["rowcast-position"])
    assert "content-length" not in got.headers  # GET's is not known (RFC 9110, 8.6)


# -- series ------------------------------------------------------------------------------------


async def test_b13_series_of_a_table_s_numbers(rest):
    """B13: aligned to UTC, for each record, whichever attributes are numbers."""
    got = await rest.get("/Dog/?from=0&every=1d&fn=avg,max,count,last")
    found = {row["topic"]: row["values"] for row in got.value}
    assert {"avg": 18.0, "max": 50, "count": 3, "last": 50} == found["Dog/1"]["age"]
    assert {"avg": 1.0, "max": 2, "count": 2, "last": 2} == found["Dog/0"]["age"]
    assert {"age", "weight"} == found["Dog/0"].keys()
    assert {row["events"] for row in got.value} == {2, 3}
    assert all(row["from"].endswith("T00:00:00.000Z") for row in got.value)


async def test_f27_plain_numbers_are_a_series_too(rest):
    """F27: what a metric is published as."""
    (row,) = (await rest.get("/home/temp?from=0&every=1d&fn=min,sum")).value
    assert {"value": {"min": 20, "sum": 41.5}} == row["values"]


async def test_a_series_may_be_of_some_attributes_and_rows(rest):
    (row,) = (await rest.get("/Dog/1?from=0&every=1d&select=age&fn=sum&age=lt=50")).value
    assert {"age": {"sum": 4}} == row["values"]
    (row,) = (await rest.get("/Dog/?from=0&every=1d&last=1&fn=sum")).value
    assert "Dog/1" == row["topic"]
    (row,) = (await rest.get("/Dog/?from=0&every=1d&limit=1&fn=sum")).value
    assert "Dog/0" == row["topic"]


async def test_a_series_of_an_undeclared_attribute_that_some_record_has_is_no_mistake(rest):
    """B13: though no event of the time has it."""
    await rest.put("/Dog/7", b'{"name": "Max", "legs": 4}')
    (row,) = (await rest.get("/Dog/7?from=0&every=1d&select=legs&fn=sum")).value
    assert {"legs": {"sum": 4}} == row["values"]
    (row,) = (await rest.get("/Dog/1?from=0&every=1d&select=legs&fn=sum")).value
    assert {} == row["values"]


async def test_a_series_as_csv_has_a_column_for_each_function(rest):
    got = await rest.get("/Dog/.csv?from=0&every=1d&fn=avg,max&select=age")
    rows = list(csv.DictReader(io.StringIO(got.body.decode())))
    assert ["topic", "from", "to", "events", "age.avg", "age.max"] == list(rows[0])
    assert [("1.0", "2"), ("18.0", "50")] == [(row["age.avg"], row["age.max"]) for row in rows]


# -- names that clash, and refusals ------------------------------------------------------------


async def test_a_table_s_own_attribute_wins_and_an_underscore_is_always_ours(rest):
    """B13: ``from`` is a condition where a table declares it; ``_from`` never is."""
    for number, (start, end) in enumerate([("Rome", "Oslo"), ("Oslo", "Rome")]):
        body = json.dumps({"from": start, "to": end, "last": number}).encode()
        await rest.put(f"/Trip/{number}", body)
    assert ["0"] == [row["id"] for row in (await rest.get("/Trip/?from=Rome")).value]
    assert ["1"] == [row["id"] for row in (await rest.get("/Trip/?from=Oslo&last==1")).value]
    assert [10, 11] == seqs(await rest.get("/Trip/?_from=0"))
    assert [11] == seqs(await rest.get("/Trip/?_last=1"))
    assert [10] == seqs(await rest.get("/Trip/?_from=0&from=Rome"))


@pytest.mark.parametrize(
    "query", ["from==Rome", "from=sw=R", "from!=x", "[from=Rome|to=Rome]", "(from=Rome|to=Rome)"]
)
async def test_a_term_with_an_operator_is_a_condition(rest, query):
    """B13: also where the attribute is not declared."""
    await rest.put("/Open/1", b'{"from": "Rome"}')
    got = await rest.get(f"/Open/?{query}")
    assert [(200, "1")] == [(got.status, row["id"]) for row in got.value]


async def test_words_of_the_past_mean_nothing_without_the_past(rest):
    """``limit=2`` alone is a condition on what a record says, as it ever was."""
    await rest.put("/Open/1", b'{"limit": "2"}')
    got = await rest.get("/Open/?limit=2")
    assert ["1"] == [row["id"] for row in got.value]


async def test_a_resource_s_own_words_are_its_own():
    class Echo(Resource):
        path = "Echo"

        async def get(self, query=None):
            return {"asked": str(query.where)}

    async with asgi(resources=[Echo]) as opened:
        got = await opened.get("/Echo/1?from=Rome")
        assert "Rome" in got.value["asked"]


REFUSED = {
    "/Dog/1?from=yesterday": "from is a time such as",
    "/Dog/1?from=0&to=then": "to is a time such as",
    "/Dog/1?from=now&to=-1h": "from is after to",
    "/Dog/1?last=0": "last is a number from 1 to 10000",
    "/Dog/1?last=ten": "last is a number",
    "/Dog/1?from=0&limit=-1": "limit is a number from 1",
    "/Dog/1?from=0&limit=10001": "limit is a number from 1 to 10000",
    "/Dog/1?last=1&limit=1": "last and limit exclude each other",
    "/Dog/1?from=0&from=1": "'from' comes twice",
    "/Dog/1?from=0&_from=1": "'from' comes twice",
    "/Dog/1?from=0&every=soon": "every is a duration such as 1m",
    "/Dog/1?from=0&every=0.0001": "at least 1ms",
    "/Dog/1?from=0&every=36501d": "at most 36500d",
    "/Dog/1?every=1m&fn=average": "there is no fn 'average'",
    "/Dog/1?every=1m&fn=maxx": 'did you mean "max"?',
    "/Dog/1?from=0&fn=avg": "fn needs buckets",
    "/Dog/1?fn=avg": "fn needs buckets",
    "/Dog/?fn=avg": "fn needs buckets",
    "/Dog/1?from=0&every=1h&select=agee": 'no record has one; did you mean "age"?',
    "/Dog/?from=0&every=1h&select=age,agee": 'no record has one; did you mean "age"?',
    "/Dog/1?from=0&sort(name)": "history comes in the order of time",
    "/Dog/?from=0&count": "history comes in the order of time",
    "/Dog/1?from=0&select=": "a select names no attribute",
    "/Dog/1?from=0&select=secret": "Dog has no attribute",
    "/Dog/1?from=0&secret==x": "Dog has no attribute",
    "/Dog/1?asof=now&from=0": "asof is one moment",
}


@pytest.mark.parametrize("path", REFUSED)
async def test_what_makes_no_sense_is_refused_with_a_sentence(rest, path):
    got = await rest.get(path)
    assert (400, "invalid") == (got.status, got.code)
    assert REFUSED[path] in got.value["detail"]


@bounded(buckets=3)
async def test_too_many_buckets_are_refused_before_anything_is_sent(rest):
    got = await rest.get("/Dog/?from=0&every=1ms")
    assert (400, True) == (got.status, "more than 3 buckets" in got.value["detail"])


async def test_history_that_is_no_longer_kept_is_gone(rest):
    """E24, E25: and the answer says where what is left begins."""
    dog = rest.kernel.registry.route("Dog/1").table
    rest.store.trim(dog, Keep(events=2), 0, 100)
    got = await rest.get(f"/Dog/?from={EPOCH}:2")
    assert (410, "gone", f"{EPOCH}:4") == (got.status, got.code, got.value["oldest"])
    rest_of_it = await rest.get("/Dog/?from=0")
    assert ([5, 6], f"{EPOCH}:4") == (seqs(rest_of_it), rest_of_it.headers["rowcast-trimmed"])
    assert "rowcast-trimmed" not in (await rest.get(f"/Dog/?from={EPOCH}:4")).headers


async def test_who_may_not_read_is_refused_and_a_hidden_table_is_not_there():
    async with kennel(grants=Grants(read=False, write=True)) as opened:
        assert 401 == (await opened.get("/Dog/?from=0")).status
        assert 404 == (await opened.get("/Behind/?from=0")).status
