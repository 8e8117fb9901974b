"""Rows of copies in PostgreSQL: every record has one, whatever it holds (K16)."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
import sqlalchemy as sa

from rowcast.core.errors import Error
from rowcast.core.events import PUT, Event
from rowcast.features.mirror.columns import (
    KEY,
    KEY_BYTES_MAX,
    MORE,
    copy_of,
    json_text,
    key_of,
    row_of,
)
from rowcast.features.mirror.database import MirrorDatabase
from rowcast.features.mirror.mirror import check_tables
from rowcast.features.mirror.settings import MirrorSection
from rowcast.schema import parse_schema

SCHEMA = """
type Sensor @table @export {
  id: ID @primaryKey
  name: String
  n: Int
  temp: Float
  price: Decimal
  on: Boolean
  at: Date
  raw: Bytes
  tags: [String]
  any: Any
  double: Float @computed(from: "temp * 2")
}
"""
TABLE = parse_schema(SCHEMA).tables[0]
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def row(value, topic="Sensor/a"):
    return row_of(TABLE, Event(topic, PUT, b"", None, 7, True, seq=3), value)


def test_each_attribute_that_is_stored_has_a_column():
    names = [column.name for column in copy_of(TABLE, sa.MetaData()).columns]
    assert names == [
        "_key", "id", "name", "n", "temp", "price", "on", "at", "raw", "tags", "any",
        "_more", "_version", "_position", "_generation",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "column", "expected"),
    [
        ({"name": "a\x00b"}, "name", "ab"),
        ({"name": "a\ud800b"}, "name", "a?b"),
        ({"n": 2**63 - 1}, "n", 2**63 - 1),
        ({"temp": 1}, "temp", 1.0),
        ({"temp": 10**400}, "temp", float("inf")),
        ({"price": Decimal("0.10")}, "price", Decimal("0.10")),
        ({"price": 0.5}, "price", Decimal("0.5")),
        ({"on": False}, "on", False),
        ({"at": NOW}, "at", NOW),
        ({"raw": b"\x00\xff"}, "raw", b"\x00\xff"),
        ({"tags": ["a\x00", None]}, "tags", ["a", None]),
        ({"any": {"x\x00": [1, Decimal("0.1")]}}, "any", {"x": [1, Decimal("0.1")]}),
        ({"name": None}, "name", None),
    ],
)
def test_values_that_fit_are_in_their_columns(value, column, expected):
    found = row(value)
    assert found[column] == expected
    assert type(found[column]) is type(expected)
    assert found[MORE] is None


@pytest.mark.parametrize(
    ("value", "more"),
    [
        ({"n": 2**63}, {"n": 2**63}),
        ({"n": True}, {"n": True}),
        ({"name": 5}, {"name": 5}),
        ({"on": "yes"}, {"on": "yes"}),
        ({"at": "soon"}, {"at": "soon"}),
        ({"raw": "text"}, {"raw": "text"}),
        ({"temp": "hot"}, {"temp": "hot"}),
        ({"colour": "red", "n": 1}, {"colour": "red"}),
        (5, {"": 5}),
        ("plain", {"": "plain"}),
    ],
)
def test_what_no_column_takes_is_kept_beside_them(value, more):
    assert row(value)[MORE] == more


@pytest.mark.parametrize("value", [{"a": Decimal("0.1")}, {"at": NOW, "b": b"x"}, 2**70, None])
def test_whatever_is_in_jsonb_is_json(value):
    assert json.loads(json_text(value)) is not Ellipsis


def test_every_row_has_every_column_so_that_a_change_clears_what_is_gone():
    names = {column.name for column in copy_of(TABLE, sa.MetaData()).columns} - {"_generation"}
    assert names == row({"n": 1}).keys() == row(None).keys()


def test_keys_that_no_index_takes_have_no_row():
    assert key_of(TABLE, "Sensor/" + "x" * KEY_BYTES_MAX) == "x" * KEY_BYTES_MAX
    assert key_of(TABLE, "Sensor/" + "é" * KEY_BYTES_MAX) == ""
    assert row({}, "Sensor/a\x00b")[KEY] == "ab"


def test_names_that_postgresql_keeps_for_itself_have_no_column():
    table = parse_schema("type Box @table @export { id: ID @primaryKey, xmin: Float }").tables[0]
    assert "xmin" not in copy_of(table, sa.MetaData()).columns
    event = Event("Box/a", PUT, b"", None, 7, True, seq=3)
    assert row_of(table, event, {"id": "a", "xmin": 1.5})[MORE] == {"xmin": 1.5}


@pytest.mark.parametrize("url", ["postgresql://u:pa@ss@h/db", "mysql://h/db"])
def test_addresses_that_would_tell_a_password_or_are_of_others_are_refused(url):
    with pytest.raises(ValueError, match=r"more than one @|is the address of"):
        MirrorSection(url=url)


def test_what_cannot_be_read_of_an_address_is_not_told():
    with pytest.raises(Error, match="cannot be read") as told:
        MirrorDatabase("postgresql+psycopg://u:one:hidden@h:hidden/db", "m", [TABLE])
    assert "hidden" not in str(told.value)


def test_two_tables_have_two_copies():
    check_tables([TABLE])
    with pytest.raises(Exception, match="two tables would be"):
        check_tables([TABLE, TABLE])
