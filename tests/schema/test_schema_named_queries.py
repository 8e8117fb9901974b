"""``query NAME @query``: what it names, and what is wrong with one (M3)."""

import pytest

from rowcast.core.errors import Error
from rowcast.schema import parse_schema

SOURCE = "type Sensor @table @export { temp: Float site: String }\ntype Inner @table { x: Int }\n"
GOOD = 'query Hot @query(table: "Sensor", where: "temp=gt=80&site==A")'


def test_a_query_names_conditions_of_a_table():
    schema = parse_schema(SOURCE + GOOD)
    (query,) = schema.queries
    assert ("Hot", "temp=gt=80&site==A") == (query.name, query.conditions)
    assert query.table is schema.table("Sensor")
    assert parse_schema(SOURCE).queries == ()


def test_a_table_of_another_name_and_path_is_found():
    text = 'type S @table(table: "T") @export(name: "p/q") { x: Int }'
    (query,) = parse_schema(text + ' query Q @query(table: "T", where: "x==1")').queries
    assert query.table.path == "p/q"


@pytest.mark.parametrize(
    "window", ["temp=gt=80&sort(-temp)&limit(10)", "limit(2)", "site==A&select(site,temp)"]
)
def test_a_named_query_may_be_a_window_or_select_parts(window):
    """M3: with an order and a limit, also without conditions."""
    (query,) = parse_schema(SOURCE + GOOD.replace("temp=gt=80&site==A", window)).queries
    assert window == query.conditions


@pytest.mark.parametrize(
    ("old", "new", "at", "said", "hint"),
    [
        ('"Sensor"', '"Sensr"', '"Sensr"', 'there is no table "Sensr"', "Sensor"),
        ('"Sensor"', '"Inner"', '"Inner"', "Inner needs @export", ""),
        ('table: "Sensor", ', "", "@query", "@query needs a table and conditions", ""),
        (', where: "temp=gt=80&site==A"', "", "@query", "@query needs a table and conditions", ""),
        ("gt=80", "gt=warm", '"temp=gt=warm', "where: ", ""),
        ("temp=gt", "tmp=gt", '"tmp', 'Sensor declares no attribute "tmp", which a query', "temp"),
        ("site==A", "sort(temp)", '"temp', "no order without a limit", ""),
        ("site==A", "limit(1001)", '"temp', "ends at record 1000 at most", ""),
        ("site==A", "select(tmp)&limit(3)", '"temp', 'declares no attribute "tmp"', "temp"),
        ("site==A", "select(tmp)", '"temp', 'declares no attribute "tmp"', "temp"),
        ("site==A", "sort(tmp)&limit(3)", '"temp', 'declares no attribute "tmp"', "temp"),
        ("Hot", "Sensor", "query", 'a table is exported at "Sensor"; rename the query', ""),
        (" Hot", "", "query", "a named query has a name and @query, and no braces", ""),
        ("@query(table", "@quary(table", "@quary", "Unknown directive '@quary'", "query"),
        ("where", "wher", "wher", "Unknown argument 'wher'", "where"),
        ('A")', 'A") { temp }', "query", "a named query has a name and @query, and no braces", ""),
        ("Hot", "Hot($a: Int)", "query", "a named query has a name and @query", ""),
        ("query Hot", f"{GOOD}\nquery Hot", "query Hot", "query Hot is there already", ""),
    ],
)
def test_what_is_wrong_is_said_with_its_place(old, new, at, said, hint):
    text = SOURCE + GOOD.replace(old, new, 1)
    with pytest.raises(Error) as raised:
        parse_schema(text)
    found = raised.value.detail["problems"]
    fitting = [item for item in found if said in item["message"]]
    assert fitting, found
    assert fitting[0]["suggestion"] == hint
    place = text.index(at) if at == "query" else text.rindex(at)
    line = text.count("\n", 0, place) + 1
    column = place - text.rfind("\n", 0, place)
    assert (line, column) == (fitting[0]["line"], fitting[0]["column"])
