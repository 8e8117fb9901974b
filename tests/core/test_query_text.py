"""A URL's query string read as a query (B6, B7)."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rowcast.core.conditions import Condition, Group, Operator
from rowcast.core.errors import Code, Error
from rowcast.core.limits import (
    QUERY_CONDITIONS_MAX,
    QUERY_DEPTH_MAX,
    QUERY_LIMIT_RECORDS_MAX,
    QUERY_SELECT_PATHS_MAX,
    QUERY_SORT_KEYS_MAX,
    QUERY_TEXT_CHARS_MAX,
)
from rowcast.core.queries import Projection, Query, Select, Sort
from rowcast.core.query_text import parse_query
from rowcast.core.tables import Attribute, Table, Type

HOME = Attribute(
    "home",
    Type.OBJECT,
    type_name="Home",
    sealed=True,
    fields=(Attribute("city", Type.STRING), Attribute("alarm", Type.STRING, hidden=True)),
)
DOG = Table(
    "Dog",
    "Dog",
    (
        Attribute("id", Type.ID, primary_key=True),
        Attribute("name", Type.STRING),
        Attribute("age", Type.INT),
        Attribute("price", Type.FLOAT),
        Attribute("exact", Type.DECIMAL),
        Attribute("good", Type.BOOLEAN),
        Attribute("born", Type.DATE),
        Attribute("photo", Type.BYTES),
        Attribute("more", Type.ANY),
        Attribute("tags", Type.LIST, items=Attribute("", Type.STRING)),
        HOME,
        Attribute("secret", Type.STRING, hidden=True),
        Attribute("double", Type.INT, computed="age * 2"),
        Attribute("owner", Type.OBJECT, type_name="Owner", relationship=("from", "age")),
        Attribute("ge", Type.INT),
    ),
)
SEALED = Table("Cat", "Cat", (Attribute("name", Type.STRING),), sealed=True)
NUMBERED = Table("N", "N", (Attribute("id", Type.LONG, primary_key=True),))
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def where(text, table=DOG):
    """Give the conditions of a query that has nothing else."""
    query = parse_query(text, table)
    assert Query(query.where) == query
    return query.where


def equal(name, value):
    """Give the condition that a value is there."""
    return Condition(tuple(name.split(".")), Operator.EQ, value)


def refusal(text, table=DOG):
    """Give the sentence that refuses a query, and the character it names."""
    with pytest.raises(Error) as caught:
        parse_query(text, table)
    error = caught.value
    assert error.code is Code.INVALID
    character = error.detail["character"]
    assert error.message.endswith(f" (at character {character})")
    return error.message.removesuffix(f" (at character {character})"), character


@pytest.mark.parametrize("text", ["", "&", "&&"])
def test_nothing_selects_everything(text):
    assert Query() == parse_query(text, DOG)


# -- operators -------------------------------------------------------------------------------------

OPERATORS = [
    ("=", Operator.EQ), ("==", Operator.EQ), ("===", Operator.EQ), ("=eq=", Operator.EQ),
    ("!=", Operator.NE), ("!==", Operator.NE), ("=ne=", Operator.NE), ("=NE=", Operator.NE),
    ("<", Operator.LT), ("<=", Operator.LE), (">", Operator.GT), (">=", Operator.GE),
    ("%3C", Operator.LT), ("%3c=", Operator.LE), ("%3E", Operator.GT), ("%3e=", Operator.GE),
    ("=lt=", Operator.LT), ("=le=", Operator.LE), ("=gt=", Operator.GT), ("=ge=", Operator.GE),
]  # fmt: skip


@pytest.mark.parametrize(("written", "operator"), OPERATORS)
def test_operators(written, operator):
    assert Condition(("price",), operator, 5) == where(f"price{written}5")


@pytest.mark.parametrize(
    ("written", "operator"),
    [
        ("=sw=", Operator.STARTS_WITH),
        ("=ew=", Operator.ENDS_WITH),
        ("=ct=", Operator.CONTAINS),
    ],
)
@pytest.mark.parametrize("name", ["id", "name", "more", "undeclared"])
def test_operators_of_text(written, operator, name):
    assert Condition((name,), operator, "5") == where(f"{name}{written}5")
    assert Condition((name,), operator, "null") == where(f"{name}{written}string:null")


def test_a_star_at_the_end_is_a_prefix():
    assert Condition(("name",), Operator.STARTS_WITH, "Re") == where("name==Re*")
    assert equal("name", "Re*") == where("name==Re%2A") == where("name=Re*")


@pytest.mark.parametrize("text", ["age=in=1,2", "age=in=(1,2)"])
def test_one_of_some_values(text):
    assert Condition(("age",), Operator.IN, (1, 2)) == where(text)


def test_a_comma_within_one_of_some_values():
    assert Condition(("name",), Operator.IN, ("a,b", None)) == where("name=in=a%2Cb,null")


@pytest.mark.parametrize("second", ["lt=200", "=lt=200", "price=lt=200", "price<200"])
def test_a_range_is_chained(second):
    low = Condition(("price",), Operator.GT, 100)
    high = Condition(("price",), Operator.LT, 200)
    assert Group((low, high)) == where(f"price=gt=100&{second}")


@pytest.mark.parametrize("text", ["price=gt=1&ge=5", "price=gt=1|lt=5", "price=1&lt=5"])
def test_an_operators_name_may_be_an_attributes(text):
    """When the table declares it, or when there is no range to go on with."""
    (_, second) = where(text).items
    assert Operator.EQ is second.operator


# -- values ----------------------------------------------------------------------------------------

VALUES = [
    ("name=5", "5"), ("name==5", "5"), ("name=null", "null"), ("name==null", None),
    ("name==string:null", "null"), ("name===string:a", "string:a"), ("name=", ""),
    ("name==urn:x", "urn:x"), ("name=%C3%A9%20%26%20%7C", "é & |"), ("name=a+b", "a+b"),
    ("name=é", "é"), ("name=a(b)[c]", "a(b)[c]"), ("name=%28a%5D", "(a]"), ("name=a(", "a("),
    ("age=-5", -5), ("age==5.5", 5.5), ("age=null", None), ("age==number:5", 5),
    ("price=+1e3", 1000.0), ("price=.5", 0.5), ("price=9223372036854775807", 2**63 - 1),
    ("exact=12.50", Decimal("12.50")), ("exact==number:1", Decimal(1)),
    ("good=true", True), ("good==boolean:false", False), ("good==null", None),
    ("born=2026-01-31T12:00:00Z", NOON), ("born==date:1769860800000", NOON),
    ("born=2026-01-31T14:00:00+02:00", NOON),
    ("photo=AAEC", b"\0\1\2"), ("tags==null", None), ("home=null", None),
    ("more=5", "5"), ("more==5", 5), ("more==5.5", 5.5), ("more==true", True),
    ("more==false", False), ("more==null", None), ("more==a", "a"), ("more==string:5", "5"),
    ("more==number:5", 5), ("more==boolean:true", True), ("more!=date:2026-01-31T12:00:00Z", NOON),
    ("more=date:x", "date:x"), ("colour==5", 5), ("colour=5", "5"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_values_are_of_the_declared_type(text, value):
    found = where(text).value
    assert (value, type(value)) == (found, type(found))


@pytest.mark.parametrize(
    ("text", "sentence", "character"),
    [
        ("price=gt=abc", 'price: "abc" is not a number', 10),
        ("age=99999999999999999999", '"99999999999999999999" is not an integer of 64 bits', 5),
        ("age=" + "9" * 5000, "is not an integer of 64 bits", 5),
        ("price=1e999", '"1e999" is not a number', 7),
        ("price=", '"" is not a number', 7),
        ("price=nan", '"nan" is not a number', 7),
        ("exact=1_0", '"1_0" is not a decimal number', 7),
        ("good==1", '"1" is not true or false', 7),
        ("born==soon", '"soon" is not a time', 7),
        ("born==" + "9" * 19, "is not an integer of 64 bits", 7),
        ("photo=A", '"A" is not base64', 7),
        ("name==number:5", '"number:5" is not text; write string:number:5', 7),
        ("more==number:x", '"number:x" is not a number', 7),
        ("tags=a", '"a" is not null, and type List', 6),
        ("tags=gt=a", "tags is of type List, which has no order", 9),
        ("good=gt=true", "good is of type Boolean, which has no order", 9),
        ("more=gt=true", '"true" has no order', 9),
        ("born=gt=null", '"null" has no order', 9),
        ("age=sw=1", "age is of type Int; only text has a beginning", 8),
        ("age==1*", "age is of type Int; only text has a beginning", 6),
        ("name=%ff", "not UTF-8", 6),
        ("name=\ud800", "not UTF-8", 6),
        ("name=a%00", "NUL", 6),
        ("age=in=1,x", '"x" is not a number', 8),
    ],
)
def test_values_that_cannot_be(text, sentence, character):
    found, at = refusal(text)
    assert sentence in found
    assert character == at


# -- names -----------------------------------------------------------------------------------------


def test_undeclared_attributes_may_be_asked_for():
    assert equal("a.b.c", "1") == where("a.b.c=1")
    assert equal("more.b", "1") == where("more.b=1")
    assert equal("ü ä", "1") == where("%C3%BC%20%C3%A4=1")
    assert equal("100%", "1") == where("100%=1")


def test_an_open_table_may_have_an_attribute_called_limit():
    """B7: only where attributes are declared, and this one is not, is it a mistake."""
    assert equal("limit", "10") == where("limit=10", Table("Free", "Free"))


def test_keys_within_a_nested_type():
    assert equal("home.city", "5") == where("home.city==5")


def test_the_records_id():
    assert equal("$id", "5") == where("$id==5")
    assert equal("$id", 5) == where("$id==5", NUMBERED)


@pytest.mark.parametrize(
    ("text", "sentence", "table"),
    [
        ("nam=1", 'Cat has no attribute "nam"; did you mean "name"?', SEALED),
        ("sort(nam)", 'Cat has no attribute "nam"; did you mean "name"?', SEALED),
        ("select(nam)", 'Cat has no attribute "nam"; did you mean "name"?', SEALED),
        ("limit=10", 'Dog has no attribute "limit"; write limit(10)', DOG),
        ("sort=-name", 'Dog has no attribute "sort"; write sort(-name)', DOG),
        ("select==a", 'Cat has no attribute "select"; write select(name)', SEALED),
        ("offset=3", 'Dog has no attribute "offset"; write limit(20,30)', DOG),
        ("secret=1", 'Dog has no attribute "secret"', DOG),
        ("select(secret)", 'Dog has no attribute "secret"', DOG),
        ("sort(secret)", 'Dog has no attribute "secret"', DOG),
        ("home.alarm=1", 'Home has no attribute "alarm"', DOG),
        ("home.citi=1", 'Home has no attribute "citi"; did you mean "city"?', DOG),
        ("double=1", "double is computed; only stored attributes can be compared", DOG),
        ("owner.name=1", "owner is a relationship; only stored attributes can be", DOG),
        ("owner.name=1", "can be compared here, such as age", DOG),
        ("tags.x=1", 'tags is of type List; only an object has keys such as "x"', DOG),
        ("name.x=1", 'name is of type String; only an object has keys such as "x"', DOG),
        ("a..b=1", '"a..b" is not the name of an attribute', DOG),
        ("=1", '"" is not the name of an attribute', DOG),
        (".".join("a" * (QUERY_DEPTH_MAX + 1)) + "=1", "keys deep", DOG),
    ],
)
def test_names_that_cannot_be(text, sentence, table):
    """A9: a hidden attribute is as unknown as one that is not there."""
    found, at = refusal(text, table)
    assert sentence in found
    assert 1 == at


# -- groups ----------------------------------------------------------------------------------------

A, B, C = (Condition((name,), Operator.EQ, "1") for name in "abc")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", A),
        ("a=1&", A),
        ("&a=1", A),
        ("(a=1)", A),
        ("[[a=1]]", A),
        ("a=1&b=1", Group((A, B))),
        ("a=1&&b=1", Group((A, B))),
        ("a=1|b=1|c=1", Group((A, B, C), all_of=False)),
        ("a=1&(b=1|c=1)", Group((A, Group((B, C), all_of=False)))),
        ("[a=1&b=1]|c=1", Group((Group((A, B)), C), all_of=False)),
        ("%5Ba=1&b=1%5d|c=1", Group((Group((A, B)), C), all_of=False)),
        ("%28a=1|b=1%29&c=1", Group((Group((A, B), all_of=False), C))),
        ("a=1|b=1&limit(5)", Group((A, B), all_of=False)),
        ("limit(5)&a=1|b=1", Group((A, B), all_of=False)),
        ("a=1&limit(5)&b=1", Group((A, B))),
    ],
)
def test_groups(text, expected):
    assert expected == parse_query(text, DOG).where


def test_an_encoded_bracket_ends_a_value_only_in_its_own_group():
    assert equal("a", "x]") == where("%28a=x%5D%29")
    assert equal("a", "x") == where("%5Ba=x%5D")


@pytest.mark.parametrize(
    ("text", "sentence", "character"),
    [
        ("a=1&b=2|c=3", "'&' and '|' are mixed; put brackets", 9),
        ("a=1|b=2&c=3", "'&' and '|' are mixed; put brackets", 9),
        ("a=1|b=2&limit(1)&c=3", "'&' and '|' are mixed; put brackets", 18),
        ("a=1|limit(1)", "a function is joined to the rest by '&'", 5),
        ("limit(1)|a=1", "a function is joined to the rest by '&'", 10),
        ("|a=1", "a condition is missing here", 1),
        ("a=1||b=1", "a condition is missing here", 5),
        ("a=1&|b=1", "a condition is missing here", 5),
        ("a=1|", "a condition is missing here", 4),
        ("()", "a condition is missing here", 1),
        ("(a=1", "a group is not closed by ')'", 5),
        ("%5Ba=1]", "']' closes nothing; write %5D in a value", 7),
        ("a=1)", "')' closes nothing; write %29 in a value", 4),
        ("a=(1]", "']' closes nothing; write %5D in a value", 5),
        ("(a=1)b=1", "expected '&' or '|' here", 6),
        ("name", 'expected a condition such as a==1, not "name"', 1),
        ("name!5", "expected a condition", 1),
        ("(limit(1))", "expected a condition", 2),
        ("(" * 20 + "a=1" + ")" * 20, "groups may be at most", QUERY_DEPTH_MAX + 1),
        ("a=zz=1", "there is no operator =zz=; write %3D", 2),
        ("a=gee=1", 'there is no operator =gee=; did you mean "ge"?', 2),
    ],
)
def test_what_does_not_fit_together(text, sentence, character):
    found, at = refusal(text)
    assert sentence in found
    assert character == at


# -- functions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "paths", "shape"),
    [
        ("a,b", (("a",), ("b",)), Projection.OBJECT),
        ("a", (("a",),), Projection.VALUE),
        ("a,", (("a",),), Projection.OBJECT),
        ("[a,b]", (("a",), ("b",)), Projection.ARRAY),
        ("%5Ba%2Cb%5D", (("a",), ("b",)), Projection.ARRAY),
        ("a.b", (("a", "b"),), Projection.VALUE),
        ("id,home{city}", (("id",), ("home", "city")), Projection.OBJECT),
        (
            "a{b{c,d},e},f",
            (("a", "b", "c"), ("a", "b", "d"), ("a", "e"), ("f",)),
            Projection.OBJECT,
        ),
        ("$id, age ,home.city", (("$id",), ("age",), ("home", "city")), Projection.OBJECT),
    ],
)
def test_select(text, paths, shape):
    assert Query(select=Select(paths, shape)) == parse_query(f"select({text})", DOG)


def test_sort():
    expected = (Sort(("age",)), Sort(("price",), descending=True), Sort(("home", "city")))
    assert Query(sort=expected) == parse_query("sort(+age,-price, home.city)", DOG)


@pytest.mark.parametrize(
    ("text", "limit", "offset"), [("5", 5, 0), ("0", 0, 0), ("10,30", 20, 10), ("%207,%209", 2, 7)]
)
def test_limit(text, limit, offset):
    assert Query(limit=limit, offset=offset) == parse_query(f"limit({text})", DOG)


def test_after():
    assert Query(limit=5, after="abc-_") == parse_query("after(abc-_)&limit(5)", DOG)


def test_functions_may_have_encoded_brackets():
    assert Query(limit=5) == parse_query("limit%285%29", DOG)


def test_everything_together():
    text = "price=gt=100&lt=200&[name==a|name==b]&select(id)&sort(-price)&limit(20)&after(x)"
    query = parse_query(text, DOG)
    assert (3, 20, "x") == (len(query.where.items), query.limit, query.after)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("foo(1)", "there is no function foo()"),
        ("selec(a)", 'there is no function selec(); did you mean "select"?'),
        ("limit(1)&limit(2)", "limit() is there twice"),
        ("limit(1", "limit( is not closed by ')'"),
        ("limit()", '"" is not a limit; write limit(20)'),
        ("limit(-1)", '"-1" is not a limit'),
        ("limit(5,2)", "limit(5,2) must end at or after its start"),
        (f"limit({QUERY_LIMIT_RECORDS_MAX + 1})", "at most at"),
        ("sort()", '"" is not the name of an attribute'),
        ("sort(tags)", "tags is of type List, which has no order"),
        ("sort(double)", "double is computed"),
        (f"sort({'a,' * QUERY_SORT_KEYS_MAX}a)", "a sort has at most"),
        ("sort(vec,target=[1,2])", '"target=[1" is no name to sort by'),
        ("select(name,double)", "double is computed, and only stored attributes can be selected"),
        ("select()", "a select names no attribute"),
        ("select([])", "a select names no attribute"),
        ("select({a})", "'{' must follow a name"),
        ("select(a{b)", "'{' is not closed by '}'"),
        ("select(a})", "'}' closes nothing"),
        (f"select({'a{' * 20}b{'}' * 20})", "'{' must follow a name, and not too deep"),
        (f"select({'a,' * QUERY_SELECT_PATHS_MAX}a)", "a select has at most"),
        ("after()", "after(...) takes a page token"),
        ("after(a)&limit(5,10)", "takes a page token, and beside it only limit(count)"),
        ("select(%ff)", "not UTF-8"),
    ],
)
def test_functions_that_make_no_sense(text, sentence):
    assert sentence in refusal(text)[0]


# -- bounds ----------------------------------------------------------------------------------------


def test_a_query_has_a_longest():
    with pytest.raises(Error) as caught:
        parse_query("a" * (QUERY_TEXT_CHARS_MAX + 1), DOG)
    assert caught.value.code is Code.INVALID


@pytest.mark.parametrize("joint", ["&a=", ","])
def test_a_query_has_most_values(joint):
    most = "a=in=1" + joint.join([""] + ["1"] * (QUERY_CONDITIONS_MAX - 1))
    assert parse_query(most, DOG).where
    assert "at most" in refusal(most + joint + "1")[0]


PIECES = st.sampled_from(
    [
        *"=<>!&|()[]{},.*%+-$ ", "==", "===", "%5B", "%5D", "%28", "%29", "%3C", "%3E", "=in=",
        "=gt=", "lt=", "select(", "sort(", "limit(", "after(", "null", "number:", "date:", "5",
        "1e5", "true", "name", "age", "price", "exact", "born", "photo", "more", "tags",
        "home.city", "secret", "$id", "x", "\0", "%00", "%ff", "é", "\ud800",
    ]
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(PIECES, max_size=25).map("".join)))
@example("a=" + "(" * 3000)
@example("(" * 3000)
def test_any_text_is_a_query_or_an_error(text):
    """Whatever the text, the result is a Query or Error(INVALID) that names a character."""
    for table in (DOG, SEALED, NUMBERED):
        try:
            query = parse_query(text, table)
        except Error as error:
            assert error.code is Code.INVALID
            assert 1 <= error.detail["character"] <= len(text) + 1
            error.message.encode()
        else:
            assert isinstance(query, Query)


# -- silence ---------------------------------------------------------------------------------------

PULSE = Table("Pulse", "Pulse", (Attribute("n", Type.INT),), deadline_seconds=30)


@pytest.mark.parametrize(
    ("text", "stale", "rest"),
    [
        ("_stale=true", True, ""),
        ("_stale=false", False, ""),
        ("_stale==true&n=1", True, "n=1"),
        ("n=1&_stale=true&limit(5)", True, "n=1&limit(5)"),
        ("[n=1|n=2]&_stale=false", False, "[n=1|n=2]"),
    ],
)
def test_m4_silence_is_asked_for_beside_conditions(text, stale, rest):
    assert replace(parse_query(rest, PULSE), stale=stale) == parse_query(text, PULSE)


@pytest.mark.parametrize("text", ["_stale=1", "[_stale=true|n=1]", "n=1|_stale=true", "_stale>1"])
def test_m4_silence_is_no_condition(text):
    assert "_stale" in refusal(text, PULSE)[0]


def test_m4_only_a_table_with_a_deadline_knows_silence():
    assert "@deadline" in refusal("_stale=true", DOG)[0]
