"""Sheets: rows that come from SQL and rows made of events are the same (S4, S5)."""

import math
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exported import Exported
from rowcast.core.topics import TopicFilter
from rowcast.store.read_transaction import open_read_transaction
from rowcast_lake.snapshots.digest import Digest
from rowcast_lake.snapshots.table_writer import TableSheet

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
FIRST, LAST = datetime(1, 1, 2), datetime(9999, 12, 30)  # noqa: DTZ001 - the zone comes below
DATES = st.datetimes(FIRST, LAST, timezones=st.just(UTC))
DECIMALS = st.decimals(-(10**12), 10**12, places=3)
LONGS = st.integers(-(2**63), 2**63 - 1)
ANY = st.recursive(
    st.none() | st.booleans() | LONGS | st.floats() | TEXT | st.binary(max_size=4) | DATES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
POINTS = st.fixed_dictionaries({"x": st.floats(), "y": st.floats()})
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "name": st.none() | TEXT,
        "age": st.none() | st.integers(-(2**31), 2**31 - 1),
        "weight": st.none() | st.floats(),
        "price": st.none() | DECIMALS,
        "chip": LONGS,
        "good": st.none() | st.booleans(),
        "born": DATES,
        "photo": st.binary(max_size=5),
        "any": ANY,
        "owner": st.fixed_dictionaries(
            {}, optional={"name": st.none() | TEXT, "born": DATES, "balance": DECIMALS, "more": ANY,
                          "tags": st.lists(TEXT, max_size=3), "note": ANY},
        ),
        "at": POINTS,
        "path": st.lists(st.none() | POINTS, max_size=3),
        "nums": st.lists(st.none() | st.integers(-5, 5), max_size=3),
        "days": st.lists(DATES, max_size=2),
        "secret": TEXT,
        "colour": ANY,
    },
)  # fmt: skip


@pytest.fixture
def world(tmp_path):
    made = Exported(tmp_path)
    yield made
    made.close()


def same(first, second):
    """Compare values, where a NaN is one."""
    if isinstance(first, float) and isinstance(second, float):
        return first == second or (math.isnan(first) and math.isnan(second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same, first, second))
    return first == second


@pytest.mark.slow
@given(st.lists(VALUES, min_size=1, max_size=6))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_rows_of_sql_and_of_events_are_the_same(world, values):
    """S5: for any values of any type; and each declared one is what was written."""
    table = world.tables["Dog"]
    for number, value in enumerate(values):
        world.put("Dog", f"k{number}", value)
    with open_read_transaction(world.path / "rowcast.db") as cut:
        sheet = TableSheet.of(cut.declared(table), cut.epoch)
        of_cells = pa.Table.from_batches(sheet.batches(cut), sheet.schema)
    events = world.store.scan(table, TopicFilter("Dog/#"), "", 100).records
    of_events = pa.Table.from_batches([sheet.of_events(events)])
    digests = [Digest(sheet.content) for _ in range(2)]
    for digest, rows in zip(digests, (of_cells, of_events), strict=True):
        for batch in rows.to_batches(max_chunksize=2):
            digest.update(batch)
    assert str(digests[0]) == str(digests[1])
    assert of_cells.column_names == of_events.column_names
    for number, value in enumerate(values):
        row = {name: of_cells.column(name)[number].as_py() for name in of_cells.column_names}
        for name in ("name", "age", "chip", "weight", "good", "born", "photo", "nums", "days"):
            assert same(value.get(name), row[name]), (name, value, row)
        assert (row["price"] and Decimal(row["price"])) == value.get("price")
        assert "secret" not in (row["_extra"] or "")
