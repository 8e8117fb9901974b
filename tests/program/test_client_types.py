"""``rowcast generate``: types that refuse what the schema or a role's rights do not allow."""

import inspect
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from rowcast.auth.users import User
from rowcast.auth.users_file import change_users
from rowcast.core.callers import NONE
from rowcast.core.errors import Error
from rowcast.program.cli import command
from rowcast.program.client_types import python, typescript
from rowcast.schema import parse_schema
from rowcast_client import Event, Socket, SocketSubscription, SyncSocket, SyncSocketSubscription
from rowcast_client.websocket import Condition, Watching

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
type Owner { class: String! phone: String }
type Bill @table @export @auth(roles: ["vet"]) { id: ID @primaryKey sum: Decimal! }
"""
RIGHT = (
    'd: DogInsert = {"name": "Rex", "age": 3, "tricks": ["sit"], "owner": {"class": "a"}}',
    'd: DogPatch = {"age": None, "owner": {"phone": "1"}}',
)
WRONG = (
    'd: DogInsert = {"name": "Rex", "agee": 3}',
    'd: DogInsert = {"name": "Rex", "age": "3"}',
    'd: DogInsert = {"age": 3}',
    'd: DogInsert = {"name": "Rex", "updated": "2020-01-01T00:00:00Z"}',
    'd: DogInsert = {"name": "Rex", "chip": "x"}',
    'b: Bill = {"sum": "1.0"}',
    'd: DogPatch = {"name": None}',
    'd: DogPatch = {"owner": {"class": None}}',
    'd: DogInsert = {"name": "Rex", "owner": {"phone": "1"}}',
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


def test_a_patch_removes_nothing_required_and_changes_parts_of_objects():
    """A merge patch: null removes, objects are merged, and lists are replaced as a whole."""
    schema = parse_schema(SCHEMA + "type Cat @table @export { id: ID homes: [Owner!] }")
    text = typescript(schema)
    patch = text.partition("interface DogPatch {")[2].partition("\n}")[0]
    assert "  name?: string\n" in patch and "  age?: number | null\n" in patch
    assert "  owner?: { class?: string; phone?: string | null } | null\n" in patch
    cats = text.partition("interface CatPatch {")[2].partition("\n}")[0]
    assert "homes?: ({ class: string; phone?: string | null })[] | null" in cats


def test_an_item_is_null_only_where_the_schema_allows_it():
    text = typescript(parse_schema(KEPT))
    assert "tags?: (string)[] | null" in text and "notes?: (string | null)[] | null" in text
    text = python(parse_schema(KEPT))
    assert "list[str] | None" in text and "list[str | None] | None" in text


def checked(folder, text):
    """Return what mypy says of a program."""
    (folder / "tables_of.py").write_text(text)
    asked = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "tables_of.py"]
    return subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=False)


def refused(done):
    """Return the lines in which mypy found mistakes."""
    return {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}


@pytest.mark.slow
def test_mypy_refuses_wrong_programs(tmp_path):
    """One program a line: each wrong one is refused, and no right one."""
    lines = python(parse_schema(SCHEMA), frozenset({"guest"})).splitlines()
    wrong = set()
    for n, program in enumerate((*RIGHT, *WRONG)):
        lines += [f"def program{n}() -> None:", f"    {program}"]
        if program in WRONG:
            wrong.add(len(lines))
    done = checked(tmp_path, "\n".join(lines) + "\n")
    assert refused(done) == wrong, done.stdout + done.stderr


HEADS = ("async def program{n}(socket: TypedSocket)", "def program{n}(socket: TypedSyncSocket)")
HEARD = (
    (
        'async for event in socket.live("Dog", "age=gt=3", sort="-age", limit=10, commits=True): '
        'name: str = event.value["name"] if event.value else event.kind'
    ),
    (
        'async for event in socket.subscribe("Dog/#", start="new", conflate="1s"): '
        'age: int | None = event.value.get("age") if event.value else None'
    ),
    (
        'async for event in socket.subscribe("$query/Names/#"): '
        'name: str = event.value["name"] if event.value else ""'
    ),
    'async for event in socket.live("Dog", select="name"): some: object = event.value',
    'async for event in socket.subscribe("home/#"): some: object = event.value',
    (
        'receipt = await socket.put("Dog/1", {"name": "Rex"}, if_none_match="*"); '
        'await socket.patch("Dog/1", {"age": 4}, if_match=receipt.cursor)'
    ),
)
WRONGLY_HEARD = (
    'async for event in socket.live("Dgo"): pass',
    'async for event in socket.live("Bill"): pass',
    'async for event in socket.live("Dog", limt=3): pass',
    'async for event in socket.live("Dog"): event.value["name"]',
    'async for event in socket.live("Dog"): (event.value or {"name": 1})["chip"]',
    'async for event in socket.subscribe("Dog/#"): n: int = (event.value or {"name": 1})["name"]',
    'async for event in socket.subscribe("$query/Names/#"): event.value and event.value["age"]',
    'async for event in socket.subscribe("Dog/#", start="old"): pass',
    'await socket.put("Dog/1", {"name": "Rex", "agee": 3})',
)


RELATED = """
type Dog @table @export {
  id: ID @primaryKey
  owner_id: ID
  owner: Owner @relationship(from: "owner_id")
  bill: Bill @relationship(from: "owner_id")
  thing: Thing @relationship(from: "owner_id")
}
type Owner @table @export {
  id: ID @primaryKey
  city: String!
  dogs: [Dog] @relationship(to: "owner_id")
}
type Bill @table @export @auth(roles: ["vet"]) { id: ID @primaryKey }
type Thing @table @export { id: ID @primaryKey }
"""
RELATED_PROGRAM = """
def right(dog: Dog, owner: Owner) -> str | None:
    found = dog.get("owner")
    names = [one.get("id", "") for one in owner.get("dogs") or []]
    thing: object = dog.get("thing")
    return found.get("city") if found else names[0]

def wrong(dog: Dog, owner: Owner) -> object:
    found = dog.get("owner") or {}
    found["town"]
    dog["bill"]
    owner["dogs"] = [{"idd": "1"}]
    return {}
"""


@pytest.mark.slow
def test_a9_mypy_knows_the_parts_of_related_records(tmp_path):
    """A9: of what a role may read; a relationship to another table is none of its members."""
    text = python(parse_schema(RELATED), frozenset({"guest"}))
    done = checked(tmp_path, text + RELATED_PROGRAM)
    last = len((text + RELATED_PROGRAM).splitlines())
    assert {last - 3, last - 2, last - 1} == refused(done), done.stdout + done.stderr


@pytest.mark.slow
def test_mypy_knows_the_records_that_a_socket_brings(tmp_path):
    """O10: of live queries and subscriptions, over one WebSocket."""
    lines = python(parse_schema(SCHEMA + QUERIES), frozenset({"guest"})).splitlines()
    wrong = {}
    for n, program in enumerate((*HEARD, *WRONGLY_HEARD)):
        for head in HEADS:
            said = program if "async" in head else program.replace("async ", "")
            said = said if "async" in head else said.replace("await ", "")
            lines.append(f"{head.format(n=f'{n}_{len(lines)}')} -> None:")
            lines.append(f"    {said}")
            if program in WRONGLY_HEARD:
                wrong[len(lines)] = said
    done = checked(tmp_path, "\n".join(lines) + "\n")
    assert refused(done) == set(wrong), done.stdout + done.stderr


def test_a_typed_socket_has_what_the_client_has():
    """O10: no method and no option that is not there."""
    types = {}
    exec(python(parse_schema(SCHEMA + QUERIES)), types)  # text of the function under test
    for typed, real in (("TypedSocket", Socket), ("TypedSyncSocket", SyncSocket)):
        names = {name for name in vars(types[typed]) if not name.startswith("_")}
        assert {"subscribe", "live", "put", "patch", "delete", "publish", "get"} == names
        for name in names - {"subscribe", "live"}:
            ours = inspect.signature(getattr(types[typed], name))
            assert [*ours.parameters] == [*inspect.signature(getattr(real, name)).parameters]
    for ours, theirs in (("WatchingOptions", Watching), ("LiveOptions", Condition)):
        assert types[ours].__annotations__.keys() <= all_options(theirs)
    for ours, real in (
        ("Following", SocketSubscription),
        ("SyncFollowing", SyncSocketSubscription),
        ("StreamEvent", Event),
    ):
        names = {name for name in vars(types[ours]) if not name.startswith("_")}
        assert names <= {*dir(real)}


def all_options(options):
    return set(options.__annotations__)


def test_check_fails_for_an_older_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.graphql").write_text(SCHEMA)
    asked = ["generate", "typescript", "--out", "tables.ts"]
    assert CliRunner().invoke(command, asked).exit_code == 0
    assert CliRunner().invoke(command, [*asked, "--check"]).exit_code == 0
    (tmp_path / "schema.graphql").write_text(SCHEMA.replace("age: Int", "age: Long"))
    assert CliRunner().invoke(command, [*asked, "--check"]).exit_code == 1


@pytest.mark.parametrize(("options", "what"), [((), "written"), (("--check",), "read")])
def test_a_file_that_cannot_be_written_is_told(tmp_path, monkeypatch, options, what):
    """P5: a directory, where a file is needed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.graphql").write_text(SCHEMA)
    asked = ["generate", "typescript", "--out", str(tmp_path), *options]
    told = CliRunner().invoke(command, asked)
    assert isinstance(told.exception, Error), told.exception
    assert f"{tmp_path} cannot be {what}: Is a directory" in told.exception.message


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


TAKEN = ("class", "Topic", "Receipt", "Record", "DogPatch", "Dog", "HotRecord", "None")


def test_no_type_is_called_as_anything_else():
    """Tables may be called as a language, the text or types of other tables call something."""
    tables = "\n".join(f"type {name} @table @export {{ n: Int }}" for name in TAKEN)
    schema = parse_schema(f'{tables}\nquery Hot @query(table: "Dog", where: "n=gt=9")')
    text = python(schema)
    compile(text, "tables.py", "exec")
    defined = re.findall(r"^(?:class )?(\w+)(?:\(| = )", text, re.MULTILINE)
    assert len(defined) == len(set(defined))
    assert {"Topic_", "Receipt_", "Record_", "None_", "Dog_"} <= set(defined)
    text = typescript(schema)
    defined = re.findall(r"^(?:export )?(?:type|interface) (\w+)", text, re.MULTILINE)
    assert len(defined) == len(set(defined))
    assert '"Dog": { record: Dog_; insert: Dog_Insert; patch: Dog_Patch }' in text
    assert '"DogPatch": { record: DogPatch;' in text
    assert not {"class", "None", "Record"} & set(defined)
