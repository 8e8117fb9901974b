"""Tables of one name in several databases, at the door (A6)."""

from datetime import UTC, datetime

import pytest

from build import refusal
from rightful import BEN, VET, Rightful
from rowcast.core.callers import SERVER
from rowcast.core.errors import Code

SCHEMA = """
type Dog @table(database: "a") @export(name: "a-dogs") @sealed @auth(roles: ["vet"]) {
  id: ID @primaryKey
  at: Date
}
type Dog2 @table(database: "b", table: "Dog") @export(name: "b-dogs") @sealed {
  id: ID @primaryKey
  at: String
}
"""
TIME = "2030-01-31T12:00:00Z"


@pytest.fixture
async def world():
    made = Rightful(SCHEMA)
    for path in ("a-dogs", "b-dogs"):
        await made.write(f"{path}/1", {"at": TIME})
    return made


async def test_the_registry_has_the_shape_of_each(world):
    """A6."""
    registry = world.registry
    assert {"a.Dog", "b.Dog"} <= set(registry.shapes)
    assert ["a", "b"] == [registry.route(f"{path}-dogs/1").table.database for path in "ab"]


async def test_values_are_of_the_types_of_their_own_table(world):
    """A6."""
    values = [(await world.value(f"{path}-dogs/1", SERVER))["at"] for path in "ab"]
    assert [datetime(2030, 1, 31, 12, tzinfo=UTC), TIME] == values


async def test_who_may_see_one_is_not_about_the_other(world):
    """A6, L7: the @auth of a table is its own."""
    assert Code.DENIED == await refusal(world.kernel.read("a-dogs/1", BEN))
    assert [TIME, {"id": "1", "at": TIME}] == [
        (await world.value("a-dogs/1", VET))["at"].strftime("%Y-%m-%dT%H:%M:%SZ"),
        await world.value("b-dogs/1", BEN),
    ]
