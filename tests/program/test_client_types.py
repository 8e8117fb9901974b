"""``rowcast generate``: types that refuse what the schema or a role's rights do not allow."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from rowcast.auth.users import User
from rowcast.auth.users_file import change_users
from rowcast.core.callers import NONE
from rowcast.program.cli import command
from rowcast.program.client_types import python, typescript
from rowcast.schema import parse_schema

SCHEMA = """
type Dog @table @export {
  id: ID @primaryKey
  name: String!
  age: Int
  tricks: [String]
  owner: Owner
  chip: String @auth(roles: ["vet"])
  updated: Date @updatedTime
}
type Owner { class: String! }
type Bill @table @export @auth(roles: ["vet"]) { id: ID @primaryKey sum: Decimal! }
"""
RIGHT = 'd: DogInsert = {"name": "Rex", "age": 3, "tricks": ["sit"], "owner": {"class": "a"}}'
WRONG = (
    'd: DogInsert = {"name": "Rex", "agee": 3}',
    'd: DogInsert = {"name": "Rex", "age": "3"}',
    'd: DogInsert = {"age": 3}',
    'd: DogInsert = {"name": "Rex", "updated": "2020-01-01T00:00:00Z"}',
    'd: DogInsert = {"name": "Rex", "chip": "x"}',
    'b: Bill = {"sum": "1.0"}',
)


def test_a_role_sees_only_what_it_may_read():
    schema = parse_schema(SCHEMA)
    for write in (typescript, python):
        everything, vet = write(schema), write(schema, frozenset({"vet"}))
        guest = write(schema, frozenset({"guest"}))
        assert "chip" in everything and "chip" in vet and "Bill" in vet
        assert "chip" not in guest and "Bill" not in guest and "name" in guest


def test_m4_a_typed_subscription_takes_an_interval():
    """M4: events of the table's records, and a duration, which no other text is."""
    text = typescript(parse_schema(SCHEMA))
    assert "conflate?: Duration" in text and "type Duration = `${number}${" in text
    assert "filter: Topic<T>, onEvent: OnEvent<T>, options?: Watching," in text


QUERIES = """
query Old @query(table: "Dog", where: "age=gt=9")
query Names @query(table: "Dog", where: "age=gt=9&select(id,name)")
query One @query(table: "Dog", where: "age=gt=9&select(name)")
query Bills @query(table: "Bill", where: "sum=gt=9")
"""


def test_m3_named_queries_have_the_records_that_they_select():
    """M3: those on tables that the role may read."""
    schema = parse_schema(SCHEMA + QUERIES)
    text = typescript(schema, frozenset({"guest"}))
    assert '"Old": Dog\n  "Names": Pick<Dog, "id" | "name">\n  "One": unknown\n}' in text
    assert '"Bills": Bill' in typescript(schema)
    text = python(schema, frozenset({"guest"}))
    assert "OldRecord = Dog\n" in text and "OneRecord = object\n" in text
    assert 'NamesRecord = TypedDict("NamesRecord", {"id": NotRequired[str | None], "name"' in text
    assert "Bills" not in text


KEPT = """
type Sensor @table @export {
  id: ID @primaryKey at: Date temp: Float tags: [String!] notes: [String]
}
type Hourly @table @export @rollup(of: "Sensor", time: "at", every: "1h", values: {temp: ["avg"]})
type Mean @table @export @derived(job: "jobs/mean.py", from: ["Sensor"], every: "5m") {
  id: ID @primaryKey
}
"""


def test_what_the_server_writes_alone_has_no_types_of_writes():
    """Of roll-ups and derived tables: whoever writes them is refused, so the types refuse it."""
    for write in (typescript, python):
        text = write(parse_schema(KEPT))
        assert "SensorInsert" in text and "Hourly" in text and "Mean" in text
        refused = ("HourlyInsert", "HourlyPatch", "MeanInsert", "MeanPatch")
        assert not [name for name in refused if name in text]
    assert '"Mean": { record: Mean; insert: never; patch: never }' in typescript(parse_schema(KEPT))


def test_an_item_is_null_only_where_the_schema_allows_it():
    text = typescript(parse_schema(KEPT))
    assert "tags?: (string)[] | null" in text and "notes?: (string | null)[] | null" in text
    text = python(parse_schema(KEPT))
    assert "list[str] | None" in text and "list[str | None] | None" in text


@pytest.mark.parametrize("program", [RIGHT, *WRONG])
@pytest.mark.slow
def test_mypy_refuses_wrong_programs(tmp_path, program):
    text = python(parse_schema(SCHEMA), frozenset({"guest"}))
    (tmp_path / "tables_of.py").write_text(f"{text}{program}\n")
    asked = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "tables_of.py"]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == (0 if program == RIGHT else 1), done.stdout + done.stderr


def test_check_fails_for_an_older_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.graphql").write_text(SCHEMA)
    asked = ["generate", "typescript", "--out", "tables.ts"]
    assert CliRunner().invoke(command, asked).exit_code == 0
    assert CliRunner().invoke(command, [*asked, "--check"]).exit_code == 0
    (tmp_path / "schema.graphql").write_text(SCHEMA.replace("age: Int", "age: Long"))
    assert CliRunner().invoke(command, [*asked, "--check"]).exit_code == 1


def test_a_role_that_nobody_names_is_told_with_those_that_there_are(tmp_path, monkeypatch):
    """Types of a misspelt role are those of a guest, which may pass unnoticed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.graphql").write_text(SCHEMA)
    change_users(
        tmp_path / "data/users.json",
        lambda known: known.with_user(User("ann", NONE, roles=frozenset({"keeper"}))),
        lambda size: b"x" * size,
    )
    told = CliRunner().invoke(command, ["generate", "python", "--as", "vte", "--as", "keeper"])
    words = "no @auth and no user names the role 'vte'; there are: admin, keeper, vet"
    assert (0, f"warning: {words}\n") == (told.exit_code, told.stderr)
    for role in ("vet", "keeper", "admin"):
        assert "" == CliRunner().invoke(command, ["generate", "python", "--as", role]).stderr
