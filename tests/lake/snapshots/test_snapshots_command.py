"""The commands, as a person types them (S1, S3, S11, S12): words and exit codes."""

import json
import resource

import duckdb
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from exported import Exported
from rowcast.core.errors import Error
from rowcast.program.cli import command
from rowcast.store.read_transaction import open_read_transaction

OLD = "type Dog @table @export { id: ID @primaryKey, name: String, age: Int }\n"
NEW = """
type Dog @table @export { id: ID @primaryKey, name: String, age: Long, size: Float, home: Home }
type Home @sealed { street: String }
"""


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setattr("rowcast_lake.commands.snapshots.os.nice", lambda _by: None)
    made = Exported(tmp_path, OLD)
    yield made
    made.close()


def run(world, *words):
    """Run a command on the world's data; return its output, as main would print it."""
    (world.path / "schema.graphql").write_text(world.schema)
    place = ["--data", str(world.path)] if words[0] != "import" else []
    if words[0] == "export":
        place += ["--schema", str(world.path / "schema.graphql")]
    result = CliRunner().invoke(command, [*words, *place])
    if isinstance(result.exception, Error):
        raise result.exception
    assert 0 == result.exit_code, result.output
    return result.stdout


def test_a_person_exports_lists_verifies_and_removes(world):
    """S1, S10, S12: each says what it did."""
    world.put("Dog", "1", {"name": "Rex", "age": 3})
    place = run(world, "export").strip()
    assert place == str(world.directory / "000000000000000001")
    assert run(world, "export").strip() == place
    assert run(world, "snapshots", "list").startswith("* 000000000000000001  ")
    listed = json.loads(run(world, "snapshots", "list", "--json"))
    assert ("000000000000000001", 1, True) == (
        listed["snapshot"], listed["rows"], listed["newest"],
    )  # fmt: skip
    assert "000000000000000001 is whole: 1 rows of" in run(world, "snapshots", "verify", "newest")
    run(world, "snapshots", "remove", "newest")
    assert run(world, "snapshots", "list") == ""
    assert list(world.directory.glob("0*")) == []
    with pytest.raises(Error, match="there is no snapshot newest"):
        run(world, "snapshots", "verify", "newest")


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_a_damaged_snapshot_does_not_hide_the_others_in_the_list(world, as_json):
    for number in (1, 2, 3):
        world.put("Dog", str(number), {"name": "Rex"})
        run(world, "export")
    names = sorted(path.name for path in world.directory.glob("0*"))
    (world.directory / names[1] / "manifest.json").write_text("{")
    result = CliRunner().invoke(command, ["snapshots", "list", *as_json, "--data", str(world.path)])
    assert 1 == result.exit_code
    assert [name in result.stdout for name in names] == [True, False, True]
    assert isinstance(result.exception, Error)
    assert [name in result.exception.full for name in names] == [False, True, False]
    assert "is damaged" in result.exception.full


def test_a_program_is_told_in_lines_of_json(world):
    """S1: progress, then what was made."""
    world.put("Dog", "1", {"name": "Rex"})
    world.put("Dog", "2", {"name": "Mo"})
    *told, last = map(json.loads, run(world, "export", "--json", "--keep", "2").splitlines())
    assert told[0] == {"table": "Dog", "rows": 2, "of": 2}
    assert (last["snapshot"], last["cut"]) == ("000000000000000002", f"{world.store.epoch}:2")
    assert (last["rows"], last["new"]) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["export", "--tables", "Dgo"], "no table Dgo to export; did you mean"),
        (["export", "--tables", "Owner"], "no table Owner to export; there are Dog, "),
        (["export", "--audience", "clerk"], "--audience needs --out"),
        (["export", "--config", "missing.yaml"], "missing.yaml: cannot be read"),
        (["snapshots", "remove", "../.."], "there is no snapshot"),
    ],
)
def test_what_cannot_be_is_said(world, words, said):
    """S1: in a sentence that says how to mend it."""
    with pytest.raises(Error, match=said):
        run(world, *words)


@pytest.mark.parametrize("option", ["--data", "--out"])
@pytest.mark.parametrize(
    "words", [["list"], ["verify"], ["compact"], ["remove", "newest"], ["digest"], ["prove", "1"]]
)
def test_a_directory_that_is_not_there_is_no_empty_one(tmp_path, words, option):
    """S12: a misspelt one would look as if nothing had been exported."""
    (tmp_path / "file").touch()
    for name, said in (("typo", "there is no such directory"), ("file", "is a file")):
        asked = ["snapshots", *words, option, str(tmp_path / name)]
        with pytest.raises(Error, match=said):
            raise CliRunner().invoke(command, asked).exception


def test_an_export_to_a_file_is_refused(world):
    (world.path / "file").touch()
    with pytest.raises(Error, match=r"--out .*/file is a file; name a directory"):
        run(world, "export", "--out", str(world.path / "file"))


@pytest.mark.parametrize("word", ["list", "verify"])
def test_that_there_is_no_snapshot_is_said(world, word):
    """By a command that would print nothing, too."""
    done = CliRunner().invoke(command, ["snapshots", word, "--data", str(world.path)])
    assert "no snapshot yet; make one with `rowcast export`\n" == done.stderr


def test_a_snapshot_is_not_proved_by_itself(world):
    """S6, M2: without a later one there is nothing to prove, and that is said."""
    world.put("Dog", "1", {"name": "Rex"})
    world.export()
    words = ["snapshots", "prove", "newest", "--data", str(world.path)]
    assert "nothing to prove" in CliRunner().invoke(command, words).stderr
    assert "" == run(world, "snapshots", "prove", "newest")


def test_without_pyarrow_it_says_what_to_install(world, monkeypatch):
    """S1: the server needs no pyarrow, and neither does any other command."""
    monkeypatch.setattr("rowcast_lake.commands.needs.find_spec", lambda _name: None)
    with pytest.raises(Error, match=r"pip install 'rowcast\[parquet\]'"):
        run(world, "export")


def test_snapshots_of_two_schemas_are_read_together(world):
    """S11: an attribute that came later is null before, one that became wider is wide."""
    world.put("Dog", "1", {"name": "Rex", "age": 3})
    first = world.export().place
    world.open(NEW)
    world.put("Dog", "2", {"name": "Mo", "age": 2**40, "size": 1.5, "home": {"street": "x"}})
    second = world.export().place
    files = f"['{first}/Dog/*.parquet', '{second}/Dog/*.parquet']"
    read = duckdb.sql(
        f"SELECT id, age, size, home.street FROM read_parquet({files}, union_by_name=true)"
    )
    assert sorted(read.fetchall()) == [
        ("1", 3, None, None),
        ("1", 3, None, None),
        ("2", 2**40, 1.5, "x"),
    ]
    old, new = (pq.read_table(place / "Dog") for place in (first, second))
    assert {"size", "home"}.isdisjoint(old.column_names)
    assert {"size", "home"} <= set(new.column_names)


def test_the_system_says_that_the_disk_is_full(world):
    """S3: writing fails in the middle of a file; the last snapshot is as it was."""
    world.put("Dog", "1", {"name": "x"})
    first = world.export().place
    before = {path: path.read_bytes() for path in first.rglob("*") if path.is_file()}
    world.put("Dog", "2", {"name": "y" * 10})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))
    try:
        with pytest.raises(Error, match="is full"):
            world.export()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (world.directory / "newest").resolve() == first
    assert [path.name for path in world.directory.glob(".making*")] == []
    assert before == {path: path.read_bytes() for path in first.rglob("*") if path.is_file()}


def test_a_cut_sees_one_moment(world):
    """S2: what is committed while a cut is open is not in it, whatever table it is of."""
    world.put("Dog", "1", {"name": "a"})
    with open_read_transaction(world.path / "rowcast.db") as cut:
        world.put("Dog", "2", {"name": "b"})
        world.put(None, "home/x", payload=b"1")
        rows = [row for some in cut.rows(world.tables["Dog"], ["name"]) for row in some]
        assert (rows, list(cut.retained()), cut.seq) == ([("1", "a")], [], 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("export", "--changes", "--out", "gs://b"), "--out: gs://b is a URL.*aws s3 sync"),
        (("export", "--out", "file:///srv/x"), "write the path alone, /srv/x"),
        (("export", "--set", "snapshots.directory=s3://b/x"), "snapshots.directory.*is a URL"),
        (("import", "Dog", "https://a.example/x.parquet"), "the files: https://a.example/x"),
    ],
)
def test_a_url_is_no_directory(world, monkeypatch, words, said):
    """S1: it is refused with what to do instead, and no directory of its name is made."""
    monkeypatch.chdir(world.path)
    with pytest.raises(Error, match=said):
        run(world, *words)
    assert not [path for path in world.path.iterdir() if ":" in path.name]
