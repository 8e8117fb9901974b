"""F34: tables that are proposed for undeclared topics parse, and take what was seen."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowcast.codecs import CBOR, encode
from rowcast.core.events import DELETE, MESSAGE, PUT, Event
from rowcast.core.tables import Type
from rowcast.features.schema_proposal.proposal import propose
from rowcast.schema.read import parse_schema


def messages(topic, *values, seconds=1.0, kind=PUT):
    """Return messages, one after the other."""
    return [
        Event(
            topic, kind, json.dumps(value).encode(), version=int((number * seconds + 1) * 1_000_000)
        )
        for number, value in enumerate(values)
    ]


def attributes(proposal, name):
    """Return the types of a proposed table's fields, and which are required."""
    table = parse_schema(proposal.text).table(name)
    return {item.name: (item.type, item.required) for item in table.attributes}


def test_names_fields_types_ranges_and_rate():
    """F34: what the plan asks for."""
    values = [
        {"t": 20 + number / 2, "n": number, "ok": True, "at": f"2026-01-02T03:04:{number:02d}Z"}
        for number in range(40)
    ]
    values[3]["note"] = "hot"
    proposal = propose(messages("sensors/a", *values, seconds=0.5))
    (table,) = proposal.tables
    assert ("Sensors", "sensors", 40, 40, 1) == (
        table.name, table.path, table.messages, table.accepted, table.topics,
    )  # fmt: skip
    assert pytest.approx(2.0) == table.rate
    assert {
        "t": (Type.FLOAT, True),
        "n": (Type.INT, True),
        "ok": (Type.BOOLEAN, True),
        "at": (Type.DATE, True),
        "note": (Type.STRING, False),
    } == attributes(proposal, "Sensors")
    assert "# 20 to 39.5" in table.text
    assert "in 1 of 40" in table.text
    assert "# 40 messages at 1 topics, 2 in a second." in table.text


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], Type.INT),
        ([1, 2**40], Type.LONG),
        ([1, 2.5], Type.FLOAT),
        (["a", "2026-01-02T03:04:05Z"], Type.STRING),
        (["2026-13-45T99:99"], Type.STRING),
        ([True, 1], Type.ANY),
        ([[1], {"a": 1}], Type.ANY),
        ([None, False], Type.BOOLEAN),
    ],
)
def test_the_type_that_takes_all_that_was_seen(values, kind):
    rows = [{"x": value, "y": 1, "z": 1} for value in values]
    proposal = propose(messages("a/b", *rows))
    assert kind is attributes(proposal, "A")["x"][0]
    assert len(values) == proposal.tables[0].accepted


def test_plain_values_give_a_table_that_takes_anything():
    """Numbers and texts as devices send them."""
    proposal = propose(messages("home/temperature", 21, 22.5, "on"))
    (table,) = proposal.tables
    assert (3, True) == (table.accepted, parse_schema(proposal.text).tables[0].open)


def test_second_levels_are_told_apart_where_the_first_is_mixed():
    seen = [
        *messages("home/meters/1", *({"kwh": number} for number in range(30))),
        *messages("home/doors/1", *({"open": True, "by": "x"} for _ in range(30))),
        *messages("home/light", *(["on", "off"] * 15)),
    ]
    proposal = propose(seen)
    assert ["home/meters", "home/doors", "home"] == [table.path for table in proposal.tables]
    assert 90 == sum(table.accepted for table in proposal.tables)
    assert {"kwh": (Type.INT, True)} == attributes(proposal, "HomeMeters")


@pytest.mark.parametrize("path", ["docs", "mqtt", '"quoted" \\ path', "1st", "mqtt_x", "Ünï", "$x"])
def test_names_that_are_hard(path):
    """Bad input: what begins with a digit, is the server's own, or needs quoting."""
    proposal = propose(messages(f"{path}/a", {"x": 1}), taken=["Dog"])
    schema = parse_schema(proposal.text)
    assert {path} >= {table.path for table in schema.tables}


def test_fields_that_have_no_name_in_a_schema_are_left_out():
    """Bad input: they are taken all the same, undeclared."""
    proposal = propose(messages("a/b", {"x-y": 1, "__z": 1, "ok": 1, "a\nb": 1}))
    assert ["ok"] == list(attributes(proposal, "A"))
    assert 1 == proposal.tables[0].accepted


def test_of_fields_that_differ_in_capitals_alone_the_one_seen_most_is_proposed():
    proposal = propose(messages("room/1", {"temp": 1}, {"Temp": 2, "n": 1}, {"Temp": "hot"}))
    assert {"Temp": (Type.ANY, False), "n": (Type.INT, False)} == attributes(proposal, "Room")
    assert 3 == proposal.tables[0].accepted


def test_names_that_are_taken():
    proposal = propose([*messages("dog/1", {"x": 1}), *messages("Dog/1", {"x": 1})], ["dog"])
    names = [table.name for table in proposal.tables]
    assert 2 == len({name.lower() for name in [*names, "dog"]} - {"dog"})


def test_other_formats_and_what_is_no_format_are_read():
    seen = [
        Event("a/b", MESSAGE, encode({"x": 1}, CBOR), CBOR),
        Event("b/b", MESSAGE, b"\xff\x00"),
        Event("c", MESSAGE, b"1"),
        Event("a/b", DELETE, b""),
    ]
    proposal = propose(seen)
    assert {"a": 1, "b": 1} == {table.path: table.accepted for table in proposal.tables}


def test_nothing_seen_is_nothing_proposed():
    assert ("", []) == (propose([]).text, propose([]).tables)


FIELDS = st.dictionaries(
    st.sampled_from(["t", "v", "unit", "at", "ok", "x-y"]),
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False),
        st.text(max_size=5), st.lists(st.integers(0, 9), max_size=2),
    ),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a/1", "a/2", "a/b/1", "a/b/2", "c/d/e", "docs/1", "9/x"]),
            st.one_of(FIELDS, st.integers(), st.text(max_size=3)),
        ),
        max_size=40,
    )
)
def test_whatever_was_seen_the_proposal_parses(seen):
    proposal = propose([Event(topic, PUT, json.dumps(value).encode()) for topic, value in seen])
    schema = parse_schema(proposal.text) if proposal.tables else None
    assert len(proposal.tables) == (len(schema.tables) if schema else 0)


@pytest.mark.parametrize("seed", range(3))
def test_it_takes_nearly_all_that_was_seen(seed):
    """F34: at least 99 % of the messages, devices that stammer now and then among them."""
    dice = random.Random(seed)
    seen = []
    for number in range(500):
        topic = dice.choice(["plant/press/1", "plant/press/2", "plant/oven/1", "fleet/7/position"])
        value = {
            "v": dice.choice([dice.random() * 100, dice.randrange(100)]),
            "n": number if dice.random() < 0.95 else None,
            "state": dice.choice(["on", "off"]),
        }
        if dice.random() < 0.3:
            value["extra"] = dice.choice([1, "one", True])
        payload = json.dumps(value).encode() if dice.random() > 0.004 else b"\xfe rubbish"
        seen.append(Event(topic, dice.choice([PUT, MESSAGE]), payload))
    proposal = propose(seen)
    accepted = sum(table.accepted for table in proposal.tables)
    assert accepted >= 0.99 * len(seen)
    assert any(not table.open for table in parse_schema(proposal.text).tables)
