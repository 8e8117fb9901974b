"""An attribute's type changes between exports (S6, S11): prove, compact, import go on."""

from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from exported import Exported
from rowcast.codecs import JSON, encode
from rowcast.core.export_limits import PAGES_TOGETHER
from rowcast.features.snapshots.catalogue import Catalogue
from rowcast.program.cli import command
from rowcast.rows.compiled_table import CompiledTable
from rowcast_lake.snapshots import compaction
from rowcast_lake.snapshots.changes import export_changes
from rowcast_lake.snapshots.compaction import compact, widest
from rowcast_lake.snapshots.comparison import same_values
from rowcast_lake.snapshots.export import Order
from rowcast_lake.snapshots.fold import differences

EXACT = "Decimal @decimal(precision: 6, scale: 2)"


def schema(kind):
    return f"""
    type P @sealed {{ x: Float!, n: Int }}
    type Dog @table @export {{ id: ID! @primaryKey, v: {kind} }}
    """


class Story:
    """One table, exported before, during and after a change of its type."""

    def __init__(self, path, kind):
        self.world = Exported(path, schema(kind))
        self.directory = self.world.directory

    def become(self, kind):
        self.world.open(schema(kind))

    def put(self, key, value):
        spelled = CompiledTable(self.world.tables["Dog"]).spell({"v": value}, JSON)
        facts = {"payload": encode(spelled, JSON), "content_type": JSON}
        self.world.put("Dog", key, {"v": value}, **facts)

    def snapshot(self):
        return self.world.export().place.name

    def page(self):
        order = Order(self.world.path / "rowcast.db", self.directory, self.world.schema)
        return export_changes(order)

    @property
    def items(self):
        return Catalogue(self.directory).items()

    def differences(self, first, last):
        return differences(self.directory, self.items, first, last)


@pytest.fixture
def story(tmp_path):
    made = []

    def begin(kind):
        made.append(Story(tmp_path, kind))
        return made[0]

    yield begin
    made[0].world.close()


CHANGES = [
    ("Int", "Long", 7, 2**40), ("Int", "Float", 7, 1.5),
    ("Decimal", EXACT, Decimal("12.5"), Decimal("3.25")),
    (EXACT, "Decimal", Decimal("3.2"), Decimal("0.12345")),
    ("[Int]", "Any", [1, None], "x"), ("P", "Any", {"x": 1.5, "n": 2}, [True, None]),
    ("[P]", "[Int]", [{"x": 2.0}, None], [1]), ("[Int]", "[P]", [1, None], [{"x": 0.5}]),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "old", "new"), CHANGES)
def test_prove_and_compact_go_on_over_a_change_of_type(story, before, after, old, new):
    """S6, S11: every change that the server lets be."""
    told = story(before)
    told.put("1", old)
    first = told.snapshot()
    told.put("2", old)
    told.page()
    told.become(after)
    told.put("3", new)
    told.page()
    last = told.snapshot()
    assert {} == told.differences(first, last)
    assert 1 == len(compact(told.directory, everything=True, covered_seconds=0))
    (page,) = widest(told.items)
    assert 2 == page.rows
    assert {} == told.differences(first, last)


@pytest.mark.parametrize(
    ("text", "same"), [("12.5", True), ("12.50", True), ("12.51", False), (None, False)]
)
def test_a_difference_is_found_in_spite_of_a_change_of_type(text, same):
    """S6: comparing values is still comparing."""
    old = pa.table({"v": pa.array([text], pa.string())})
    new = pa.table({"v": pa.array([Decimal("12.5")], pa.decimal128(6, 2))})
    assert same == same_values(old, new, ("v",), {"v"})


def test_what_does_not_fit_the_new_type_counts_as_the_value_it_is(story):
    """S5, S6: a decimal with too many digits is in the rest of the newer snapshot."""
    told = story("Decimal")
    told.put("1", Decimal("1.23456"))
    first = told.snapshot()
    told.become(EXACT)
    told.put("2", Decimal("1.5"))
    told.page()
    last = told.snapshot()
    assert [row["_extra"] for row in told.world.rows("Dog")] == [
        '{"v":{"$decimal":"1.23456"}}', None,
    ]  # fmt: skip
    assert {} == told.differences(first, last)


OLD = {"x": "text", "pin": "1234"}


@pytest.mark.parametrize(
    ("before", "after", "old", "shown"),
    [
        ("v: N", "v: N", OLD, '{"v":{"x":"text"}}'),
        ("v: [N]", "v: [N]", [OLD], '{"v":[{"x":"text"}]}'),
        ("w: Int", "v: N", OLD, '{"v":{"x":"text"}}'),
    ],
)
def test_a_hidden_field_stays_hidden_where_the_value_around_it_does_not_fit(
    story, before, after, old, shown
):
    """S5, M9: it was written before the field was hidden, and before another got its type."""
    dog = "type Dog @table @export {{ id: ID @primaryKey, {} }}\ntype N {{ {} }}".format
    told = story("Int")
    told.world.open(dog(before, "x: String"))
    told.put("1", old)
    told.world.open(dog(after, "x: Int, pin: String @hidden"))
    told.snapshot()
    (row,) = told.world.rows("Dog")
    assert (None, shown) == (row["v"], row["_extra"])


def test_pages_of_both_types_are_one_page_that_others_read(story):
    """S6: numbers and decimals become text; DuckDB reads the values."""
    told = story("Decimal")
    told.snapshot()
    told.put("1", Decimal("12.5"))
    told.page()
    told.become(EXACT)
    told.put("2", Decimal("3.25"))
    told.page()
    (page,) = compact(told.directory, everything=True)
    rows = duckdb.sql(f"SELECT id, v::DECIMAL(6,2) FROM '{page.place}/Dog/*.parquet' ORDER BY id")
    assert rows.fetchall() == [("1", Decimal("12.50")), ("2", Decimal("3.25"))]


@pytest.mark.heavy
def test_what_cannot_be_merged_stays_apart_and_fails_no_export(story, monkeypatch):
    """S6: the page of changes is there, all pages are, and it is said which stay apart."""
    told = story("Int")
    told.snapshot()
    for number in range(1, PAGES_TOGETHER):
        told.put(str(number), 7)
        told.page()

    def fail(*_):
        raise pa.ArrowInvalid("they do not fit")

    monkeypatch.setattr(compaction, "joined_schema", fail)
    monkeypatch.setattr("rowcast_lake.commands.snapshots.os.nice", lambda _by: None)
    told.put("last", 7)
    (told.world.path / "schema.graphql").write_text(told.world.schema)
    words = ["export", "--changes", "--data", str(told.world.path)]
    words += ["--schema", str(told.world.path / "schema.graphql")]
    done = CliRunner().invoke(command, words)
    assert (0, True) == (done.exit_code, "stay apart, as they are: they do not fit" in done.stderr)
    assert [page.seq for page in widest(told.items)] == [*range(1, PAGES_TOGETHER + 1)]


def test_pages_of_two_formats_make_one_of_the_older(story):
    """S11: which does not promise that nulls are told apart; proving over both says why not."""
    told = story("Int")
    told.put("1", 7)
    first = told.snapshot()
    for key in ("2", "3"):
        told.put(key, None)
        path = told.page().place / "manifest.json"
        if key == "2":
            path.write_text(path.read_text().replace('"format": 3', '"format": 1', 1))
    last = told.snapshot()
    (page,) = compact(told.directory, everything=True, covered_seconds=0)
    assert page.manifest.format == 1
    assert {} == told.differences(first, last)
    told.world.put("Dog", "4", {"v": 1})  # what its log has is no value of the table
    told.page()
    (said,) = told.differences(first, told.snapshot()).values()
    assert said.endswith("begin with a newer one)")
