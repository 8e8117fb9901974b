"""Snapshots for a role (S18, M9): what it may not see is nowhere in them."""

import json
import random

import pyarrow.parquet as pq
import pytest

from exported import Exported
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PATCH, PUT
from rowcast.features.rights.access_list import AccessList, AccessRule
from rowcast_lake.snapshots.changes import export_changes
from rowcast_lake.snapshots.compaction import compact
from rowcast_lake.snapshots.export import Order, export
from rowcast_lake.snapshots.fold import differences
from rowcast_lake.snapshots.snapshot_stores import catalogue_of
from rowcast_lake.snapshots.verify import verify

SCHEMA = """
type Person @table @export @auth(read: "level < 3", roles: ["clerk"]) @auth(roles: ["boss"]) {
  id: ID @primaryKey, name: String, level: Int, phone: String @auth(roles: ["boss"])
  @auth(roles: ["clerk"], mask: "last4"), salary: Int @auth(roles: ["boss"]), pin: String @hidden
}
type Open @table @export { id: ID @primaryKey, n: Int }
type Free @table @export
type Mine @table @export @auth(read: "owner == $user") { id: ID @primaryKey, owner: String }
"""
JSON = "application/json"


@pytest.fixture
def world(tmp_path):
    made = Exported(tmp_path, SCHEMA)
    for n in range(5):
        value = {
            "name": f"n{n}", "level": n, "phone": f"0711-{n}234", "salary": 5_000_000 + n,
            "pin": "s3cret", "note": f"x{n}",
        }  # fmt: skip
        made.put("Person", f"p{n}", value)
    made.put("Open", "1", {"n": 1})
    made.put("Free", "j", {"a": 1}, payload=b'{"a": 1}', content_type=JSON)
    made.put("Free", "b", payload=b"\xff", content_type="image/png")
    made.put("Mine", "1", {"owner": ""})
    rule = {"filter": "home/attic/#", "effect": "deny", "actions": ["read"], "roles": ["clerk"]}
    made.put(None, "$SYS/rules/attic", payload=json.dumps(rule).encode(), content_type=JSON)
    few = {"filter": "Open/#", "actions": ["read"], "roles": ["clerk"], "where": "n < 3"}
    made.put(None, "$SYS/rules/few", payload=json.dumps(few).encode(), content_type=JSON)
    made.put("Open", "5", {"n": 5})
    made.put(None, "home/attic/t", payload=b"7")
    made.put(None, "home/hall/t", payload=b"8")
    yield made
    made.close()


def test_a_role_gets_what_it_may_see(world):
    """S18, M9: rows left out, attributes left out, others masked; topics by their rules."""
    made = world.export(audience="clerk")
    verify(made.place)
    people = world.rows("Person")
    assert [(row["id"], row["phone"], row["salary"]) for row in people] == [
        (f"p{n}", f"***{n}234"[:3] + f"{n}234"[-4:], None) for n in range(3)
    ]
    assert [row["_extra"] for row in people] == [f'{{"note":"x{n}"}}' for n in range(3)]
    assert "pin" not in people[0]
    assert [row["n"] for row in world.rows("Open")] == [1]
    assert world.rows("Mine") == []
    assert [row["topic"] for row in world.rows("_retained")] == ["home/hall/t"]
    assert not any(name.startswith("_sys") for name in made.manifest.tables)
    assert (made.manifest.audience, made.manifest.schema) == ("clerk", "")


def test_what_cannot_be_read_is_not_shown_where_a_rule_judges_it(world):
    """S18, M9: as where @auth does; a rule cannot know what is in it."""
    world.put("Free", "x", payload=b'{"secret": 1', content_type=JSON)
    rule = {"filter": "Free/#", "actions": ["read"], "roles": ["clerk"], "where": "a != 2"}
    world.put(None, "$SYS/rules/free", payload=json.dumps(rule).encode(), content_type=JSON)
    world.export(audience="clerk")
    rows = world.rows("Free")
    assert (3, False) == (len(rows), "secret" in str(rows)), rows


def test_a_role_that_nothing_knows_is_refused(world):
    """S18: a misspelt one would silently be given what everybody may see."""
    with pytest.raises(Error, match='no role clrek; did you mean "clerk"'):
        world.export(audience="clrek")
    world.export(audience="guest", roles=["guest"])


def test_another_role_gets_more(world):
    """S18: and who administers gets all but what is hidden."""
    seen = world.export(audience="boss")
    boss = world.rows("Person")
    assert [(row["phone"], row["salary"]) for row in boss] == [
        (f"0711-{n}234", 5_000_000 + n) for n in range(5)
    ]
    world.directory = world.path / "everything"
    made = world.export()
    assert made.new
    assert world.rows("Person") == boss
    for table in ("Person", "Open", "Free"):  # by the digest, it is the same whoever looks
        assert seen.manifest.tables[table].digest == made.manifest.tables[table].digest
    assert len(world.rows("Mine")) == 1


@pytest.mark.parametrize("level", ["$AUDIT/refused/value/Dog", "$SYS/users/ann", "$CONTROL/x"])
def test_what_only_administrators_read_is_for_no_other_role(tmp_path, level):
    """S18, L15: as on every door, where no rule says anything."""
    world = Exported(tmp_path, "type Open @table @export { id: ID @primaryKey, n: Int }")
    world.put(None, f"{level}/1", payload=b"secret")
    world.put(None, "home/t", payload=b"8")
    world.export(audience="clerk", roles=["clerk"])
    assert ["home/t"] == [row["topic"] for row in world.rows("_retained")]
    world.put(None, f"{level}/2", payload=b"secret")
    world.put(None, "home/t", payload=b"9")
    place = world.path / "rowcast.db", world.directory, world.schema
    export_changes(Order(*place, audience="clerk", roles=["clerk"]))
    (file,) = world.directory.glob("changes/*/_retained/*.parquet")
    assert ["home/t"] == [row["topic"] for row in pq.ParquetFile(file).read().to_pylist()]
    world.close()


def test_the_access_list_limits_a_role(world):
    """S18, G20: by its rules for anybody; what is for single users is for no role."""
    every = frozenset({"all"})
    access = AccessList([
        AccessRule("deny", every, ("home/hall/#", "Open/#")),
        AccessRule("allow", every, ("Free/#",), users=frozenset({"ann"})),
        AccessRule("allow", every, ("home/#", "Open/#", "Person/p0")),
    ])  # fmt: skip
    world.put(None, "home/other", payload=b"9")
    world.put(None, "shed/t", payload=b"9")
    world.export(audience="clerk", access=access)
    assert ["home/other"] == [row["topic"] for row in world.rows("_retained")]
    shown = {name: len(world.rows(name)) for name in ("Person", "Open", "Free")}
    assert {"Person": 1, "Open": 0, "Free": 0} == shown


def test_a_role_without_the_grant_to_read_gets_what_a_rule_allows(world):
    """S18, M9: its members are shown no more, by no door."""
    rule = {"filter": "home/hall/#", "effect": "allow", "actions": ["read"], "roles": ["clerk"]}
    world.put(None, "$SYS/rules/hall", payload=json.dumps(rule).encode(), content_type=JSON)
    world.put(None, "home/other", payload=b"9")
    world.export(audience="clerk", reads=False)
    assert ["home/hall/t"] == [row["topic"] for row in world.rows("_retained")]
    assert [1] == [row["n"] for row in world.rows("Open")]  # a rule allows it
    assert [] == world.rows("Person") + world.rows("Free")


# -- changes and history ---------------------------------------------------------------------------

STAFF = """
type Person @table @export @auth(read: "level < 3", roles: ["clerk"]) @auth(roles: ["boss"]) {
  id: ID @primaryKey, level: Int, phone: String @auth(roles: ["boss"])
  @auth(roles: ["clerk"], mask: "last4"), pay: Int @auth(roles: ["boss"]), pin: String @hidden
}
type Open @table @export { id: ID @primaryKey, n: Int }
"""


class Staff(Exported):
    """People of whom a clerk sees those of a low level."""

    def __init__(self, path):
        super().__init__(path, STAFF)
        rule = {"filter": "home/attic/#", "effect": "deny", "actions": ["read"], "roles": ["clerk"]}
        self.put(None, "$SYS/rules/attic", payload=json.dumps(rule).encode(), content_type=JSON)

    def say(self, kind, key, **value):
        payload = json.dumps(value).encode() if value else b""
        event = self.event("Person", key, kind=kind, payload=payload, content_type=JSON)
        if value:
            event.decoded = value
        self.store.commit([event])

    def order(self, audience="clerk", place="clerks", **facts):
        return Order(
            self.path / "rowcast.db", self.path / place, self.schema, audience=audience,
            roles=("clerk", "boss"), **facts,
        )  # fmt: skip


@pytest.fixture
def staff(tmp_path):
    made = Staff(tmp_path)
    yield made
    made.close()


def person(level, n):
    return {"level": level, "phone": f"0711-{n:04}", "pay": 7_000_000 + n, "pin": "s3cret"}


def told(page):
    return pq.read_table(page.place / "Person").to_pylist()


def test_changes_are_what_a_subscriber_with_the_role_is_told(staff):
    """S18, M9, L13: into sight is a put, out of it a deletion; attributes masked and left out."""
    staff.say(PUT, "a", **person(1, 1))
    staff.say(PUT, "b", **person(9, 2))
    export(staff.order())
    staff.say(PATCH, "a", **person(2, 3))
    staff.say(PATCH, "a", **person(8, 4))
    staff.say(PATCH, "a", **person(9, 5))
    staff.say(PATCH, "b", **person(0, 6))
    staff.say(DELETE, "a")
    staff.say(DELETE, "b")
    staff.put(None, "home/attic/t", payload=b"70711")
    staff.put(None, "home/hall/t", payload=b"8")
    page = export_changes(staff.order())
    rows = [(row["id"], row["_op"], row["phone"], row["pay"]) for row in told(page)]
    assert [
        ("a", "patch", "***0003", None),
        ("a", "delete", None, None),
        ("b", "put", "***0006", None),
        ("b", "delete", None, None),
    ] == rows
    topics = pq.read_table(page.place / "_retained").column("topic").to_pylist()
    assert ["home/hall/t"] == topics
    assert ("clerk", "") == (page.manifest.audience, page.manifest.schema)
    kept = b"".join(path.read_bytes() for path in (staff.path / "clerks").rglob("*.parquet"))
    text = str([told(page), pq.read_table(page.place / "_retained").to_pylist()])
    assert not any(word in text for word in ("s3cret", "700000", "0711-", "attic"))
    assert b"s3cret" not in kept


@pytest.mark.parametrize("seed", range(6))
def test_a_role_s_snapshot_and_its_changes_are_its_later_snapshot(tmp_path, seed):
    """S18, S6, M2: by digest, at random; also when its increments are merged."""
    chance, staff = random.Random(seed), Staff(tmp_path)
    names = []
    for _ in range(4):
        for n in range(chance.randrange(1, 12)):
            key = chance.choice("abcde")
            if chance.random() < 0.2 and staff.store.get(staff.tables["Person"], f"Person/{key}"):
                staff.say(DELETE, key)
            else:
                staff.say(PUT, key, **person(chance.randrange(6), n))
            staff.put("Open", key, {"n": n}, payload=b'{"n": %d}' % n, content_type=JSON)
        if names:
            export_changes(staff.order())
        names.append(export(staff.order()).place.name)
    place = staff.path / "clerks"
    compact(place, everything=True, covered_seconds=0 if seed % 2 else 1_000)
    items = catalogue_of(place).items()
    for first in names[:-1]:
        assert {} == differences(place, items, first, names[-1])
    assert {"clerk"} == {item.manifest["audience"] for item in items}
    staff.close()


def test_history_has_the_values_that_the_role_may_see(staff):
    """S18, S8, M9: each with its interval, masked; what it may not see is no row."""
    for n, level in enumerate((1, 9, 2)):
        staff.say(PUT, "a", **person(level, n))
    made = export(staff.order(history=True))
    verify(made.place)
    rows = pq.read_table(made.place / "Person_history").to_pylist()
    assert [(1, "***0000", None), (2, "***0002", None)] == [
        (row["level"], row["phone"], row["pay"]) for row in rows
    ]
    assert [2, 4] == [row["_seq"] for row in rows]
    assert rows[0]["valid_to"] is not None
    assert rows[1]["valid_to"] is None
    full = export(staff.order("boss", "bosses", history=True))
    assert 3 == pq.read_table(full.place / "Person_history").num_rows


def test_no_file_for_one_reader_is_beside_those_for_another(staff):
    """S18, M9: whoever may read a directory may read all of it, so all of it is for one role."""
    staff.say(PUT, "a", **person(1, 1))
    export(staff.order())
    for audience in ("", "boss"):
        for make in (export, export_changes):
            with pytest.raises(Error, match="has exports for the role clerk") as refused:
                make(staff.order(audience))
            assert Code.CONFLICT == refused.value.code
    export(staff.order("", "all"))
    staff.say(PUT, "a", **person(1, 2))
    with pytest.raises(Error, match="has exports of everything"):
        export_changes(staff.order("clerk", "all"))
