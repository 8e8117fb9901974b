"""Groups of records: how they are asked for, and what they are (B19)."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from rowcast.core.errors import Error
from rowcast.core.grouping import Aggregate, GroupFunction, Grouping, Groups, in_order
from rowcast.core.queries import Query
from rowcast.core.query_text import parse_query
from rowcast.core.tables import Attribute, Table, Type

TABLE = Table(
    "Dog",
    "Dog",
    (
        Attribute("id", Type.ID, primary_key=True),
        Attribute("site", Type.STRING),
        Attribute("temp", Type.FLOAT),
        Attribute("good", Type.BOOLEAN),
        Attribute("tags", Type.LIST, items=Attribute("", Type.STRING)),
        Attribute("secret", Type.STRING, hidden=True),
    ),
)
DAY = datetime(2026, 1, 1, tzinfo=UTC)


def grouping(text):
    return parse_query(f"group({text})", TABLE, groups=True).group


def rows(text, *values, most=100):
    groups = Groups(grouping(text), most)
    for number, value in enumerate(values):
        groups.add(value, str(number))
    return groups.rows()


@pytest.mark.parametrize("encoded", [False, True])
def test_it_is_parsed(encoded):
    text = "temp=gt=3&group(site,count(),avg(temp),max(a.b))"
    if encoded:
        text = text.replace("(", "%28").replace(")", "%29")
    query = parse_query(text, TABLE, groups=True)
    assert query.group == Grouping(
        (("site",),),
        (
            Aggregate(GroupFunction.COUNT),
            Aggregate(GroupFunction.AVG, ("temp",)),
            Aggregate(GroupFunction.MAX, ("a", "b")),
        ),
    )
    assert query.where is not None
    assert query.group.names == ["site", "count()", "avg(temp)", "max(a.b)"]
    assert query.group.used == (("site",), ("temp",), ("a", "b"))


def test_sums_of_decimals_are_exact():
    """B19: whatever their digits and exponents; a mean has as many digits as a Decimal."""
    values = ["123456789012345678901234567890.1234", "0.0001", 7, "1E+40", "-1E+40"]
    values = [Decimal(value) if isinstance(value, str) else value for value in values]
    (row,) = rows("sum(x),avg(x)", *({"x": value} for value in values))
    assert Decimal("123456789012345678901234567897.1235") == row["sum(x)"]
    assert Decimal("24691357802469135780246913579.4247") == row["avg(x)"]
    (row,) = rows("sum(x)", {"x": Decimal("1E+6144")}, {"x": Decimal("1E-6144")})
    assert (1, 12_289) == (row["sum(x)"].as_tuple().digits[0], len(row["sum(x)"].as_tuple().digits))


def test_what_is_written_twice_is_there_once():
    assert grouping("site,count(),site,count()").names == ["site", "count()"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("group(site", "not closed"),
        ("group(site,count()", "not closed"),
        ("group(site)&sort(site)", "not joined"),
        ("group(site)&limit(3)", "not joined"),
        ("group()", "is not the name"),
        ("group(tags)", "by which nothing is grouped"),
        ("group(secret)", "no attribute"),
        ("group(site,max(secret))", "no attribute"),
        ("group(site,median(temp))", "no function of a group"),
        ("group(site,cuont())", 'mean "count"'),
        ("group(site,count(a(b)))", "no function of a group"),
        ("group(site,avg())", "needs the name"),
        ("group(site,sum(site))", "there is no sum"),
        ("group(site,avg(good))", "there is no avg"),
        ("group(site,min(tags))", "there is no min"),
        ("group(" + ",".join("abcdefghi") + ")", "at most 8"),
        ("group(" + ",".join(["count()"] * 101) + ")", "at most 100"),
    ],
)
def test_mistakes_are_told(text, words):
    """P5."""
    with pytest.raises(Error) as failure:
        parse_query(text, TABLE, groups=True)
    assert words in failure.value.message


def test_other_places_know_no_groups():
    """P5: where a query must return records, the function is unknown."""
    with pytest.raises(Error, match="there is no function group"):
        parse_query("group(site)", TABLE)
    assert parse_query("", TABLE, groups=True) == Query()


def test_groups_in_the_order_of_their_values():
    """Values of one kind, whatever their spelling; null, and what has no order, is last."""
    found = rows(
        "a,count()",
        {"a": "x"}, {"a": 1}, {"a": 1.0}, {"a": Decimal(1)}, {"a": True}, {}, {"a": [1]},
        {"a": float("nan")}, {"a": DAY.replace(tzinfo=None)}, {"a": DAY},
        None,
    )  # fmt: skip
    assert [(row["a"], row["count()"]) for row in found] == [
        (True, 1),
        (1, 3),
        ("x", 1),
        (DAY, 2),
        (None, 4),
    ]


def test_aggregates():
    text = "count(),count(temp),sum(temp),avg(temp),min(temp),max(temp)"
    assert [list(row.values()) for row in rows(text, {"temp": 2.0}, {"temp": 4.0}, {})] == [
        [3, 2, 6.0, 3.0, 2.0, 4.0]
    ]
    assert [list(row.values()) for row in rows(text)] == [[0, 0, None, None, None, None]]


def test_sums_are_exact_without_floats():
    text = "sum(a),avg(a)"
    (whole,) = rows(text, {"a": 2**62}, {"a": 2**62}, {"a": 2**62})
    assert whole["sum(a)"] == 3 * 2**62
    (money,) = rows(text, {"a": Decimal("0.10")}, {"a": Decimal("0.20")}, {"a": 1})
    assert (money["sum(a)"], type(money["avg(a)"])) == (Decimal("1.30"), Decimal)
    (mixed,) = rows(text, {"a": Decimal("0.5")}, {"a": 0.25}, {"a": "12"}, {"a": True})
    assert mixed == {"sum(a)": 0.75, "avg(a)": 0.375}


def test_extremes_are_of_what_has_an_order():
    (found,) = rows("min(a),max(a),count(a)", {"a": "x"}, {"a": 3}, {"a": 2}, {"a": {"b": 1}})
    assert found == {"min(a)": 2, "max(a)": "x", "count(a)": 4}


def test_too_many_groups_are_refused():
    """P2: they are in memory at once."""
    assert len(rows("a", {"a": 1}, {"a": 2}, {"a": 1}, most=2)) == 2
    with pytest.raises(Error, match="more than 2 groups"):
        rows("a", {"a": 1}, {"a": 2}, {"a": 3}, most=2)


def test_rows_are_put_in_order():
    asked = grouping("a,b")
    found = in_order([{"a": 1, "b": None}, {"a": None, "b": 1}, {"a": 1, "b": 2}], asked)
    assert [tuple(row.values()) for row in found] == [(1, 2), (1, None), (None, 1)]
