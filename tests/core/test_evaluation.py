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

from rowcast.core.conditions import ID_PATH, Condition, Operator
from rowcast.core.errors import Code, Error
from rowcast.core.evaluation import answer, order_key, page_token, project, token_values
from rowcast.core.queries import Projection, Query, Select, Sort

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ROME = NOON.astimezone(timezone(timedelta(hours=1)))

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
    assert ["1"] == ids(
        Query(Condition(("x",), Operator.EQ, 1)), [("1", {"x": 1}), ("2", {"x": 2})]
    )


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
