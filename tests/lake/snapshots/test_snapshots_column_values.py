"""Rows that are made of columns are those that pyarrow makes (S19)."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowcast.codecs import MSGPACK, decode
from rowcast.codecs.messagepack import encode
from rowcast.schema import parse_schema
from rowcast_lake.snapshots.column_values import values_of
from rowcast_lake.snapshots.importing import Importer, Run
from rowcast_lake.snapshots.packed_rows import packed_rows

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.timedeltas(timedelta(days=-700_000), timedelta(days=2_900_000)).map(EPOCH.__add__)
COLUMNS = {
    pa.float64(): st.floats(allow_nan=False),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(st.characters(codec="utf-8")),
    pa.binary(): st.binary(),
    pa.timestamp("us", "UTC"): MOMENTS,
}
SECONDS = st.integers(-10, 2**35).map(lambda seconds: EPOCH + timedelta(seconds=seconds))
FEW = st.sampled_from([EPOCH + timedelta(hours=hours) for hours in range(4)])
OFTEN = {
    pa.float64(): st.floats() | st.sampled_from([0.0, -0.0, 1.5]),
    pa.float32(): st.floats(width=32) | st.sampled_from([0.0, -0.0, 1.5]),
    pa.timestamp("us", "UTC"): FEW | SECONDS | MOMENTS,
}
"""What is packed in ways of its own: times of whole seconds, and floats that are not compared."""


@pytest.mark.parametrize("kind", COLUMNS, ids=str)
@given(st.data())
def test_values_are_those_of_pyarrow(kind, data):
    items = data.draw(st.lists(st.none() | COLUMNS[kind], max_size=12))
    items = data.draw(st.sampled_from([items, [item for item in items if item is not None]]))
    column = pa.array(items, kind)
    start = data.draw(st.integers(0, len(items)))
    column = column.slice(start, data.draw(st.integers(0, len(items))))
    found = values_of(column)
    assert found == column.to_pylist()
    assert [type(item) for item in found] == [type(item) for item in column.to_pylist()]


def test_a_null_is_left_out():
    batch = pa.record_batch({"a": [1, None], "b": ["x", "y"], "_c": [1, 2]})
    assert unpacked(packed_rows(batch, ["a", "b"])) == [{"a": 1, "b": "x"}, {"b": "y"}]


def unpacked(rows):
    return [decode(row, MSGPACK) for row in rows]


@pytest.mark.slow
@given(st.data())
def test_the_rows_of_a_batch_are_those_that_a_packer_makes_of_maps(data):
    """Byte for byte, so that it does not matter to the log by whom a record was packed."""
    kinds = data.draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=20))
    count = data.draw(st.integers(1, 8))
    columns = {}
    for number, kind in enumerate(kinds):
        items = st.lists(st.none() | OFTEN.get(kind, COLUMNS[kind]), min_size=count, max_size=count)
        columns[f"c{number}"] = pa.array(data.draw(items), kind)
    batch = pa.record_batch(columns).slice(data.draw(st.integers(0, count)))
    maps = [
        {name: item for name, item in row.items() if item is not None} for row in batch.to_pylist()
    ]
    assert packed_rows(batch, list(columns)) == [encode(row) for row in maps]


SCHEMA = """
type Air @table @export { id: ID @primaryKey n: Long x: Float at: Date on: Boolean raw: Bytes }
type Free @table @export { text: String }
"""
AIR, FREE = parse_schema(SCHEMA).tables


def runs(table, path):
    return [
        (part.first, unpacked(part.rows))
        if isinstance(part, Run)
        else [(record.row, record.value) for record in part]
        for part in Importer(table).parts(path)
    ]


def test_a_file_whose_columns_fit_is_read_by_columns(tmp_path):
    """The values are those that are read row by row; batches are counted on."""
    count, path = 2_500, tmp_path / "rows.parquet"
    whole = pa.table(
        {
            "id": [f"s-{n}" for n in range(count)],
            "n": [None if n % 7 == 0 else n for n in range(count)],
            "x": [n / 8 for n in range(count)],
            "at": pa.array(
                [EPOCH + timedelta(hours=n) for n in range(count)], pa.timestamp("us", "UTC")
            ),
            "on": [n % 2 == 0 for n in range(count)],
            "raw": [bytes([n % 256]) for n in range(count)],
            "_seq": list(range(count)),
        }
    )
    pq.write_table(whole, path)
    parts = runs(AIR, path)
    assert [first for first, _ in parts] == [1, 1001, 2001]
    values = [value for _, found in parts for value in found]
    assert values == [record.value for record in Importer(AIR).records(path)]


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        (AIR, {"id": ["a"], "other": [1]}),
        (AIR, {"id": ["a"], "n": ["1"]}),
        (AIR, {"id": ["a"], "_payload": [b"x"]}),
        (AIR, {"id": ["a"], "valid_from": pa.nulls(1)}),
        (FREE, {"_id": ["a"], "text": ["x"]}),
    ],
    ids=["an undeclared attribute", "another type", "bytes", "changes", "no key"],
)
def test_other_files_are_read_row_by_row(tmp_path, table, columns):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table(columns), path)
    (part,) = Importer(table).parts(path)
    assert not isinstance(part, Run)


def test_the_halves_of_a_run_name_their_rows(tmp_path):
    run = Run(tmp_path, 11, [encode({"n": n}) for n in range(5)])
    first, last = run.divided()
    assert (first.rows + last.rows, first.first, last.first) == (run.rows, 11, 13)
    assert last.where == f"{tmp_path}, row 13 to row 15"
