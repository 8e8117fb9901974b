"""What a query means (B6, B7): the reference that every store agrees with."""

import json
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rowcast.core.errors import Code, Error
from rowcast.core.evaluation import (
    ID_PATH,
    answer,
    holds,
    order_key,
    page_token,
    project,
    reach,
    token_values,
)
from rowcast.core.queries import Condition, Group, Operator, Projection, Query, Select, Sort

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ROME = NOON.astimezone(timezone(timedelta(hours=1)))
ORDERINGS = [Operator.GT, Operator.GE, Operator.LT, Operator.LE]


def x(operator, wanted, value):
    """Tell whether a condition holds for a record whose x is the value."""
    return holds(Condition(("x",), operator, wanted), {"x": value}, "1")


# -- equality --------------------------------------------------------------------------------------

EQUAL = [
    (1, 1.0), (1, Decimal("1.0")), (0.5, Decimal("0.5")), ("a", "a"), (True, True), (None, None),
    (NOON, ROME), (NOON, NOON.replace(tzinfo=None)), (b"a", b"a"), ([1, [2.0]], [1.0, [2]]),
    ({"a": 1}, {"a": 1.0}), (math.nan, None), ((1,), [1]),
]  # fmt: skip
UNEQUAL = [
    (1, True), (0, False), (1, "1"), (None, 0), (None, ""), (0.1, Decimal("0.1")), ("a", "A"),
    (NOON, NOON.isoformat()), (b"a", "a"), ([1], [True]), ([1], [1, 2]), ({"a": 1}, {"b": 1}),
    ({"a": 1}, {"a": "1"}), ([1], {"0": 1}), (2**53, float(2**53 + 2)), (2**53 + 1, float(2**53)),
]  # fmt: skip


@pytest.mark.parametrize(("found", "wanted"), EQUAL)
def test_equal_values(found, wanted):
    assert (True, False, True) == (
        x(Operator.EQ, wanted, found),
        x(Operator.NE, wanted, found),
        x(Operator.IN, ("no", wanted), found),
    )


@pytest.mark.parametrize(("found", "wanted"), UNEQUAL)
def test_unequal_values(found, wanted):
    assert (False, True, False) == (
        x(Operator.EQ, wanted, found),
        x(Operator.NE, wanted, found),
        x(Operator.IN, wanted if isinstance(wanted, tuple) else (wanted,), found),
    )


@pytest.mark.parametrize("value", [{}, {"x": None}, "text", None, [1]])
def test_a_missing_value_equals_null(value):
    assert holds(Condition(("x",), Operator.EQ, None), value, "1")
    assert holds(Condition(("x",), Operator.NE, 5), value, "1")


def test_one_value_instead_of_several():
    assert x(Operator.IN, 5, 5)


# -- order -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (1, 1.5), (Decimal("0.1"), 0.5), (-math.inf, -(2**63)), (2**53, 2**53 + 1), ("a", "b"),
        ("Z", "a"), ("\uffff", "\U0001f600"), ("", "a"), (NOON, NOON + timedelta(microseconds=1)),
        (b"a", b"aa"),
    ],
)  # fmt: skip
def test_ordered_values(low, high):
    assert [True, True, False, False] == [x(item, low, high) for item in ORDERINGS]
    assert [False, False, True, True] == [x(item, high, low) for item in ORDERINGS]
    assert [False, True, False, True] == [x(item, low, low) for item in ORDERINGS]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, "1"), (None, 1), (1, None), (None, None), (True, 0), (1, True), (True, False),
        (math.nan, 1), (NOON, "2026"), (b"a", "a"), ([1], [0]), ({}, {}), (NOON, 5),
    ],
)  # fmt: skip
def test_values_without_an_order(one, other):
    assert not any(x(item, one, other) for item in ORDERINGS)


@pytest.mark.parametrize(
    ("operator", "wanted", "expected"),
    [
        (Operator.STARTS_WITH, "ab", True),
        (Operator.STARTS_WITH, "b", False),
        (Operator.ENDS_WITH, "bc", True),
        (Operator.ENDS_WITH, "b", False),
        (Operator.CONTAINS, "b", True),
        (Operator.CONTAINS, "B", False),
        (Operator.CONTAINS, 5, False),
    ],
)
def test_operators_of_text(operator, wanted, expected):
    assert expected == x(operator, wanted, "abc")
    assert not x(operator, wanted, ["abc", "b", 5])


# -- where -----------------------------------------------------------------------------------------

YES = Condition(("x",), Operator.EQ, 1)
NO = Condition(("x",), Operator.EQ, 2)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, True),
        (Group((YES, NO)), False),
        (Group((YES, YES)), True),
        (Group((YES, NO), all_of=False), True),
        (Group((NO, NO), all_of=False), False),
        (Group((YES, Group((NO, YES), all_of=False))), True),
    ],
)
def test_groups(where, expected):
    assert expected == holds(where, {"x": 1}, "1")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("a", "b"), 1), (("a",), {"b": 1}), (("a", "b", "c"), None), (("c",), None),
        (("n",), None), (("d",), None), (ID_PATH, "7"), (("$id", "x"), None),
    ],
)  # fmt: skip
def test_what_is_at_a_path(path, expected):
    value = {"a": {"b": 1}, "n": math.nan, "d": Decimal("sNaN")}
    assert expected == reach(path, value, "7")


# -- sort ------------------------------------------------------------------------------------------

SCALARS = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-5, 5) | st.sampled_from("aAbé")
    | st.sampled_from([NOON, ROME, b"a", b"b", Decimal("1.5"), [1], {"a": 1}, math.nan])
)  # fmt: skip
RECORDS = st.dictionaries(
    st.integers(0, 50).map(str), st.dictionaries(st.sampled_from("xy"), SCALARS), max_size=12
).map(lambda records: list(records.items()))
SORTS = st.lists(
    st.builds(Sort, st.sampled_from([("x",), ("y",), ID_PATH]), st.booleans()), max_size=2
).map(tuple)


def ids(query, records):
    """Give the ids of an answer."""
    return [row[0] for row in answer(query, records).rows]


@pytest.mark.parametrize("descending", [False, True])
def test_kinds_follow_one_another_and_what_is_missing_comes_last(descending):
    kinds = [[False, True], [-1, 0.5, 2], ["A", "a"], [NOON], [b""]]
    values = [value for kind in kinds for value in kind]
    records = [(str(n), {"x": value}) for n, value in enumerate(values)]
    last = [("91", {}), ("92", {"x": None}), ("93", {"x": [1]}), ("94", {"x": math.nan})]
    expected = [row[0] for row in (records[::-1] if descending else records)]
    expected += [row[0] for row in last]
    query = Query(sort=(Sort(("x",), descending),))
    assert expected == ids(query, last[::-1] + records)


@pytest.mark.parametrize("descending", [False, True])
def test_the_id_decides_last(descending):
    query = Query(sort=(Sort(("x",), descending),))
    assert ["1", "10", "2"] == ids(query, [(n, {"x": 1}) for n in ("2", "10", "1")])
    assert [1, 2, 10] == ids(query, [(n, {"x": 1}) for n in (2, 10, 1)])


def test_records_that_are_no_objects_have_only_an_id():
    assert ["1", "2"] == ids(Query(sort=(Sort(("x",)),)), [("2", 5), ("1", None)])


def test_a_place_is_no_other_thing():
    (place,) = order_key((), {}, "1")
    assert place != "1"


@given(RECORDS, SORTS)
def test_the_order_is_total(records, sort):
    keys = sorted(order_key(sort, value, record_id) for record_id, value in records)
    assert all(one < other and other > one and one != other for one, other in pairwise(keys))


# -- pages -----------------------------------------------------------------------------------------


def pages(query, records):
    """Follow the tokens; give the ids of each page."""
    found = []
    while True:
        part = answer(query, records)
        found.append([row[0] for row in part.rows])
        if not part.after:
            return found
        query = Query(query.where, sort=query.sort, limit=query.limit, after=part.after)


@given(RECORDS, SORTS, st.integers(1, 4))
def test_pages_are_the_whole_answer(records, sort, limit):
    """B7: no record twice, none left out, in order."""
    whole = ids(Query(sort=sort), records)
    found = pages(Query(sort=sort, limit=limit), records)
    assert whole == [record_id for page in found for record_id in page]
    assert all(len(page) == limit for page in found[:-1])


def test_a_page_is_not_moved_by_writes_before_it():
    """B7: stable under concurrent writes."""
    records = [(str(n), {"x": n}) for n in range(6)]
    query = Query(sort=(Sort(("x",)),), limit=2)
    after = answer(query, records).after
    changed = [("new", {"x": -1}), *records[2:]]
    assert ["2", "3"] == ids(Query(sort=query.sort, limit=2, after=after), changed)


@pytest.mark.parametrize(
    ("limit", "offset", "expected", "more"),
    [
        (None, 0, "abcd", False), (2, 0, "ab", True), (2, 2, "cd", False), (None, 3, "d", False),
        (2, 9, "", False), (0, 0, "", False), (1, 1, "b", True),
    ],
)  # fmt: skip
def test_limit_and_offset(limit, offset, expected, more):
    part = answer(Query(limit=limit, offset=offset), [(name, {}) for name in "dbca"])
    assert (list(expected), more) == ([row[0] for row in part.rows], bool(part.after))


def test_only_what_the_conditions_select_is_answered():
    assert ["1"] == ids(Query(YES), [("1", {"x": 1}), ("2", {"x": 2})])


@given(st.lists(SCALARS, max_size=3), st.text() | st.integers(-(2**63), 2**63 - 1))
@example([Decimal("0.10"), NOON, b"\xff"], "é")
@example([math.inf], 5)
def test_a_token_holds_the_values_of_the_order(values, record_id):
    value = {str(n): item for n, item in enumerate(values)}
    sort = tuple(Sort((name,), descending=True) for name in value)
    token = page_token(sort, value, record_id)
    assert token.replace("-", "a").replace("_", "a").isalnum()
    assert order_key(sort, value, record_id) == order_key(
        sort, {str(n): item for n, item in enumerate(token_values(sort, token)[:-1])}, record_id
    )
    assert record_id == token_values(sort, token)[-1]


def forged(text):
    """Give the token that holds a text."""
    return urlsafe_b64encode(text.encode()).decode()


TOKEN = answer(Query(limit=1), [("1", {}), ("2", {})]).after


@pytest.mark.parametrize(
    "token",
    [
        "", "x", "é", "AAAA", TOKEN[:-2], forged("[]"), forged("5"), forged('"abc"'), forged("{}"),
        forged("[" * 100_000), forged("[1e999]"), forged("[" + "9" * 5000 + "]"),
    ],
)  # fmt: skip
def test_text_that_is_no_token(token):
    with pytest.raises(Error, match="page token") as caught:
        token_values((), token)
    assert caught.value.code is Code.INVALID


def test_a_token_of_another_order():
    token = page_token((Sort(("x",)),), {"x": 1}, "1")
    for sort in ((), (Sort(("y",)),), (Sort(("x",), descending=True),)):
        with pytest.raises(Error, match="page token"):
            token_values(sort, token)


@pytest.mark.parametrize(
    "value",
    ["{}", '{"Date":"x"}', '{"Dates":1}', '{"Int":true}', '"\\ud800"', "9223372036854775808"],
)
def test_a_forged_value(value):
    """Whatever reaches a store from a token is a value that a record can have."""
    sort = (Sort(("x",)),)
    mark, *_ = json.loads(urlsafe_b64decode(page_token(sort, {}, "1") + "=="))
    assert (None, "1") == token_values(sort, forged(f'[{mark},[1],"1"]'))
    with pytest.raises(Error, match="page token"):
        token_values(sort, forged(f'[{mark},{value},"1"]'))
    with pytest.raises(Error, match="page token"):
        token_values(sort, forged(f"[{mark},1,true]"))


# -- parts -----------------------------------------------------------------------------------------

VALUE = {"a": 1, "b": {"c": 2, "d": 3}, "n": None}


@pytest.mark.parametrize(
    ("paths", "shape", "expected"),
    [
        ("a b", Projection.OBJECT, {"a": 1, "b": {"c": 2, "d": 3}}),
        ("b.d b.c a", Projection.OBJECT, {"b": {"d": 3, "c": 2}, "a": 1}),
        ("b.c b", Projection.OBJECT, {"b": {"c": 2, "d": 3}}),
        ("b b.c", Projection.OBJECT, {"b": {"c": 2, "d": 3}}),
        ("n zzz b.zzz a.x $id", Projection.OBJECT, {"n": None, "$id": "7"}),
        ("a zzz b.c $id", Projection.ARRAY, [1, None, 2, "7"]),
        ("b.c", Projection.VALUE, 2),
        ("zzz", Projection.VALUE, None),
        ("$id", Projection.VALUE, "7"),
    ],
)
def test_parts_of_a_record(paths, shape, expected):
    select = Select(tuple(tuple(path.split(".")) for path in paths.split()), shape)
    assert expected == project(select, VALUE, "7")


def test_no_select_is_the_record_itself():
    assert project(None, VALUE, "7") is VALUE


def test_parts_of_what_is_no_object():
    assert {} == project(Select((("a",),)), 5, "7")


def test_an_object_of_the_record_is_never_written_to():
    value = {"b": {"c": 2, "d": 3}}
    found = project(Select((("b", "c"), ("b", "d"))), value, "7")
    assert found["b"] is not value["b"]
