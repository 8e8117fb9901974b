"""A schedule that keeps what a role may see in a place of its own (S18, M9, S1)."""

import json
import os
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from exporting import Exporting
from made_up_snapshots import name_of, put_snapshot

from exported import Exported
from rowcast.auth.users import User
from rowcast.auth.users_file import change_users
from rowcast.core.callers import Grants
from rowcast.core.errors import Code, Error
from rowcast.features.snapshots.jobs import Order
from rowcast.program.config import load_config
from rowcast.program.exporting import audience_stores, export_command, orders_due
from serving import until

SCHEMA = """
type Person @table @export @auth(read: "level < 3", roles: ["clerk"]) {
  id: ID @primaryKey, level: Int
}
"""
SCHEDULE = {"snapshots.every": "1h", "snapshots.changes": "30m"}


@pytest.fixture
def world(tmp_path, monkeypatch):
    return Exporting(tmp_path / "data/snapshots", str(Path(__file__).parent), monkeypatch)


@pytest.mark.heavy
async def test_a_schedule_is_for_each_role_too(world, tmp_path):
    """S1, S18: what is due for it is told by what is in its place, also after a restart."""
    place = tmp_path / "clerks"
    settings = SCHEDULE | {"snapshots.audiences": {"clerk": str(place)}}
    everything = [Order(), Order(changes=True)]
    clerk = [Order(audience="clerk"), Order(changes=True, audience="clerk")]
    async with world.running(**settings):
        await until(lambda: len(world.orders) == 4 and not world.exports.open_jobs)
        assert everything + clerk == world.orders
        shown = [(row["changes"], row["audience"]) for row in await world.row("") if "began" in row]
        assert [(False, None), (True, None), (False, "clerk"), (True, "clerk")] == shown
    for number in (7, 8):
        manifest = put_snapshot(place, number).joinpath("manifest.json")
        made = json.loads(manifest.read_text()) | {"created": "2999-01-01T00:00:00Z"}
        manifest.write_text(json.dumps(made))
    world.orders.clear()
    async with world.running(**settings):
        await until(lambda: len(world.orders) == 3 and not world.exports.open_jobs)
        assert [*everything, clerk[1]] == world.orders
        assert name_of(7) not in [row["id"] for row in await world.row("")]
        assert 404 == (await world.ask("GET", f"{name_of(8)}/manifest.json")).status_code


async def test_an_order_is_for_a_role_that_has_a_place(world, tmp_path):
    """S18: another one is refused at once, with the roles that have one."""
    async with world.running(**{"snapshots.audiences": {"clerk": str(tmp_path / "clerks")}}):
        assert 202 == (await world.ask("POST", json={"audience": "clerk"})).status_code
        await until(lambda: not world.exports.open_jobs)
        assert [Order(audience="clerk")] == world.orders
        refused = await world.ask("POST", json={"audience": "clrek"})
        assert (404, True) == (refused.status_code, 'mean "clerk"' in refused.json()["detail"])
        assert 400 == (await world.ask("POST", json={"audience": 1})).status_code


@pytest.mark.heavy
async def test_what_cannot_go_on_for_a_role_begins_anew_for_it(world, tmp_path):
    """S6: a fresh snapshot in its own place."""
    world.after = """
if changes:
    print(json.dumps(dict(code="gone")), flush=True)
    sys.exit("rowcast: make a fresh snapshot")
"""
    places = {"snapshots.audiences": {"clerk": str(tmp_path / "clerks")}}
    async with world.running(**{"snapshots.changes": "30m"}, **places):
        await until(lambda: len(world.orders) >= 2 and not world.exports.open_jobs)
        await world.ask("POST", json={"changes": True, "audience": "clerk"})
        await until(lambda: len(world.orders) >= 4 and not world.exports.open_jobs)
        assert Order(audience="clerk") == world.orders[-1]


@pytest.mark.slow
def test_only_what_the_role_may_read_is_in_its_place(tmp_path):
    """S18, M9: by the commands of the schedule, a snapshot and an increment."""
    place = tmp_path / "clerks"
    (tmp_path / "data").mkdir()
    (tmp_path / "schema.graphql").write_text(SCHEMA)
    given = {"schema": tmp_path / "schema.graphql", "data": tmp_path / "data"}
    given |= SCHEDULE | {"snapshots.audiences": {"clerk": str(place)}}
    config = load_config(None, {}, given)
    world = Exported(tmp_path / "data", SCHEMA)
    due = [order for order in orders_due(config.snapshots) if order.audience]

    def put(level):
        payload = json.dumps({"level": level}).encode()
        facts = {"payload": payload, "content_type": "application/json"}
        world.put("Person", f"p{level}", {"level": level}, **facts)

    for number, order in enumerate(due):
        put(number)
        put(number + 5)
        done = subprocess.run(export_command(config, order), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    world.close()
    files = sorted(place.rglob("*.parquet"))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    assert ["p0", "p1"] == sorted(row["id"] for row in rows if "level" in row)
    assert not (tmp_path / "data" / "snapshots").exists()
    manifests = [json.loads(file.read_bytes()) for file in place.rglob("manifest.json")]
    assert {"clerk"} == {manifest["audience"] for manifest in manifests}


LONG_LIST = [
    {"effect": "allow", "actions": ["all"], "topics": ["home/#"]},
    {"effect": "allow", "actions": ["all"], "topics": [f"\N{DOG FACE}/{n}" for n in range(20_000)]},
]
"""More than the system takes as one argument of a command."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("acl", "grants", "read"),
    [
        ([], Grants(read=True), ["home/x", "shed/x"]),
        ([], Grants(), []),
        (LONG_LIST, Grants(read=True), ["home/x"]),
    ],
)
def test_the_schedule_s_commands_hear_of_grants_and_of_the_access_list(tmp_path, acl, grants, read):
    """S18, M9, G20: what limits the members of the role limits the role."""
    place, users = tmp_path / "clerks", tmp_path / "data/users.yaml"
    users.parent.mkdir()
    clerk = User("ann", grants, roles=frozenset({"clerk"}))
    change_users(users, lambda known: known.with_user(clerk), os.urandom)
    (tmp_path / "schema.graphql").write_text("type Dog @table { id: ID @primaryKey }")
    given = {"schema": tmp_path / "schema.graphql", "data": tmp_path / "data", "hooks.acl": acl}
    given |= {"snapshots.audiences": {"clerk": str(place)}, "security.users": str(users)}
    world = Exported(tmp_path / "data", "type Dog @table { id: ID @primaryKey }")
    for topic in ("home/x", "shed/x"):
        world.put(None, topic, payload=b"1")
    world.close()
    command = export_command(load_config(None, {}, given), Order(audience="clerk"))
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 0o600 == (users.parent / "export-access.json").stat().st_mode & 0o777
    (file,) = place.glob("0*/_retained/*.parquet")
    assert read == [row["topic"] for row in pq.ParquetFile(file).read().to_pylist()]


WRONG = [
    ({"audiences": {"clerk": ""}}, "should name a role and its directory"),
    ({"audiences": {"clerk": "gs://bucket/x"}}, "gs://bucket/x is a URL"),
    ({"audiences": {"clerk": "s3://"}}, "names no bucket"),
    ({"audiences": {"a": "/x", "b": "/x/y"}}, "a and b should have places apart"),
    ({"directory": "/x/y", "audiences": {"a": "/x"}}, "all and a should have places apart"),
    ({"location": "s3://b/x", "audiences": {"a": "s3://b/x/"}}, "all and a should have places"),
]


@pytest.mark.parametrize(("section", "told"), WRONG)
def test_places_are_apart(section, told):
    """S18: whoever may read a directory may read what is below it."""
    given = {f"snapshots.{name}": value for name, value in section.items()}
    with pytest.raises(Error) as said:
        load_config(None, {}, given)
    assert told in said.value.message


@pytest.mark.parametrize("place", ["data/for-clerks", "data/snapshots", "."])
def test_the_data_directory_is_no_place_for_a_role(tmp_path, place):
    """S18: nor what contains it."""
    given = {"data": tmp_path / "data", "snapshots.audiences": {"clerk": str(tmp_path / place)}}
    with pytest.raises(Error, match="is not apart from the data directory") as said:
        audience_stores(load_config(None, {}, given))
    assert said.value.code is Code.CONFLICT
