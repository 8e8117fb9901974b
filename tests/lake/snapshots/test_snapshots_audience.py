"""Snapshots for a role (S18, M9): what it may not see is nowhere in them."""

import json

import pytest

from exported import Exported
from rowcast.core.errors import Error
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
    made = world.export()
    assert made.new
    assert world.rows("Person") == boss
    for table in ("Person", "Open", "Free"):  # by the digest, it is the same whoever looks
        assert seen.manifest.tables[table].digest == made.manifest.tables[table].digest
    assert len(world.rows("Mine")) == 1
