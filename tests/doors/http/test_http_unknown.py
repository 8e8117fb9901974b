"""What a GET says and nothing knows is refused, with what was probably meant (P5)."""

import json

import pytest

from asgi import EPOCH, asgi
from rowcast.core.conditions import Condition, Operator
from rowcast.core.queries import Query
from rowcast.core.tables import Attribute, Table, Type
from rowcast.reads.unknown_names import looks_at_all


@pytest.fixture
async def rest():
    """Two dogs, of which one has an attribute that nobody declared, and an open table's record."""
    async with asgi() as opened:
        for number, more in ((1, {}), (2, {"nickname": "Bo", "owner": {"name": "A", "pet": 1}})):
            body = {"name": f"Rex{number}", "age": number} | more
            await opened.put(f"/Dog/{number}", json.dumps(body).encode())
        await opened.put("/Open/1", b'{"kind": "a"}')
        yield opened


# B18: half of a long poll
REFUSED = [
    ("agee==5", 'did you mean "age"?'),
    ("agee=5", 'did you mean "age"?'),
    ("age=gt=100&nam==x", 'did you mean "name"?'),
    ("[agee==5|agee==6]", 'did you mean "age"?'),
    ("owner.nam==x", "'owner.nam'"),
    ("sort(-agee)", 'did you mean "age"?'),
    ("select(name,agee)", 'did you mean "age"?'),
    ("select(agee)", 'did you mean "age"?'),
    ("agee==5&count", 'did you mean "age"?'),
    ("count&limit(2)", "count is the number of all records that satisfy the conditions"),
    ("count&age=gt=0&limit(1,2)&asof=now", "has no limit; leave it out"),
    ("count&sort(age)&after(WzFd)", "leave it out"),
    ("page=2", "write limit(20,40)"),
    ("per_page=20", "write limit(20)"),
    ("live=true", "?since=<cursor>&live=true"),
    (f"since={EPOCH}:1", "?from=<cursor>"),
    ("asof=2099", "for the year write 2099-01-01T00:00:00Z"),
    ("asof=2099-01-01T00:00:00Z", "is to come"),
    ("sort(vec,target=[1,2])", "no order by distance"),
]


@pytest.mark.parametrize(("query", "words"), REFUSED)
async def test_p5_a_word_that_nothing_knows_is_refused(rest, query, words):
    answer = await rest.get(f"/Dog/?{query}")
    assert (400, True) == (answer.status, words in answer.value["detail"]), answer.body


@pytest.mark.parametrize(
    "query",
    ["nickname==Rex", "nickname==Bo", "owner.pet==2", "sort(nickname)", "select(name,nickname)"],
)
async def test_p5_what_some_record_has_is_no_mistake(rest, query):
    assert 200 == (await rest.get(f"/Dog/?{query}&age=ge=0")).status


async def test_p5_a_part_of_a_record_likewise(rest):
    assert 400 == (await rest.get("/Dog/1?select(agee)")).status
    assert None is (await rest.get("/Dog/1?select(nickname)")).value


async def test_p5_a_misspelt_word_about_the_past_of_one_record_is_named(rest):
    answer = await rest.get("/Dog/1?form=-1h")
    assert (400, True) == (answer.status, 'did you mean "from"?' in answer.value["detail"])
    answer = await rest.get("/Dog/1?name==Rex1")
    assert (400, False) == (answer.status, "did you mean" in answer.value["detail"])


async def test_p5_an_open_table_knows_what_its_records_have(rest):
    assert [] == (await rest.get("/Open/?kind==b")).value
    answer = await rest.get("/Open/?kinf==b")
    assert "no record has one" in answer.value["detail"]
    await rest.delete("/Open/1")
    assert [] == (await rest.get("/Open/?kinf==b")).value


async def test_p5_an_empty_table_with_types_knows_its_attributes(rest):
    """So a misspelt name is found before the first record is there."""
    answer = await rest.get("/Timed/?mad==5")
    assert 'did you mean "made"?' in answer.value["detail"]


async def test_p5_a_large_table_is_not_scanned_for_a_name(rest):
    """Not more than the query did: here the key answers it."""
    rest.kernel.readable._names._looked_at_max = 1
    assert [] == (await rest.get("/Dog/?id==7&agee==5")).value
    assert 400 == (await rest.get("/Dog/?agee==5")).status


@pytest.mark.parametrize(
    ("query", "use", "all_of_it"),
    [
        (Query(Condition(("x",), Operator.EQ, 1)), "where", True),
        (Query(Condition(("breed",), Operator.EQ, 1)), "where", False),
        (Query(Condition(("$id",), Operator.STARTS_WITH, "a")), "sort", False),
        (Query(), "select", True),
        (Query(limit=5), "select", False),
    ],
)
def test_p5_which_queries_look_at_all_records(query, use, all_of_it):
    table = Table("Dog", "Dog", (Attribute("breed", Type.STRING, indexed=True),))
    assert all_of_it is looks_at_all(table, query, use)


async def test_p5_rows_of_the_system_know_their_fields(rest):
    for _ in range(2):  # without a row, and with one
        answer = await rest.get("/$SYS/delayed/?duee==1")
        assert 'did you mean "due"?' in answer.value["detail"]
        await rest.put("/$delayed/60/Open/2", b"{}")
    assert 400 == (await rest.get("/$SYS/delayed/?sort(duee)")).status


async def test_p5_a_query_without_the_slash_says_where_the_records_are(rest):
    answer = await rest.get("/Dog?age==5")
    assert "'/Dog/?age==5'" in answer.value["detail"]


async def test_p5_a_clock_that_is_a_little_ahead_asks_for_now(rest):
    moment = int((rest.kernel.now() + 5) * 1000)
    assert 200 == (await rest.get(f"/Dog/?asof={moment}")).status


@pytest.mark.parametrize("path", ["/Dog/1", "/Dog/1.name", "/Dog/1?meta=true", "/loose/1", "/Dog"])
async def test_there_is_no_count_of_one_record(rest, path):
    """P5, B19: the record is not sent in place of a number."""
    await rest.put("/loose/1", b"{}")
    refused = await rest.get(path + ("&" if "?" in path else "?") + "count")
    assert (refused.status, "/Dog/?count" in refused.value["detail"]) == (400, True)
    assert 200 == (await rest.get(path + ("&" if "?" in path else "?") + "count=false")).status


@pytest.mark.parametrize("path", ["/mqtt_home/", "/mqtt_home", "/mqtt_home/?limit(1)"])
async def test_a_404_says_which_name_a_topic_table_has_instead(rest, path):
    """X3: its usual name is that of topics which were there before."""
    for topic in ("mqtt_home/x", "home/t"):
        await rest.post(f"/{topic}?retain=false", b"1")
    listed = (await rest.get("/$SYS/topic_tables/")).value
    (name,) = (row["name"] for row in listed if row["name"].startswith("mqtt_home"))
    assert "mqtt_home" != name
    answer = await rest.get(path)
    assert (404, True) == (
        answer.status,
        f"below home/ are rows of {name}" in answer.value["detail"],
    )
    assert 1 == len((await rest.get(f"/{name}/")).value)
