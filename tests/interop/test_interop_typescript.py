"""The types of a schema, as the compiler of TypeScript reads them (M3).

``tsc --strict`` takes what the schema and a role's rights allow, and refuses all else.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from clients import library, needs

from rowcast.program.client_types import typescript
from rowcast.schema import parse_schema

COMPILER, INSTALLED = library("typescript", "bin", "tsc")
UI = Path(__file__).parent.parent.parent / "app" / "rowcast" / "doors" / "http" / "ui"
SECONDS = 120
pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    needs("node"),
    INSTALLED,
]
SCHEMA = """
type Dog @table @export {
  id: ID @primaryKey
  name: String!
  age: Int
  chip: String @auth(roles: ["vet"])
  home: Home
  updated: Date @updatedTime
  owner_id: ID
  owner: Owner @relationship(from: "owner_id")
  bill: Bill @relationship(from: "owner_id")
}
type Owner @table @export {
  id: ID @primaryKey
  city: String!
  dogs: [Dog] @relationship(to: "owner_id")
}
type Home { street: String! flat: Int }
type Bill @table @export @auth(roles: ["vet"]) { id: ID @primaryKey sum: Decimal! }
type Hourly @table @export @rollup(of: "Dog", time: "updated", every: "1h", values: {age: ["avg"]})
type Thing @table @export { id: ID @primaryKey }
query Old @query(table: "Dog", where: "age=gt=9")
query Names @query(table: "Dog", where: "age=gt=9&select(id,name)")
"""
HEAD = """
import type { Typed, TypedCollection } from "./tables"
declare const rows: Typed
declare const Live: TypedCollection
async function all() {
"""
RIGHT = """
rows.put("Dog/1", { name: "Rex", age: 3 })
rows.patch("Dog/1", { age: null, home: { flat: 3 } }, { ifMatch: "*" })
rows.put("Thing/1", [1, 2], { once: true })
rows.delete("Thing/1", { via: "http" })
const page = (await rows.query("Dog", "age=gt=3")).rows.map((dog) => dog.name.length)
const mean = (await rows.query("Hourly")).rows.map((hour) => hour.age_avg)
rows.subscribe("Dog/#", ({ value }) => value?.name.length, { start: "new", conflate: "1s" })
rows.subscribe("$query/Old/#", ({ value }) => value?.age)
rows.subscribe("$query/Names/#", ({ value }) => value?.name.length)
rows.subscribe("$query/Dog/age=gt=3", ({ kind, value }) => value?.name.length)
rows.subscribe("$query/Dog/age=gt=3&select(id,age)", ({ value }) => value?.name?.length)
const dogs = new Live(rows, "Dog", "age=gt=3", { compare: (a, b) => +(a.name > b.name) })
const id: string = await dogs.create({ name: "Rex" })
dogs.patch(id, { age: 4 })
const owners = (await rows.query("Dog", "select(id,owner(city))")).rows.map((dog) => dog.owner)
const city: string | undefined = owners[0]?.city
const names = (await rows.get("Owner/1")).value.dogs?.map((dog) => dog.name?.length)
const first = dogs.rows[0]?.name.length
"""
CLIENT = """
const { Rowcast } = await import("./rowcast.js")
const { Collection } = await import("./collection.js")
const rows = new Rowcast("http://127.0.0.1:9926") as unknown as Typed
const Live = Collection as unknown as TypedCollection
const name: string | undefined = new Live(rows, "Dog").rows[0]?.name
"""
WRONG = (
    'rows.put("Dog/1", { name: "Rex", agee: 3 })',
    'rows.put("Dog/1", { name: "Rex", age: "3" })',
    'rows.put("Dog/1", { age: 3 })',
    'rows.put("Dog/1", { name: "Rex", home: { flat: 3 } })',
    'rows.patch("Dog/1", { name: null })',
    'rows.patch("Dog/1", { home: { street: null } })',
    'rows.put("Dog/1", { name: "Rex", chip: "x" })',
    'rows.put("Dog/1", { name: "Rex", updated: "2020-01-01T00:00:00Z" })',
    'rows.put("Cat/1", { name: "Tom" })',
    'rows.put("Dog/1", { name: "Rex" }, { via: "mqtt" })',
    'rows.get("Bill/1")',
    'rows.put("Hourly/1", {})',
    '(await rows.get("Dog/1")).value.chip',
    '(await rows.get("Dog/1")).value.owner?.town',
    '(await rows.get("Dog/1")).value.bill',
    '(await rows.get("Owner/1")).value.dogs?.map((dog) => dog.name.length)',
    'rows.put("Dog/1", { name: "Rex", owner: { city: "Bonn" } })',
    'rows.subscribe("Dog/#", ({ value }) => value?.agee)',
    'rows.subscribe("Dog/#", () => {}, { conflate: "often" })',
    'rows.subscribe("$query/Names/#", ({ value }) => value?.age)',
    'rows.subscribe("$query/Nams/#", () => {})',
    'rows.subscribe("$query/Dog/select(id,name)", ({ value }) => value?.name.length)',
    'rows.subscribe("$query/Dog/select(name)&limit(1,2)", ({ value }) => value?.name)',
    'new Live(rows, "Cat")',
    'new Live(rows, "Dog").rows[0]?.agee',
    'new Live(rows, "Dog").patch("1", { age: "3" })',
)


def compiled(tmp_path, *programs, more=()):
    """Return what the compiler complains of, by the name of the program."""
    text = typescript(parse_schema(SCHEMA), frozenset({"guest"}))
    (tmp_path / "tables.ts").write_text(text)
    names = [f"program{n}.ts" for n in range(len(programs))]
    for name, program in zip(names, programs, strict=True):
        (tmp_path / name).write_text(f"{HEAD}{program}\n}}\nall()\n")
    options = (*more, "--strict", "--noEmit", "--target", "es2022", "--module", "esnext")
    node = shutil.which("node") or "node"
    done = subprocess.run(
        [node, COMPILER, *options, "--moduleResolution", "bundler", *names],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return names, done.stdout + done.stderr


def test_m3_it_takes_right_programs(tmp_path):
    assert "" == compiled(tmp_path, RIGHT)[1]


def test_m3_the_client_has_these_types(tmp_path):
    """M3: with its files beside the program, as docs/clients.md says."""
    for file in UI.glob("*.js"):
        (tmp_path / file.name).write_text(file.read_text())
    more = ("--allowJs", "--lib", "es2022,dom,dom.iterable")
    assert "" == compiled(tmp_path, CLIENT, more=more)[1]


def test_m3_it_refuses_each_wrong_program(tmp_path):
    names, told = compiled(tmp_path, *WRONG)
    accepted = [
        program for name, program in zip(names, WRONG, strict=True) if f"{name}(" not in told
    ]
    assert [] == accepted
    assert "tables.ts(" not in told
