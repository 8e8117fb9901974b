"""The digest of one cut, computed from each place that has its rows: one value (S10, S20)."""

import random
import shutil
import sqlite3
from contextlib import closing
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from clusters import Cluster
from exported import Exported
from rowcast.core.errors import Code, Error
from rowcast.journal.log_replay import replay_log
from rowcast.program.cli import command
from rowcast.schema import parse_schema
from rowcast_lake.snapshots.export import Order, export
from rowcast_lake.snapshots.files import TableFiles
from serving import PATIENCE_SECONDS

BOTH = ("delta", "iceberg")
SCHEMA = """
type Home { street: String, number: Int, built: Date }
type Point @sealed { x: Float!, y: Float! }
type Dog @table @export {
  id: ID! @primaryKey, name: String, age: Int, chip: Long, weight: Float, price: Decimal,
  cost: Decimal @decimal(precision: 8, scale: 2), good: Boolean, born: Date, photo: Bytes,
  any: Any, home: Home, at: Point, path: [Point], nums: [Int], days: [Date], secret: String @hidden
}
type Tally @table @export { n: Long @primaryKey, v: Int }
"""
VALUES = {
    "name": ["Rex", "", "\u2028\x85 ü", None], "age": [7, -1, None], "chip": [2**53 + 1, None],
    "weight": [1, 2.5, 1e300, None], "price": ["1.10", "0.001", None], "cost": ["1.50", None],
    "good": [True, False, None], "born": ["2020-01-31T00:00:00.007Z", None],
    "photo": ["AAE=", "", None], "any": [1, "text", {"a": [1, None]}, [], None],
    "home": [{"street": "x"}, {"number": None, "odd": [1]}, {"built": "1969-12-31T00:00:00Z"}],
    "at": [{"x": 0.5, "y": 1}, None], "path": [[], [{"x": 1, "y": 0}], None],
    "nums": [[1, None], [], None], "days": [["2020-02-29T00:00:00Z"], None],
    "secret": ["hidden"], "odd": [{"z": None}, None, "o"],
}  # fmt: skip
"""Of each declared type, null, and an undeclared attribute; any of them may be absent."""


def a_dog(dice):
    names = dice.sample(sorted(VALUES), dice.randrange(len(VALUES) + 1))
    return {name: dice.choice(VALUES[name]) for name in names}


def write(clients, dice, count):
    """Write at one node or another: records, changes, deletions and messages."""
    for at in range(count):
        client, topic = clients[at % len(clients)], f"/Dog/{dice.choice('aäbBcZ')}{at % 4}"
        action = dice.random()
        if action < 0.6:
            answer = client.put(topic, json=a_dog(dice))
        elif action < 0.75:
            answer = client.patch(topic, json={"name": None, "age": 3})
        elif action < 0.9:
            answer = client.delete(topic)
        else:
            answer = client.post(f"{topic}?retain=false", json={"name": "wuff"})
        assert answer.is_success or answer.status_code == 404, answer.text
        client.put(f"/Tally/{dice.randrange(-3, 12)}", json={"v": at}).raise_for_status()


def digests(folder, out, *words):
    """What the command prints: the digests by table and place; and how it ends."""
    place = ["--data", str(folder / "data"), "--schema", str(folder / "schema.graphql")]
    done = CliRunner().invoke(command, ["snapshots", "digest", *words, "--out", str(out), *place])
    found = {}
    for line in done.stdout.splitlines():
        table, where, value = line.split(maxsplit=2)
        found.setdefault(table, {})[where] = value
    return found, done.exception


def spoil(database, statement):
    """Change a table behind the server's back, when all of the log is in the tables."""
    replay_log(database, parse_schema(SCHEMA).tables)
    with closing(sqlite3.connect(database, PATIENCE_SECONDS)) as file, file:
        assert file.execute(statement).rowcount == 1


@pytest.mark.slow
@pytest.mark.timeout(5 * PATIENCE_SECONDS)
def test_a_cut_has_one_digest_in_files_open_tables_database_and_at_a_follower(tmp_path):
    """S10, S20, K12: of every declared type, null and absent; the writes of later do not matter."""
    dice, cluster = random.Random(11), Cluster(tmp_path)
    for node in cluster.nodes.values():
        node.schema_file.write_text(SCHEMA)
    with cluster:
        leader, follower = cluster.settle(), cluster.followers[0]
        with leader.client() as one, follower.client() as other:
            one.put("/Tally/99", json={"v": 1}).raise_for_status()
            write([one, other], dice, 60)
            order = Order(
                leader.folder / "data" / "rowcast.db", tmp_path / "out", SCHEMA, catalogs=BOTH
            )
            made = export(order)
            write([other, one], dice, 30)
        asked = made.place.name, "--url", follower.url, "--url", leader.url
        found, error = digests(leader.folder, tmp_path / "out", *asked)
        assert not isinstance(error, Error), error
        places = {"manifest", "parquet", *BOTH, "database", follower.url, leader.url}
        for table in ("Dog", "Tally"):
            told = made.manifest.tables[table]
            assert (places, told.rows > 5) == (found[table].keys(), True)
            assert {told.digest} == set(found[table].values()), found[table]
        changed = set()
        for node, places in ((follower, {follower.url}), (leader, {"database", leader.url})):
            changed |= places
            spoil(node.folder / "data" / "rowcast.db", "UPDATE Tally SET v=2 WHERE n=99")
            found, error = digests(leader.folder, tmp_path / "out", *asked, "--table", "Tally")
            others = {name for name, value in found["Tally"].items() if value != told.digest}
            assert (others, isinstance(error, Error)) == (changed, True)


@pytest.fixture
def world(tmp_path):
    (tmp_path / "data").mkdir()
    made = Exported(tmp_path / "data", SCHEMA)
    (tmp_path / "schema.graphql").write_text(SCHEMA)
    yield made
    made.close()


def different(world, *words):
    """The places that have another digest of Dog than the manifest."""
    found, error = digests(world.path.parent, world.directory, *words)
    others = {where for where, value in found["Dog"].items() if value != found["Dog"]["manifest"]}
    assert isinstance(error, Error) == bool(others), error
    assert all(value.startswith("sha256:") for value in found["Dog"].values()), found
    return others


@pytest.mark.heavy
def test_a_changed_value_anywhere_is_another_digest(world, tmp_path):
    """S10, S20: of the open tables, of the files that they share, of the database."""
    world.put("Dog", "1", {"name": "Rex", "path": None, "price": Decimal("1.10")})
    made = world.export(catalogs=BOTH)
    world.put("Dog", "2", {"name": "Ida"})
    assert different(world) == set()
    spoil(world.path / "rowcast.db", "UPDATE Dog SET price='1.1' WHERE id='1'")
    assert different(world) == {"database"}
    changed = rewritten(made.place / "Dog", tmp_path)
    link = world.directory / "delta" / "Dog" / made.place.name
    link.unlink()
    shutil.copytree(changed, link)
    assert different(world) == {"database", "delta"}
    shutil.rmtree(link)
    shutil.copytree(made.place / "Dog", link)
    shutil.copytree(changed, made.place / "Dog", dirs_exist_ok=True)
    assert different(world) == {"database", "parquet", "iceberg"}


def rewritten(folder, place):
    """The same files, as long as they were, with another name in them."""
    rows = pq.read_table(folder)
    at = rows.schema.get_field_index("name")
    files = TableFiles(place, folder.name, rows.schema, "id", 0)
    files.write(*rows.set_column(at, "name", pa.array(["Rox"])).combine_chunks().to_batches())
    files.close()
    return place / folder.name


def test_what_cannot_be_compared_is_told(world, tmp_path):
    """S10: a table that is not declared, a place without the rows, a snapshot that shows less."""
    world.put("Dog", "1", {"name": "Rex"})
    world.export()
    _, error = digests(tmp_path, world.directory, "newest", "--table", "Dogs")
    assert 'has no declared table Dogs; did you mean "Dog"' in error.message
    other = tmp_path / "other"
    (other / "data").mkdir(parents=True)
    shutil.copy(tmp_path / "schema.graphql", other)
    elsewhere = Exported(other / "data", SCHEMA)
    elsewhere.put("Dog", "1", {"name": "Rex"})
    elsewhere.close()
    found, error = digests(other, world.directory, "newest")
    assert "has another log" in found["Dog"]["database"]
    assert error.code is Code.CONFLICT
    place = world.path.parent / "for-clerks"
    order = Order(world.path / "rowcast.db", place, SCHEMA, audience="clerk", roles=["clerk"])
    _, error = digests(world.path.parent, place, export(order).place.name)
    assert "is for the role clerk" in error.message
