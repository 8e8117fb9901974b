"""Computed attributes in SQL: conditions narrow as they are evaluated, and use indexes (A9, A4)."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from store_cases import Writer

from rowcast.core.conditions import holds
from rowcast.core.errors import Error
from rowcast.core.query_index import is_helped
from rowcast.core.query_text import parse_query
from rowcast.core.scalars import LONG_MAX, LONG_MIN
from rowcast.core.topics import TopicFilter
from rowcast.schema import parse_schema
from rowcast.store.sql_query import Conditions
from rowcast.store.sqlite import SqlStore

SCHEMA = """
type Order @table @export {{
  id: ID @primaryKey
  price: {price}
  count: Long
  other: Long
  total: {total} @indexed @computed(from: "{text}")
  share: Float @computed(from: "count / other - price")
  rest: Float @computed(from: "price - 0.19 * count")
  sum: Long @computed(from: "count + other")
}}
"""
"""The last three are not indexed, and narrowed all the same."""


def schema(text="price * count", price="Float", total="Float"):
    return parse_schema(SCHEMA.format(text=text, price=price, total=total)).tables


TABLE = schema()[0]
NUMBERS = st.integers(-3, 3) | st.sampled_from([LONG_MAX, LONG_MIN, 2**53 + 1]) | st.none()
FLOATS = st.sampled_from([0.0, 0.19, 0.38, 0.5, 1.0, 1 / 3, 1e308, -1e308, 2.0**60]) | st.none()
VALUES = st.fixed_dictionaries({"price": FLOATS, "count": NUMBERS, "other": NUMBERS})
WANTED = st.sampled_from(["0", "0.5", "1", "0.19", "1e308", "2", "-1", "9007199254740993"])
SYMBOLS = st.sampled_from(["==", "!=", "=gt=", "=ge=", "=lt=", "=le="])


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    made = SqlStore(tmp_path_factory.mktemp("computed"))
    made.open((TABLE,))
    yield made
    made.close()


def fill(store, values, table=TABLE):
    """Replace the records."""
    writer = Writer(store.head())
    old = [item.topic for item in store.scan(table, TopicFilter("#"), "", 100).records]
    events = [writer.delete(topic, table) for topic in old]
    store.commit([*events, *(writer.value(table, str(n), one) for n, one in enumerate(values))])


@pytest.mark.heavy
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    values=st.lists(VALUES, min_size=1, max_size=8),
    conditions=st.lists(
        st.tuples(st.sampled_from(["total", "share", "rest", "sum"]), SYMBOLS, WANTED),
        min_size=1,
        max_size=8,
    ),
)
@example(
    values=[{"price": 0.0, "count": 1, "other": 2}, {"price": 0.19, "count": 1, "other": 3}],
    conditions=[("share", "=ge=", "0.5"), ("share", "==", "0.5"), ("rest", "==", "0")],
)
def test_a9_sql_selects_the_records_for_which_a_condition_holds(kept, values, conditions):
    """A9: what SQL computes leaves no record out, and the evaluator decides."""
    fill(kept, values)
    for name, symbol, wanted in conditions:
        text = wanted if name != "sum" or "." not in wanted else "1"
        query = parse_query(f"{name}{symbol}{text}", TABLE)
        expected = {
            f"Order/{number}"
            for number, value in enumerate(values)
            if holds(query.where, value, str(number))
        }
        found = {record.topic for record in kept.search(TABLE, query).records}
        assert expected == found, (name, symbol, wanted)


@pytest.mark.parametrize("text", ["total=gt=5", "total==5", "total=ge=1&total=lt=5"])
def test_a4_a_condition_on_an_indexed_computed_attribute_uses_the_index(place, text):
    """A4, A9: the plan searches; it does not scan."""
    part = place.start((TABLE,))._parts.tables["Order"]
    selected = Conditions(part).filter(parse_query(text, TABLE).where)
    asked = f'EXPLAIN QUERY PLAN SELECT * FROM "Order" WHERE {selected.text}'
    found = " ".join(row[3] for row in place.sql(asked, *selected.values))
    assert "SEARCH Order USING INDEX rowcast_by.Order.total." in found
    assert is_helped(TABLE, parse_query(text, TABLE))


@pytest.mark.parametrize("indexed", ["", "@indexed"])
def test_a9_a_negative_number_after_a_minus_is_no_comment_of_sql(place, indexed):
    """A9: two signs one after the other would begin one."""
    text = "type T @table @export { id: ID @primaryKey a: Long"
    text = f'{text} t: Long {indexed} @computed(from: "a - -1") }}'
    table = parse_schema(text).tables[0]
    store = place.start((table,))
    fill(store, [{"a": 5}, {"a": 6}], table)
    found = store.search(table, parse_query("t==6", table)).records
    assert ["T/0"] == [record.topic for record in found]


def test_a9_a13_integers_of_a_column_that_became_float_are_computed_as_floats(place):
    """A9, A13: 1.0 + 2**53 is 2**53, and the column still has the integer 1."""
    text = "type T @table @export { id: ID @primaryKey b: Long c: Long"
    before = parse_schema(f"{text} a: Int }}").tables[0]
    fill(place.start((before,)), [{"a": 1, "b": 2**53, "c": 2**53}], before)
    after = parse_schema(f'{text} a: Float t: Float @computed(from: "a + b - c") }}').tables[0]
    found = place.start((after,)).search(after, parse_query("t==0", after)).records
    assert ["T/0"] == [record.topic for record in found]


@pytest.mark.parametrize("there", [2.5, True, "7"])
def test_a9_a13_what_does_not_fit_its_attribute_is_no_number(place, there):
    """A9, A13: it was there before the attribute, and its column is null: so is what is made."""
    text = "type T @table @export { id: ID @primaryKey"
    before = parse_schema(f"{text} }}").tables[0]
    fill(place.start((before,)), [{"a": there}], before)
    after = parse_schema(f'{text} a: Long t: Float @computed(from: "a / 2") }}').tables[0]
    store = place.start((after,))
    for asked, found in (("t==null", ["T/0"]), ("t=ge=0", []), ("t==1.25", [])):
        records = store.search(after, parse_query(asked, after)).records
        assert found == [record.topic for record in records], asked


def test_a13_text_that_was_there_before_a_float_is_read_as_it_is(place):
    """A13: it does not fit, so it stays undeclared, and reads return it."""
    text = "type T @table @export { id: ID @primaryKey"
    before = parse_schema(f"{text} }}").tables[0]
    values = ["x", "12", True, [1]]
    fill(place.start((before,)), [{"f": value} for value in values], before)
    after = parse_schema(f"{text} f: Float }}").tables[0]
    found = place.start((after,)).scan(after, TopicFilter("#"), "", 100).records
    assert values == [record.decoded["f"] for record in found]


def indexes(place):
    rows = place.sql("SELECT name FROM sqlite_master WHERE name LIKE 'rowcast_by.Order.total.%'")
    return {name for (name,) in rows}


@pytest.mark.parametrize(
    "changed",
    [{"text": "price + count"}, {"text": "1.5 * count"}, {"price": "Long", "total": "Long"}],
)
def test_a9_another_expression_is_another_index(place, changed):
    """A9, A13: it is made anew at start, also when the type of an input changes."""
    place.start((TABLE,))
    first = indexes(place)
    other = schema(**changed)
    place.start(other)
    second = indexes(place)
    assert (1, 1) == (len(first), len(second))
    assert first.isdisjoint(second)
    place.start((TABLE,))
    assert first == indexes(place)


@pytest.mark.parametrize(
    "field",
    [
        'x: Decimal @indexed @computed(from: "d * 2")',
        'x: String @indexed @computed(from: "s + s")',
        'x: Boolean @indexed @computed(from: "a > 1")',
        'x: Float @indexed @computed(from: "a * 2")',
        'x: Int @indexed @computed(from: "n.a * 2")',
        'x: Long @indexed @computed(from: "id * 2")',
        "x: Int @indexed @computed",
    ],
)
def test_a9_what_no_index_can_have_is_refused(field):
    text = (
        "type N { a: Int } type T @table { id: Long @primaryKey a: Int d: Decimal s: String n: N "
    )
    with pytest.raises(Error, match="@indexed is for"):
        parse_schema(f"{text} {field} }}")
