"""``rowcast schema check``: what a changed schema does to the data (A13)."""

import json

import pytest
from typer.testing import CliRunner

from rowcast.program.cli import command
from rowcast.schema import parse_schema
from rowcast.store.sqlite import SqlStore

WAS = "type Dog @table @export { id: ID @primaryKey age: Int }"


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    store = SqlStore(tmp_path / "data")
    store.open(parse_schema(WAS).tables)
    store.close()
    return tmp_path


def checked(project, schema, *options):
    """Run it on another schema; return its exit code and what it printed."""
    (project / "schema.graphql").write_text(schema)
    result = CliRunner().invoke(command, ["schema", "check", *options])
    return result.exit_code, result.output


def test_what_is_safe(project):
    assert checked(project, WAS) == (0, "nothing changes\n")
    more = WAS.replace("age: Int", "age: Long name: String")
    assert checked(project, more) == (
        0,
        "  Dog.age: was Int, is Long; all values stay\n  Dog.name: new attribute of type String\n",
    )


def test_what_is_not(project):
    """A13: exit code 1, each line with what and why; for programs as JSON."""
    other = WAS.replace("id: ID", "id: Long")
    code, output = checked(project, other)
    assert (code, output.startswith("! Dog: refused: the key of the table Dog was id")) == (1, True)
    code, output = checked(project, other, "--json")
    assert (code, json.loads(output)["safe"]) == (1, False)


def test_data_that_is_not_there_is_told(project):
    """A13: a mistyped directory is not taken for one without tables."""
    (project / "schema.graphql").write_text(WAS)
    result = CliRunner().invoke(command, ["schema", "check", "--data", "nope"])
    assert "there is no data at" in str(result.exception)
    (project / "rowcast.yaml").write_text("data: other")
    told = CliRunner().invoke(command, ["schema", "check"])
    assert (0, True) == (told.exit_code, "so every table is new" in told.stderr)
