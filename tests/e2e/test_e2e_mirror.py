"""Copies of tables in PostgreSQL: equal to what REST answers, whatever was killed (K16)."""

import json
import os
import random
import signal
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import httpx
import psycopg
import pytest

from postgres_server import PASSWORD, running_postgres
from rowcast.features.mirror.database import MirrorDatabase
from rowcast.schema import parse_schema
from serving import PATIENCE_SECONDS, Server, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(5 * PATIENCE_SECONDS)]
SCHEMA = """
type Sensor @table @export {
  id: ID @primaryKey
  name: String
  n: Int
  big: Long
  temp: Float
  price: Decimal
  on: Boolean
  at: Date
  tags: [String]
  any: Any
  place: Place
}
type Place { x: Float, y: Float }
type Order @table @export(name: "shop/orders") {
  no: Int @primaryKey
  user: String
}
"""
COLUMNS = ("name", "n", "big", "temp", "price", "on", "at", "tags", "any", "place")


@pytest.fixture(scope="module")
def database():
    with running_postgres() as running:
        yield running


def settings(database, name):
    return {"mirror.url": database.url, "mirror.schema": name}


def state(server):
    return server.request("GET", "/$SYS/mirror/postgresql").json()


def until_equal(server, database, schema):
    """Wait until SQL has what REST has; return the rows."""

    def equal():
        told = state(server)
        if told["behind"] or told["state"] != "following":
            return None
        rest = {row["id"]: row for row in server.request("GET", "/Sensor/?limit(10000)").json()}
        there = copies(database, schema)
        differ.update(
            {key: (rest.get(key), there.get(key)) for key in rest | there
             if rest.get(key) != there.get(key)}
        )  # fmt: skip
        return (rest == there) and rest

    differ = {}
    try:
        return wait_until(equal, "SQL and REST are equal")
    except AssertionError as late:
        raise AssertionError(f"{state(server)}: {differ}") from late


def copies(database, schema):
    """Return the rows of the copy as REST would answer them."""
    names = ", ".join(f'"{name}"' for name in ("id", *COLUMNS, "_more"))
    with psycopg.connect(database.url) as link:
        rows = link.execute(f'SELECT {names} FROM {schema}."Sensor"').fetchall()
    found = {}
    for row in rows:
        values = dict(zip(("id", *COLUMNS, "_more"), row, strict=True))
        more = values.pop("_more") or {}
        plain = {name: _plain(value) for name, value in values.items() if value is not None}
        found[row[0]] = plain | more
    return found


def _plain(value):
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return str(value) if isinstance(value, Decimal) else value


def some_value(rng):
    """Return a record with some attributes, declared and others."""
    values = {
        "name": rng.choice(["", "Zoë", 'a"b\\', "日本", "x" * 300]),
        "n": rng.randint(-(2**31), 2**31 - 1),
        "big": rng.choice([2**63 - 1, -(2**63), 7]),
        "temp": rng.choice([0.5, -1.25, 1e300]),
        "price": rng.choice(["0.10", "12345678901234567890.123456789"]),
        "on": rng.random() < 0.5,
        "at": f"20{rng.randint(10, 99)}-01-02T03:04:05.678Z",
        "tags": rng.choice([[], ["a", "b"]]),
        "any": rng.choice([1, "text", {"deep": [1, {"x": True}]}, [None]]),
        "place": {"x": 1.5, "y": -2.0},
        "undeclared": rng.choice([1, "u", {"v": 2}]),
    }
    return {name: values[name] for name in rng.sample(sorted(values), rng.randint(1, 8))}


def write(server, rng):
    """Write once; what is not answered, while a server is down, counts for nothing."""
    path = f"/Sensor/{rng.randint(1, 12)}"
    how = rng.choice(["PUT", "PUT", "PATCH", "DELETE"])
    try:
        if how == "DELETE":
            server.request(how, path)
        else:
            server.request(how, path, json=some_value(rng))
    except httpx.HTTPError:
        return


@pytest.mark.parametrize("seed", [1, 2])
def test_rows_are_those_of_rest_over_kills_of_both(tmp_path, database, seed):
    rng, schema = random.Random(seed), f"m{seed}"
    with Server(tmp_path, SCHEMA, settings=settings(database, schema)) as server:
        wait_until(lambda: state(server)["state"] == "following", "it follows")
        database.ask(
            f"CREATE TABLE {schema}.seen (at bigint);"
            f"CREATE FUNCTION {schema}.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"INSERT INTO {schema}.seen VALUES (NEW.position); RETURN NEW; END $$;"
            f"CREATE TRIGGER noted AFTER UPDATE ON {schema}._mirror FOR EACH ROW "
            f"EXECUTE FUNCTION {schema}.note()"
        )
        for _ in range(4):
            for _ in range(40):
                write(server, rng)
            if rng.random() < 0.5:
                server.kill(children=True)
                server.start()
            else:
                database.start("restart", "-m", "immediate")
            for _ in range(20):
                write(server, rng)
        rows = until_equal(server, database, schema)
        assert rows
        assert PASSWORD not in server.log
        assert PASSWORD not in json.dumps(state(server))
        with psycopg.connect(database.url) as link:
            seen = [at for (at,) in link.execute(f"SELECT at FROM {schema}.seen ORDER BY ctid")]
    assert seen == sorted(set(seen)), "a part of the log was applied twice"


def test_a_server_with_records_fills_it_and_a_removed_one_goes(tmp_path, database):
    with Server(tmp_path, SCHEMA) as server:
        for n in range(30):
            server.request("PUT", f"/Sensor/{n}", json={"n": n, "name": f"a\u0000{n}"})
        server.request("PUT", "/shop/orders/7", json={"user": "ann"})
        server.stop()
        server.settings |= settings(database, "filled")
        server.start()
        wait_until(lambda: state(server)["state"] == "following", "it is filled")
        assert database.ask('SELECT count(*) FROM filled."Sensor"') == 30
        assert database.ask("SELECT name FROM filled.\"Sensor\" WHERE id = '3'") == "a3"
        assert database.ask('SELECT "user" FROM filled."Order" WHERE "no" = 7') == "ann"
        server.request("DELETE", "/Sensor/3")
        wait_until(
            lambda: database.ask('SELECT count(*) FROM filled."Sensor"') == 29, "it is deleted"
        )


def test_a_filling_ends_while_old_records_are_written_and_the_log_is_trimmed(tmp_path, database):
    trimmed = {"history.keep_events": 10, "history.sweep_seconds": 1}
    records = 1500
    with Server(tmp_path, SCHEMA, settings=trimmed) as server:
        for n in range(records):
            server.request("PUT", f"/Sensor/{n}", json={"n": 0})
        wait_until(
            lambda: (
                server.request("GET", "/Sensor/0?from=1").status_code != 200
                or "rowcast-trimmed" in server.request("GET", "/Sensor/0?from=1").headers
            ),
            "the log is trimmed",
        )
        server.stop()
        server.settings |= settings(database, "trimmed")
        server.start()
        writes = iter(range(10**9))

        def follows():
            n = next(writes)
            server.request("PUT", f"/Sensor/{n * 7 % records}", json={"n": n})
            return state(server)["state"] == "following"

        wait_until(follows, "it is filled")
        assert "no longer" not in server.log
        until_equal(server, database, "trimmed")


def test_a_server_stops_while_the_database_hangs(tmp_path, database):
    with Server(tmp_path, SCHEMA, settings=settings(database, "hangs")) as server:
        wait_until(lambda: state(server)["state"] == "following", "it follows")
        main = int((database.data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        every = [main, *map(int, children)]
        for one in every:
            os.kill(one, signal.SIGSTOP)
        try:
            assert server.request("PUT", "/Sensor/a", json={"n": 1}).status_code == 201
            wait_until(lambda: state(server)["behind"], "it is behind")
            server.stop()
            assert "stopping at once" not in server.log
        finally:
            for one in reversed(every):
                os.kill(one, signal.SIGCONT)


def test_columns_follow_the_schema(tmp_path, database):
    old = "type Thing @table @export { id: ID @primaryKey, a: Int, gone: String }"
    new = "type Thing @table @export { id: ID @primaryKey, a: Float, b: Float }"
    with Server(tmp_path, old, settings=settings(database, "changed")) as server:
        server.request("PUT", "/Thing/1", json={"a": 1, "gone": "x", "b": 2.5}).raise_for_status()
        wait_until(lambda: state(server)["state"] == "following", "it follows")
        wait_until(lambda: database.ask('SELECT count(*) FROM changed."Thing"'), "it is there")
        assert database.ask("SELECT _more->>'b' FROM changed.\"Thing\"") == "2.5"
        server.stop()
        server.schema_file.write_text(new)
        server.start()
        wait_until(lambda: state(server)["state"] == "following", "it follows")
        server.request("PUT", "/Thing/2", json={"a": 2.5, "b": 1}).raise_for_status()
        wait_until(lambda: database.ask('SELECT count(*) FROM changed."Thing"') == 2, "both are")
        assert database.ask("SELECT a FROM changed.\"Thing\" WHERE id = '1'") == 1.0
        assert database.ask("SELECT b FROM changed.\"Thing\" WHERE id = '1'") == 2.5
        assert database.ask("SELECT a FROM changed.\"Thing\" WHERE id = '2'") == 2.5


def test_a_second_server_is_kept_out_and_a_database_that_is_away_is_told(tmp_path, database):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with (
        Server(tmp_path / "one", SCHEMA, settings=settings(database, "shared")) as first,
        Server(tmp_path / "two", SCHEMA, settings=settings(database, "shared")) as second,
    ):
        servers = [first, second]
        wait_until(
            lambda: {state(one)["state"] for one in servers} == {"following", "waiting"},
            "one of them writes",
        )
        kept_out = next(one for one in servers if state(one)["state"] == "waiting")
        assert "another server keeps the mirror" in state(kept_out)["error"]
        writes = next(one for one in servers if one is not kept_out)
        database.stop()
        for path in ("/elsewhere/a", "/Sensor/a", "/elsewhere/b", "/elsewhere/c"):
            assert writes.request("PUT", path, json={"n": 1}).status_code == 201
        wait_until(lambda: state(writes)["state"] == "waiting", "it is told")
        assert 1 == state(writes)["behind"]  # what others have written is not its lag
        database.start()
        wait_until(lambda: "following" in {state(one)["state"] for one in servers}, "it goes on")


def test_a_constraint_that_somebody_has_added_stops_its_table_alone(tmp_path, database):
    """Until it is dropped: then the next start fills the copy again."""
    with Server(tmp_path, SCHEMA, settings=settings(database, "bound")) as server:
        wait_until(lambda: state(server)["state"] == "following", "the tables are made")
        server.request("PUT", "/Sensor/1", json={"name": "a"}).raise_for_status()
        wait_until(lambda: database.ask('SELECT count(*) FROM bound."Sensor"'), "it is there")
        database.ask('ALTER TABLE bound."Sensor" ADD UNIQUE (name)')
        for path, value in (
            ("/Sensor/2", {"name": "a"}),
            ("/shop/orders/1", {"user": "u"}),
            ("/Sensor/3", {"name": "c"}),
            ("/shop/orders/2", {"user": "u"}),
        ):
            server.request("PUT", path, json=value).raise_for_status()
        wait_until(lambda: database.ask('SELECT count(*) FROM bound."Order"') == 2, "both are")
        wait_until(lambda: not state(server)["behind"], "it follows")
        told = state(server)
        assert ("following", ["Sensor"]) == (told["state"], list(told["stopped"]))
        assert "unique constraint" in told["stopped"]["Sensor"]
        assert "stopped following Sensor" in server.log
        assert database.ask('SELECT count(*) FROM bound."Sensor"') == 1
        server.stop()
        server.start()
        wait_until(lambda: state(server)["stopped"], "it was tried again")
        database.ask('ALTER TABLE bound."Sensor" DROP CONSTRAINT "Sensor_name_key"')
        server.stop()
        server.start()
        assert set(until_equal(server, database, "bound")) == {"1", "2", "3"}
        assert state(server)["stopped"] == {}


def test_rows_of_an_earlier_filling_go_some_at_a_time(database):
    tables = parse_schema(SCHEMA).tables
    mirror = MirrorDatabase(database.url, "swept", tables)
    mirror.open()
    first = mirror.begin_filling()
    row = {"_version": 1, "_position": 1, "_more": None, "no": None, "user": "u"}
    mirror.fill("Order", [row | {"_key": str(key)} for key in range(7)], first)
    second = mirror.begin_filling()
    mirror.fill("Order", [row | {"_key": "3"}], second)
    counted, last = [], ""
    while last is not None:
        last = mirror.sweep("Order", second, last or None, 2)
        counted.append(database.ask('SELECT count(*) FROM swept."Order"'))
    assert counted == [5, 4, 2, 1, 1]
    mirror.close()
