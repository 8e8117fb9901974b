"""Values against a table: in, out, patched (A2, A5, A8, A9, A15, A18)."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowcast.core.errors import Code, Error
from rowcast.core.limits import PROBLEMS_MAX
from rowcast.core.merge_patch import is_operation, merge_patch
from rowcast.core.scalars import CONVERT, INT_MAX, INT_MIN, LONG_MAX, LONG_MIN
from rowcast.core.tables import Attribute, Role, Table, Type
from rowcast.core.value_texts import shown
from rowcast.core.values import Checker, id_text, parse_id

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOME = Attribute(
    "home",
    Type.OBJECT,
    fields=(
        Attribute("city", Type.STRING, required=True),
        Attribute("since", Type.DATE),
        Attribute("alarm", Type.STRING, hidden=True),
    ),
    type_name="Home",
    sealed=True,
)
ATTRIBUTES = (
    Attribute("id", Type.ID, required=True, primary_key=True),
    Attribute("name", Type.STRING, required=True),
    Attribute("age", Type.INT),
    Attribute("price", Type.FLOAT),
    Attribute("exact", Type.DECIMAL),
    Attribute("good", Type.BOOLEAN),
    Attribute("born", Type.DATE),
    Attribute("photo", Type.BYTES),
    Attribute("more", Type.ANY),
    Attribute("tags", Type.LIST, items=Attribute("", Type.STRING, required=True)),
    Attribute("days", Type.LIST, items=Attribute("", Type.DATE)),
    Attribute("homes", Type.LIST, items=HOME),
    HOME,
    Attribute("secret", Type.STRING, hidden=True),
    Attribute("made", Type.DATE, role=Role.CREATED_TIME),
    Attribute("changed", Type.DATE, role=Role.UPDATED_TIME, required=True),
    Attribute("ends", Type.LONG, role=Role.EXPIRES_AT),
    Attribute("double", Type.INT, computed="age * 2"),
    Attribute("owner", Type.OBJECT, type_name="Owner", relationship=("from", "age")),
)
DOG = Checker(Table("Dog", "Dog", ATTRIBUTES))
SEALED = Checker(Table("Dog", "Dog", ATTRIBUTES, sealed=True))
OPEN = Checker(Table("MyTopic", "MyTopic", ATTRIBUTES[:1]))


def single(type_, **more):
    """Give the checker of a table with one attribute x."""
    return Checker(Table("T", "T", (Attribute("x", type_, **more),)))


def refused(checker, value, *, partial=False):
    """Give the problems that a check tells, by path."""
    with pytest.raises(Error) as caught:
        checker.check(value, partial)
    assert caught.value.code is Code.UNPROCESSABLE
    told = caught.value.detail["problems"]
    for item in told:
        assert f"{item['path']}: {item['message']}" in caught.value.message
    return {item["path"]: item["message"] for item in told}


# -- what comes in ---------------------------------------------------------------------------------


def test_a_right_value_comes_back_as_the_same_object():
    """Its bytes can then be kept."""
    value = {
        "id": "1", "name": "Rex", "age": 3, "price": 1.5, "exact": Decimal("1.50"), "good": True,
        "born": NOON, "photo": b"\0", "more": [None], "tags": ["a"], "days": [NOON, None],
        "homes": [{"city": "Rome"}], "home": {"city": "Rome"}, "ends": 5, "undeclared": {"a": 1},
    }  # fmt: skip
    assert DOG.check(value) is value


@pytest.mark.parametrize("value", [None, 5, "text", b"\0", [1], {"a": NOON}])
def test_an_open_table_takes_anything(value):
    """A8, A18."""
    assert OPEN.check(value) is value


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"), (True, "a boolean"), (5, "a number"), ("text", "text"), (b"\0", "bytes"),
        ([1], "a list"), (NOON, "a datetime"),
    ],
)  # fmt: skip
def test_a_declared_table_takes_an_object(value, kind):
    with pytest.raises(Error) as caught:
        DOG.check(value)
    assert f"Dog takes an object with its attributes, not {kind}" == caught.value.message


CONVERSIONS = [
    (Type.ID, "a/b", "a/b"),
    (Type.ID, 7, "7"),
    (Type.INT, INT_MIN, INT_MIN),
    (Type.INT, 3.0, 3),
    (Type.LONG, LONG_MAX, LONG_MAX),
    (Type.LONG, -(2.0**53), -(2**53)),
    (Type.FLOAT, 3, 3.0),
    (Type.FLOAT, Decimal("1.5"), 1.5),
    (Type.DECIMAL, "12.50", Decimal("12.50")),
    (Type.DECIMAL, 0.1, Decimal("0.1")),
    (Type.DECIMAL, -7, Decimal(-7)),
    (Type.DECIMAL, "-.5e-3", Decimal("-.5e-3")),
    (Type.BOOLEAN, False, False),
    (Type.DATE, "2026-01-31T12:00:00Z", NOON),
    (Type.DATE, "2026-01-31 14:00+02:00", NOON),
    (Type.DATE, "2026-01-31T12:00", NOON),
    (Type.DATE, "2026-01-31", NOON.replace(hour=0)),
    (Type.DATE, 1_769_860_800_000, NOON),
    (Type.DATE, 1_769_860_800_000.5, NOON.replace(microsecond=500)),
    (Type.DATE, NOON.replace(tzinfo=None), NOON),
    (Type.DATE, NOON.astimezone(timezone(timedelta(hours=2))), NOON),
    (Type.BYTES, "AAEC", b"\0\1\2"),
    (Type.BYTES, bytearray(b"\1"), b"\1"),
    (Type.BYTES, memoryview(b"\1"), b"\1"),
    (Type.ANY, {1: 2}, {1: 2}),
]


@pytest.mark.parametrize(("type_", "given", "expected"), CONVERSIONS)
def test_a_value_is_brought_to_its_type(type_, given, expected):
    """A2."""
    value = {"x": given}
    (found,) = single(type_).check(value).values()
    assert (expected, type(expected)) == (found, type(found))
    assert value == {"x": given}


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (Type.ID, "a"), (Type.STRING, "a"), (Type.FLOAT, 1.5), (Type.BOOLEAN, True),
        (Type.BYTES, b"a"), (Type.DECIMAL, Decimal(1)), (Type.DATE, NOON), (Type.ANY, None),
        (Type.INT, int("70000")), (Type.LONG, int("5000000000")),
    ],
)  # fmt: skip
def test_a_conversion_keeps_what_is_right(type_, value):
    assert CONVERT[type_](value) is value


MISMATCHES = [
    (Type.ID, True), (Type.ID, 1.0), (Type.ID, 2**64), (Type.STRING, 1), (Type.STRING, b"a"),
    (Type.INT, True), (Type.INT, INT_MAX + 1), (Type.INT, 1.5), (Type.INT, "3"),
    (Type.INT, float("nan")), (Type.LONG, LONG_MIN - 1), (Type.LONG, 2.0**60),
    (Type.FLOAT, "1"), (Type.FLOAT, True), (Type.FLOAT, 2**64), (Type.FLOAT, Decimal("1e400")),
    (Type.FLOAT, Decimal("nan")),
    (Type.DECIMAL, "abc"), (Type.DECIMAL, "1_0"), (Type.DECIMAL, "NaN"), (Type.DECIMAL, True),
    (Type.DECIMAL, "1" * 35), (Type.DECIMAL, "1e7000"), (Type.DECIMAL, float("inf")),
    (Type.DECIMAL, Decimal("inf")), (Type.DECIMAL, 2**64), (Type.DECIMAL, [1]),
    (Type.DECIMAL, "1" * 101), (Type.BOOLEAN, 1), (Type.BOOLEAN, "true"),
    (Type.DATE, "yesterday"), (Type.DATE, True), (Type.DATE, [1]), (Type.DATE, float("nan")),
    (Type.DATE, 10**400), (Type.DATE, "0001-01-01T00:00+14:00"),
    (Type.BYTES, "A"), (Type.BYTES, "é"), (Type.BYTES, "AA EC"), (Type.BYTES, 1),
    (Type.LIST, "a"), (Type.OBJECT, [1]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "given"), MISMATCHES)
def test_a_value_of_another_type_is_refused(type_, given):
    """A2, A15: nothing is guessed."""
    assert {"x"} == refused(single(type_), {"x": given}).keys()


@pytest.mark.parametrize(
    ("type_", "given", "expected"),
    [
        (Type.FLOAT, "abc", '"abc" is not a Float'),
        (
            Type.INT,
            2**40,
            "1099511627776 is not an Int (it must be from -2147483648 to 2147483647)",
        ),
        (Type.LONG, 10**400, "an integer beyond 64 bits is not a Long"),
        (Type.BYTES, "é", '"é" is not a Bytes (write it in base64 with padding, as "AAEC")'),
        (Type.STRING, None, "is required and must not be null"),
        (Type.STRING, {"a": 1}, "an object is not a String"),
        (Type.STRING, False, "false is not a String"),
        (Type.DATE, "x" * 100, f'"{"x" * 60}..." is not a Date'),
        (Type.LIST, 1.5, "1.5 is not a list"),
    ],
)
def test_the_words_of_a_refusal(type_, given, expected):
    assert refused(single(type_, required=True), {"x": given})["x"].startswith(expected)


def test_text_is_shown_without_what_cannot_be_written():
    assert r'"\ud800\u0007"' == shown("\ud800\a")
    assert "null" == shown(None)


def test_all_problems_are_told_at_once():
    """A15."""
    value = {"name": None, "age": "3", "tags": ["a", 1, None], "home": {"since": "x"}, "homes": [5]}
    assert {
        "name": "is required and must not be null",
        "age": '"3" is not an Int',
        "tags[1]": "1 is not a String",
        "tags[2]": "null is not allowed in this list",
        "homes[0]": "5 is not an object",
        "home.city": "is required",
        "home.since": '"x" is not a Date (write it as "2026-01-31T12:00:00Z")',
    } == refused(DOG, value)


def test_a_long_list_of_problems_ends():
    """A stranger's list costs no more than the limit."""
    with pytest.raises(Error) as caught:
        DOG.check({"name": "a", "tags": list(range(10_000))})
    assert PROBLEMS_MAX == len(caught.value.detail["problems"])
    assert caught.value.message.endswith("; and perhaps more")


def test_a_required_attribute_must_be_there():
    """A2: but not the key, which the topic says, nor what the server sets."""
    assert {"name": "is required"} == refused(DOG, {})
    assert DOG.check({"name": "a", "age": None}) == {"name": "a", "age": None}


def test_undeclared_attributes_are_kept():
    """A8."""
    value = {"name": "a", "colour": NOON}
    assert DOG.check(value) is value


def test_a_sealed_table_names_what_it_does_not_know():
    """A8."""
    assert {
        "nam": 'Dog has no attribute "nam" (it is sealed); did you mean "name"?',
        "zzz": 'Dog has no attribute "zzz" (it is sealed)',
        "home.citi": 'Home has no attribute "citi" (it is sealed); did you mean "city"?',
    } == refused(SEALED, {"name": "a", "nam": 1, "zzz": 1, "home": {"city": "a", "citi": 1}})


@pytest.mark.parametrize(("value", "path"), [({5: 1}, "Dog"), ({"home": {5: 1}}, "home")])
def test_keys_are_text(value, path):
    found = refused(DOG, {"name": "a", **value})
    assert "the key 5 is not text" == found[path]


def test_the_server_sets_the_times():
    """A5: what a client says of them is dropped."""
    value = {"name": "a", "made": "nonsense", "changed": 1, "ends": 5.0}
    assert {"name": "a", "ends": 5} == DOG.check(value)
    assert 4 == len(value)


def test_what_is_not_stored_cannot_be_written():
    """A9."""
    assert {
        "double": "is computed; it cannot be written, so leave it out",
        "owner": "is a relationship; it cannot be written, so leave it out",
    } == refused(DOG, {"name": "a", "double": 1, "owner": {}})


def test_nested_values_are_converted_without_touching_the_given():
    value = {
        "name": "a", "home": {"city": "a", "since": 0},
        "homes": [{"city": "b"}, {"city": "c", "since": 0}, None], "days": [NOON, 0, 1],
    }  # fmt: skip
    found = DOG.check(value)
    start = datetime(1970, 1, 1, tzinfo=UTC)
    assert start == found["home"]["since"] == found["homes"][1]["since"] == found["days"][1]
    assert (0, [NOON, 0, 1]) == (value["home"]["since"], value["days"])
    assert found["homes"][0] is value["homes"][0]


def test_a_list_whose_elements_are_not_declared():
    assert single(Type.LIST).check({"x": [1, "a"]}) == {"x": [1, "a"]}


# -- patches ---------------------------------------------------------------------------------------


def test_a_patch_may_leave_out_what_is_required():
    value = {"age": 3, "home": {"since": NOON}}
    assert DOG.check(value, partial=True) is value


def test_a_patch_may_not_remove_what_is_required():
    found = refused(DOG, {"name": None, "home": {"city": None}}, partial=True)
    assert {"name", "home.city"} == found.keys()


def test_a_patch_may_count_up_numbers():
    count = {"__op__": "add", "value": 1}
    value = {"age": count, "price": count, "exact": count, "more": count}
    assert DOG.check(value, partial=True) is value
    assert {"good"} == refused(DOG, {"good": count}, partial=True).keys()
    assert {"name", "age"} == refused(DOG, {"age": count}).keys()


RFC_7396 = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("current", "patch", "expected"), RFC_7396)
def test_a_merge_patch(current, patch, expected):
    """RFC 7396, appendix A, whole."""
    before = repr((current, patch))
    assert expected == merge_patch(current, patch)
    assert before == repr((current, patch))


@pytest.mark.parametrize(
    ("current", "amount", "expected"),
    [
        (1, 2, 3), (None, 2, 2), (1, -0.5, 0.5), (0.5, 1, 1.5),
        (Decimal("0.1"), 0.2, Decimal("0.3")), (1, Decimal("1.50"), Decimal("2.50")),
    ],
)  # fmt: skip
def test_counting_up(current, amount, expected):
    patch = {"n": {"__op__": "add", "value": amount}}
    found = merge_patch({} if current is None else {"n": current}, patch)
    assert ({"n": expected}, type(expected)) == (found, type(found["n"]))


def test_a_record_that_is_a_number_counts_up():
    assert 5 == merge_patch(2, {"__op__": "add", "value": 3})


def test_a_decimal_takes_an_integer_of_any_length():
    assert Decimal("1e5000") == merge_patch(Decimal(0), {"__op__": "add", "value": 10**5000})


@pytest.mark.parametrize(
    ("current", "operation"),
    [
        (1, {"__op__": "multiply", "value": 2}),
        (1, {"__op__": "add"}),
        (1, {"__op__": "add", "value": True}),
        (1, {"__op__": ["add"], "value": 1}),
        ("1", {"__op__": "add", "value": 1}),
        (True, {"__op__": "add", "value": 1}),
        (LONG_MAX, {"__op__": "add", "value": 1}),
        (1.5, {"__op__": "add", "value": 10**400}),
        (Decimal("1e999999999"), {"__op__": "add", "value": Decimal("1e999999999")}),
        (Decimal("nan"), {"__op__": "add", "value": 1}),
    ],
)
def test_counting_that_makes_no_sense_is_refused(current, operation):
    with pytest.raises(Error) as caught:
        merge_patch({"n": current}, {"n": operation})
    assert caught.value.code is Code.UNPROCESSABLE


def test_an_operation_is_an_object_with_a_key():
    assert (True, False, False) == (
        is_operation({"__op__": 1}),
        is_operation({}),
        is_operation("__op__"),
    )


# -- what goes out ---------------------------------------------------------------------------------


def test_the_plain_spelling():
    """A19: dates, bytes and decimals as JSON has them."""
    value = {
        "name": "a", "born": NOON, "exact": Decimal("1.50"), "photo": b"\0\1\2",
        "days": [NOON.replace(microsecond=5), None], "homes": [{"city": "a", "since": NOON}],
    }  # fmt: skip
    assert {
        "name": "a", "born": "2026-01-31T12:00:00Z", "exact": "1.50", "photo": "AAEC",
        "days": ["2026-01-31T12:00:00.000005Z", None],
        "homes": [{"city": "a", "since": "2026-01-31T12:00:00Z"}],
    } == DOG.plain(value)  # fmt: skip
    assert DOG.check(DOG.plain(value)) == value
    assert value["born"] is NOON


@pytest.mark.parametrize(
    "value", [{"name": "a"}, {"born": "text", "days": "text", "home": 5}, {"days": []}, None, [1]]
)
def test_what_is_plain_already_comes_back_as_the_same_object(value):
    assert DOG.plain(value) is value


def test_hidden_attributes_do_not_leave():
    """A9: nor those within."""
    value = {
        "name": "a", "secret": "s", "home": {"city": "a", "alarm": "s"},
        "homes": [{"city": "a"}, {"city": "b", "alarm": "s"}],
    }  # fmt: skip
    assert {
        "name": "a", "home": {"city": "a"}, "homes": [{"city": "a"}, {"city": "b"}],
    } == DOG.visible(value)  # fmt: skip
    assert "secret" in value
    assert "alarm" in value["home"]


@pytest.mark.parametrize("value", [{"name": "a"}, {"homes": [{"city": "a"}]}, "text"])
def test_what_hides_nothing_comes_back_as_the_same_object(value):
    assert DOG.visible(value) is value


def test_a_checker_tells_whether_it_changes_anything():
    assert (True, True) == (DOG.converts, DOG.hides)
    plain = single(Type.LIST, items=Attribute("", Type.INT))
    assert (False, False) == (plain.converts, plain.hides)
    value = {"x": NOON}
    assert plain.plain(value) is plain.visible(value) is value


# -- record ids ------------------------------------------------------------------------------------


def keyed(type_):
    """Give a table with a key of the type."""
    return Table("T", "T", (Attribute("id", type_, primary_key=True),))


@pytest.mark.parametrize("table", [Table("T", "T"), keyed(Type.ID), keyed(Type.ANY)])
def test_an_id_is_text(table):
    """A11."""
    assert "a/b c" == parse_id(table, "a/b c")


@given(st.integers(LONG_MIN, LONG_MAX))
def test_an_id_of_an_integer_key_is_an_integer(number):
    """A3."""
    assert number == parse_id(keyed(Type.LONG), id_text(number))


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (Type.INT, "2147483648"), (Type.LONG, "9223372036854775808"), (Type.LONG, "007"),
        (Type.LONG, "-0"), (Type.LONG, "+1"), (Type.LONG, "1.0"), (Type.LONG, ""),
        (Type.LONG, "٣"), (Type.LONG, "1" * 5000), (Type.INT, "a"),
    ],
)  # fmt: skip
def test_an_integer_has_one_spelling(type_, text):
    with pytest.raises(Error, match="is not an id of T") as caught:
        parse_id(keyed(type_), text)
    assert caught.value.code is Code.INVALID


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
    | st.datetimes() | st.decimals(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=10,
)  # fmt: skip
RECORDS = st.dictionaries(
    st.sampled_from([item.name for item in ATTRIBUTES]) | st.text(max_size=3), JSON
)


@pytest.mark.slow
@given(RECORDS, st.booleans())
def test_a_checked_value_is_right_for_ever(value, partial):
    """Any value is refused with UNPROCESSABLE, or comes back such that a second check keeps it."""
    try:
        once = DOG.check(value, partial)
    except Error as error:
        assert error.code is Code.UNPROCESSABLE
    else:
        assert DOG.check(once, partial) is once
        assert "secret" not in DOG.visible(DOG.plain(once))


@pytest.mark.slow
@given(JSON, JSON)
def test_any_patch_gives_a_value_or_a_refusal(current, patch):
    try:
        merge_patch(current, patch)
    except Error as error:
        assert error.code is Code.UNPROCESSABLE
