"""Columns whose types say that every row is a record are not looked at row by row (S19)."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowcast.core.errors import Error
from rowcast.schema import parse_schema
from rowcast_lake.snapshots.column_checks import ColumnChecks
from rowcast_lake.snapshots.importing import Importer

SCHEMA = """
type Dog @table @export @sealed {
  id: ID @primaryKey, name: String!, age: Int, chip: Long, weight: Float, good: Boolean, born: Date,
  photo: Bytes, price: Decimal, any: Any, made: Date @createdTime,
  twice: Int @computed(from: "age + age")
}
type Strict @table @export @sealed { n: Long @primaryKey, v: Int }
type Note @table @export { text: String }
type Open @table @export
"""
TABLES = {table.name: table for table in parse_schema(SCHEMA).tables}
MOMENT = pa.timestamp("us", "UTC")
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
DOG = {
    "id": pa.array(["a", "b"]), "name": pa.array(["Rex", "Ace"]),
    "age": pa.array([1, None], pa.int32()), "chip": pa.array([2**40, 1], pa.int64()),
    "weight": pa.array([1.5, float("nan")]), "good": pa.array([True, None]),
    "born": pa.array([NOON, None], MOMENT), "photo": pa.array([b"\0", None]),
    "made": pa.array([NOON, NOON], MOMENT),
    "_topic": pa.array(["Dog/a", "Dog/b"]), "_seq": pa.array([1, 2]), "_ts": pa.array([1, 2]),
    "_op": pa.array(["put", "put"]), "_origin": pa.array(["e", "e"]),
    "_client": pa.array(["c", ""]),
    "_extra": pa.array([None, None], pa.string()),
}  # fmt: skip


def certain(table="Dog", **columns):
    given_columns = (DOG if table == "Dog" else {}) | columns
    kept = {key: column for key, column in given_columns.items() if column is not None}
    return ColumnChecks(TABLES[table]).certain(pa.record_batch(kept))


def test_a_snapshot_s_columns_are_certain():
    """S19: each type, nulls, and what describes the write."""
    assert certain()
    assert certain("Strict", n=pa.array([1]), v=pa.array([None], pa.int32()))
    assert certain("Note", _id=pa.array(["a"]), text=pa.array(["x"]))
    assert certain(price=pa.array([None, None], pa.string()), odd=pa.nulls(2))


@pytest.mark.parametrize(
    "columns",
    [
        {"id": None},
        {"id": pa.array(["a", ""])},
        {"id": pa.array(["a", "b#"])},
        {"id": pa.array(["a", "b\0"])},
        {"id": pa.array(["a", "/" * 127])},
        {"id": pa.array(["a", "b" * 65_532])},
        {"_op": pa.array([1, 2])},
        {"id": pa.array(["a", None])},
        {"name": None},
        {"name": pa.array(["Rex", None])},
        {"name": pa.array([1, 2])},
        {"age": pa.array([1, 2**40])},
        {"chip": pa.array(["1", "2"])},
        {"weight": pa.array([1, 2])},
        {"good": pa.array([1, 0])},
        {"born": pa.array(["2026-01-02", "soon"])},
        {"born": pa.array([2**62, 0], MOMENT)},
        {"photo": pa.array(["AA==", "x"])},
        {"price": pa.array(["1.10", "x"])},
        {"any": pa.array(["{", "1"])},
        {"twice": pa.array([1, 2], pa.int32())},
        {"odd": pa.array([1, 2])},
        {"_odd": pa.array([1, 2])},
        {"_id": pa.array(["a", "b"])},
        {"_extra": pa.array(['{"a":1}', None])},
        {"_op": pa.array(["put", "delete"])},
        {"_payload": pa.array([b"x", None])},
        {"valid_from": pa.array([NOON, NOON], MOMENT)},
    ],
    ids="-".join,
)
def test_what_needs_a_look_is_not_certain(columns):
    """S19: a type with values that are not valid, or with text to be read."""
    assert not certain(**columns)


def test_an_open_table_is_never_certain():
    """S19: its content may be of any type."""
    assert not certain("Open", _id=pa.array(["a"]))


COLUMNS = {
    "id": (pa.string(), st.text(max_size=3)),
    "name": (pa.string(), st.none() | st.text(max_size=3)),
    "age": (pa.int64(), st.none() | st.integers(-(2**33), 2**33)),
    "born": (MOMENT, st.none() | st.datetimes(timezones=st.just(UTC)) | st.just(
        datetime(1, 1, 1, tzinfo=UTC) + timedelta(seconds=1))),
    "photo": (pa.binary(), st.none() | st.binary(max_size=3)),
    "any": (pa.string(), st.none() | st.sampled_from(["1", "{", "x"])),
    "odd": (pa.string(), st.none() | st.just("x")),
}  # fmt: skip


@pytest.mark.slow
@given(st.data(), st.sets(st.sampled_from(sorted(COLUMNS))), st.integers(1, 4))
def test_certain_rows_are_valid_one_by_one(data, names, count):
    """S19: whatever the columns; so that nothing invalid is written without a look."""
    columns = {}
    for name in sorted(names | {"id"}):
        kind, values = COLUMNS[name]
        columns[name] = pa.array(data.draw(st.lists(values, min_size=count, max_size=count)), kind)
    batch = pa.record_batch(columns)
    if ColumnChecks(TABLES["Dog"]).certain(batch):
        Importer(TABLES["Dog"])._check_rows("rows.parquet", 0, batch)


def test_the_row_that_is_wrong_is_named_behind_certain_ones(tmp_path):
    """S19: its number counts the rows of all batches before it."""
    path = tmp_path / "rows.parquet"
    ages = [1] * 2_500
    ages[2_200] = 2**40
    rows = {"id": [str(n) for n in range(2_500)], "name": ["x"] * 2_500, "age": ages}
    pq.write_table(pa.table(rows), path)
    with pytest.raises(Error, match=r"rows.parquet, row 2201: .*age"):
        Importer(TABLES["Dog"]).check([path])
    pq.write_table(pa.table(rows | {"age": pa.array([1] * 2_500, pa.int32())}), path)
    assert Importer(TABLES["Dog"]).check([path]) == 2_500
