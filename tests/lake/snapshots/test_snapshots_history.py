"""History as intervals (S8): at any time a record has one row, or none."""

import random

import pytest

from exported import Exported
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT
from rowcast.store.store import Keep
from rowcast_lake.snapshots.verify import verify

SCHEMA = "type Dog @table @export { id: ID @primaryKey, n: Int, secret: Int @hidden }\n"
JSON = "application/json"


@pytest.fixture
def world(tmp_path):
    made = Exported(tmp_path, SCHEMA)
    yield made
    made.close()


def write(world, key, kind, n):
    payload = b"" if kind == DELETE else b'{"n":%d,"secret":7,"x":1}' % n
    value = {"n": n, "secret": 7, "x": 1}
    facts = {"payload": payload, "content_type": JSON}
    event = world.event("Dog", key, value, kind, **facts)
    if kind == DELETE:
        event = event.changed(content_type=None)
    world.store.commit([event])
    return event


def micros(time):
    return None if time is None else round(time.timestamp() * 1_000_000)


def test_each_moment_has_the_record_that_was_there(world):
    """S8: against a model of puts, patches, deletions and messages of three records."""
    chance, told = random.Random(11), []
    for n in range(120):
        kind = chance.choice([PUT, PUT, PATCH, DELETE, MESSAGE])
        key = chance.choice(["a", "b", "c"])
        event = write(world, key, kind, n)
        told.append((event.version, key, kind, n))
    verify(world.export(history=True).place)
    rows = world.rows("Dog_history")
    assert [row["_seq"] for row in rows] == sorted(row["_seq"] for row in rows)
    assert {"secret", "_ts", "_origin"}.isdisjoint(rows[0])
    now = {}
    for version, key, kind, n in told:
        if kind == DELETE:
            now.pop(key, None)
        elif kind != MESSAGE:
            now[key] = n
        then = [
            row
            for row in rows
            if micros(row["valid_from"]) <= version < (micros(row["valid_to"]) or 2**62)
        ]
        assert {row["id"]: row["n"] for row in then} == now
        assert len(then) == len(now)
    assert {row["id"]: row["n"] for row in world.rows("Dog")} == now


def test_what_the_log_no_longer_has_began_when_it_was_written(world):
    """S8: a record whose events were trimmed is as it is, since its last write."""
    for n in range(4):
        write(world, "old", PUT, n)
    write(world, "new", PUT, 9)
    world.store.trim(world.tables["Dog"], Keep(0, 1, 0), 0.0, 100)
    world.export("Dog", history=True)
    rows = world.rows("Dog_history")
    assert [(row["id"], row["n"], row["_seq"], row["valid_to"]) for row in rows] == [
        ("old", 3, 4, None),
        ("new", 9, 5, None),
    ]


def test_a_table_may_be_in_the_way(tmp_path):
    """S8: two tables cannot have one name."""
    made = Exported(tmp_path, SCHEMA + "type Dog_history @table { id: ID @primaryKey }")
    try:
        with pytest.raises(Error, match="the past of Dog would be Dog_history"):
            made.export(history=True)
    finally:
        made.close()
