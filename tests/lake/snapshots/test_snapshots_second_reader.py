"""A second process that reads large tables of an export (S1): the same files, and no less.

Its tables are small here, and its ranges too.
"""

import io
import logging
import random
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from exported import Exported
from rowcast.core.snapshot_limits import SNAPSHOT_RANGES_AHEAD, SNAPSHOT_REFUSED_RANGES_MAX
from rowcast.store.read_transaction import open_read_transaction
from rowcast_lake.snapshots import second_reader
from rowcast_lake.snapshots.second_reader import SecondReader, worth_starting
from rowcast_lake.snapshots.table_writer import TableSheet

SCHEMA = """
type Reading @table @export @sealed {
  id: ID! @primaryKey, name: String, count: Int, total: Long, heat: Float, ok: Boolean, at: Date,
  image: Bytes, price: Decimal, exact: Decimal @decimal(precision: 9, scale: 2), note: Any
}
type Numbered @table @export @sealed { n: Long! @primaryKey, v: Int }
type Keyless @table @export @sealed { v: String }
type Nested @table @export @sealed { id: ID! @primaryKey, list: [Int] }
type Loose @table @export { id: ID! @primaryKey, v: Int }
type Free @table @export
"""
pytestmark = pytest.mark.slow  # each starts a Python
RANGE_ROWS = 16
VALUES = {
    "name": ["Rex", "", "ä€😀", "x" * 500, "7", "null"],
    "count": [0, -5, 2**31 - 1, -(2**31)],
    "total": [2**53 + 1, -(2**63), 2**63 - 1],
    "heat": [0.1, -0.0, 1e300, float("nan"), float("inf"), 3.0],
    "ok": [True, False],
    "at": [datetime(2026, 1, 2, 3, 4, 5, 678901, UTC), datetime(1, 1, 1, tzinfo=UTC)],
    "image": [b"", b"\x00\xff", b"text"],
    "price": [Decimal("12.30"), Decimal("-0.001")],
    "exact": [Decimal("12.30"), Decimal("-9999999.99")],
    "note": [{"a": [1, None]}, "text", 5, 2.5, True],
}


@pytest.fixture
def world(tmp_path):
    made = Exported(tmp_path, SCHEMA)
    yield made
    made.close()


def a_record(dice, number):
    """Return a record of which each attribute is there, null or absent."""
    given = {name: dice.choice([*values, None]) for name, values in VALUES.items()}
    kept = {name: value for name, value in given.items() if dice.random() < 0.8}
    return {"id": f"r{number:05d}", **kept}


def fill(world, dice, rows):
    """Write tables of all kinds; in some stretches attributes are null, as one type or another."""
    events = []
    for number in range(rows):
        record = a_record(dice, number)
        if number // 40 % 3 == 1:  # columns that have nulls only, for two ranges
            record = {name: record[name] for name in ("id", "ok", "note") if name in record}
        told = {"client": dice.choice(["", "ann", "bob"])}
        if number % 97 == 0:
            told["properties"] = {"colour": "red"}
        events += [
            world.event("Reading", record["id"], record, **told),
            world.event("Numbered", number * 7 - 90, {"v": number}),
            world.event("Keyless", f"k{number}", {"v": "x"}),
            world.event("Nested", f"n{number}", {"list": [number, None]}),
            world.event("Loose", f"l{number}", {"v": number, "more": 1}),
        ]
    world.store.commit(events)
    world.store.commit([world.event("Reading", "r00003", kind="delete")])


def sheets(world, cut):
    return {name: TableSheet.of(cut.declared(table), cut.epoch) for name, table in
            world.tables.items()}  # fmt: skip


@contextmanager
def reading(world, **options):
    """Open a second reader with small ranges, and a cut that both have."""
    options = {"rows_min": 1, "range_rows": RANGE_ROWS} | options
    database = world.path / "rowcast.db"
    with SecondReader(database, SCHEMA, **options) as second, second.cut() as cut:
        yield second, cut


def rows_of(batches):
    return [row for batch in batches for row in batch.to_pylist()]


class Noticing(TableSheet):
    """A writer of a table that notes what is read in this process."""

    def between(self, cut, after, upto):
        self.__dict__.setdefault("here", []).append((after, upto))
        yield from super().between(cut, after, upto)


@pytest.mark.parametrize("seed", range(3))
def test_its_rows_are_those_that_one_process_reads(world, seed):
    """Nulls, NaN, properties, whole ranges of nulls: all values of all types, in order."""
    fill(world, random.Random(seed), 300)
    with reading(world) as (second, cut):
        for sheet in sheets(world, cut).values():
            shared = [batch for batch in second.batches(cut, sheet) if batch.num_rows]
            assert repr(rows_of(shared)) == repr(rows_of(sheet.batches(cut)))
            assert all(batch.schema == sheet.schema for batch in shared)


def test_its_snapshot_is_the_same_to_the_last_byte(world):
    fill(world, random.Random(5), 400)
    shared = world.export(shared_rows_min=1).manifest
    world.directory = world.path / "others"
    alone = world.export().manifest
    assert replace(shared, created="") == replace(alone, created="")
    assert {name: facts.rows for name, facts in shared.tables.items()}["Reading"] == 399


def test_only_what_the_driver_cannot_give_is_read_here(world):
    """Rows that came from another log, and not those of a user whose name is known."""
    events = [world.event("Numbered", n, {"v": n}) for n in range(RANGE_ROWS * 6)]
    known = {"origin": "elsewhere"}
    events[RANGE_ROWS * 2] = world.event("Numbered", RANGE_ROWS * 2, {"v": 1}, properties=known)
    events[3] = world.event("Numbered", 3, {"v": 1}, properties={"by": "ann"})
    world.store.commit(events)
    with reading(world) as (second, cut):
        sheet = Noticing.of(cut.declared(world.tables["Numbered"]), cut.epoch)
        assert len(rows_of(second.batches(cut, sheet))) == len(events)
        assert sheet.here == [(RANGE_ROWS * 2 - 1, RANGE_ROWS * 3 - 1)]


def test_a_table_of_which_it_can_read_nothing_is_read_here(world):
    """NaN is in ``_extra``: the other process is asked for some ranges, and then no more."""
    rows = [
        world.event("Reading", f"r{n:04d}", {"heat": float("nan"), "note": {"$float": "NaN"}})
        for n in range(400)
    ]
    world.store.commit(rows)
    with reading(world) as (second, cut):
        sheet = Noticing.of(cut.declared(world.tables["Reading"]), cut.epoch)
        assert len(rows_of(second.batches(cut, sheet))) == 400
        asked = SNAPSHOT_REFUSED_RANGES_MAX + SNAPSHOT_RANGES_AHEAD - 1
        assert len(sheet.here) == asked + 1
        assert sheet.here[-1] == (f"r{asked * RANGE_ROWS - 1:04d}", None)
        others = sheets(world, cut)["Numbered"]
        assert rows_of(second.batches(cut, others)) == rows_of(others.batches(cut))


def test_columns_of_nulls_alone_are_read_there(world):
    """The driver takes them for numbers."""
    rows = [world.event("Reading", f"r{n:04d}", {"count": n}) for n in range(RANGE_ROWS * 3)]
    world.store.commit(rows)
    with reading(world) as (second, cut):
        sheet = Noticing.of(cut.declared(world.tables["Reading"]), cut.epoch)
        batches = list(second.batches(cut, sheet))
        assert "here" not in vars(sheet)
        assert repr(rows_of(batches)) == repr(rows_of(sheet.batches(cut)))


def test_a_range_between_keys_that_fill_a_pipe_is_read_here(world):
    """Else both processes may wait for one another: a command is written before it is read."""
    keys = [f"{n:03d}" + ("ä" * 5_000 if n == 31 else "") for n in range(RANGE_ROWS * 5)]
    world.store.commit([world.event("Keyless", key, {"v": key[:3]}) for key in keys])
    with reading(world) as (second, cut):
        sheet = Noticing.of(cut.declared(world.tables["Keyless"]), cut.epoch)
        assert [row["_id"] for row in rows_of(second.batches(cut, sheet))] == keys
        assert [(str(a)[:3], b[:3]) for a, b in sheet.here] == [("015", "031"), ("031", "047")]


def test_a_state_that_is_cut_off_is_none(world, caplog):
    """The other process was killed while it said which state it reads."""
    fill(world, random.Random(14), 20)

    class CutOff(SecondReader):
        _out = io.BytesIO(b'"half a st')

    with CutOff(world.path / "rowcast.db", SCHEMA, rows_min=1) as second, second.cut() as cut:
        sheet = sheets(world, cut)["Numbered"]
        assert len(rows_of(second.batches(cut, sheet))) == 20
    assert "it takes longer" in caplog.text


def test_the_size_of_a_range_counts_all_bytes(world):
    """Text that begins with NUL, which ``length`` ends at, and the properties of a write."""
    text, facts = "\0" + "x" * 999, {"a": "y" * 1_000}
    world.store.commit(
        [world.event("Keyless", "a", {"v": text}, properties=facts, client="c" * 1_000)]
    )
    with open_read_transaction(world.path / "rowcast.db") as cut:
        part = cut.range_after(world.tables["Keyless"], None, 5)
    assert part.size > 3_000
    assert (part.after, part.upto, part.rows) == (None, "a", 1)


def test_a_schema_of_any_length_and_a_process_that_cannot_start(world, monkeypatch, caplog):
    fill(world, random.Random(13), 40)
    long = SCHEMA + "# a comment\n" * 50_000
    database = world.path / "rowcast.db"
    with SecondReader(database, long, rows_min=1) as second, second.cut() as cut:
        sheet = Noticing.of(cut.declared(world.tables["Numbered"]), cut.epoch)
        assert len(rows_of(second.batches(cut, sheet))) == 40
        assert "here" not in vars(sheet)
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with SecondReader(database, SCHEMA, rows_min=1) as second, second.cut() as cut:
        sheet = sheets(world, cut)["Numbered"]
        assert len(rows_of(second.batches(cut, sheet))) == 40
    (told,) = caplog.messages
    assert "/nowhere/python" in told


def test_a_range_that_is_too_large_for_memory_is_read_here(world):
    large = {n: "x" * 1_000 if 32 <= n < 40 else "x" for n in range(RANGE_ROWS * 4)}
    world.store.commit([world.event("Keyless", f"{n:03d}", {"v": v}) for n, v in large.items()])
    with reading(world, range_bytes=2_000) as (second, cut):
        sheet = Noticing.of(cut.declared(world.tables["Keyless"]), cut.epoch)
        assert [row["v"] for row in rows_of(second.batches(cut, sheet))] == list(large.values())
        assert sheet.here == [("031", "047")]


@pytest.mark.parametrize("batches", [0, 3])
def test_one_that_is_killed_leaves_the_rest_to_this_process(world, caplog, batches):
    fill(world, random.Random(7), 300)
    with reading(world) as (second, cut), caplog.at_level(logging.WARNING):
        sheet = sheets(world, cut)["Reading"]
        expected = repr(rows_of(sheet.batches(cut)))
        given = second.batches(cut, sheet)
        some = [next(given) for _ in range(batches)]
        second._process.kill()
        second._process.wait()
        assert repr(rows_of([*some, *given])) == expected
        others = sheets(world, cut)["Numbered"]
        assert rows_of(second.batches(cut, others)) == rows_of(others.batches(cut))
    (told,) = caplog.messages
    assert "it takes longer" in told


def test_a_table_that_is_given_up_leaves_no_thread_behind(world):
    fill(world, random.Random(8), 300)
    with reading(world) as (second, cut):
        given = second.batches(cut, sheets(world, cut)["Reading"])
        next(given)
        thread = second._receiving
    assert not thread.is_alive()


def test_both_read_the_same_state_of_a_file_that_changes(world):
    """A commit between the two looks: they look again."""
    fill(world, random.Random(9), 50)
    database = world.path / "rowcast.db"
    with SecondReader(database, SCHEMA, rows_min=1, range_rows=RANGE_ROWS) as second:
        first, looks = second._open_other_cut, []

        def their_cut():
            looks.append(first())
            if len(looks) < 3:
                world.put("Numbered", 5_000, {"v": len(looks)})
            return looks[-1]

        second._open_other_cut = their_cut
        with second.cut() as cut:
            world.put("Numbered", 5_000, {"v": 99})  # which neither sees
            sheet = sheets(world, cut)["Numbered"]
            rows = rows_of(second.batches(cut, sheet))
    assert (3, 3) == (len(looks), len(set(looks)))
    assert [row["v"] for row in rows if row["n"] == 5_000] == [2]


def test_a_file_that_never_rests_is_read_by_one(world, caplog):
    fill(world, random.Random(10), 50)
    with SecondReader(world.path / "rowcast.db", SCHEMA, rows_min=1, tries=3) as second:
        second._open_other_cut = lambda: "another"
        with caplog.at_level(logging.WARNING), second.cut() as cut:
            sheet = sheets(world, cut)["Numbered"]
            assert len(rows_of(second.batches(cut, sheet))) == 50
    assert "changes too often" in caplog.text


def test_it_is_started_for_large_tables_whose_columns_it_can_read(world, monkeypatch):
    fill(world, random.Random(11), 20)
    with open_read_transaction(world.path / "rowcast.db") as cut:
        made = sheets(world, cut)
    for sheet in made.values():
        sheet.rows = 20
    assert {name: worth_starting([sheet], 20) for name, sheet in made.items()} == {
        "Reading": True, "Numbered": True, "Keyless": True, "Nested": False, "Loose": True,
        "Free": False,
    }  # fmt: skip
    assert not worth_starting(list(made.values()), 21)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert not worth_starting(list(made.values()), 20)


def test_without_its_driver_one_process_reads(world, monkeypatch):
    fill(world, random.Random(12), 20)
    with open_read_transaction(world.path / "rowcast.db") as cut:
        made = sheets(world, cut)["Reading"]
    made.rows = 20
    monkeypatch.setattr(second_reader, "find_spec", lambda _name: None)
    assert not worth_starting([made], 20)
