"""Random conditions on related records, and writes of all their tables, for live queries."""

import json

from rowcast.core.events import DELETE, PATCH, PUT, Event
from rowcast.schema import parse_schema

SCHEMA = """
type Dog @table @export {
  id: ID @primaryKey
  age: Int
  owner_id: ID @indexed
  owner: Owner @relationship(from: "owner_id")
  friend_ids: [ID]
  friends: [Dog] @relationship(from: "friend_ids")
  parent_id: ID
  parent: Dog @relationship(from: "parent_id")
}
type Owner @table @export {
  id: ID @primaryKey
  age: Int
  city_id: ID
  city: City @relationship(from: "city_id")
  dogs: [Dog] @relationship(to: "owner_id")
}
type City @table @export {
  id: ID @primaryKey
  age: Int
  owners: [Owner] @relationship(to: "city_id")
}
"""
TABLES = {table.name: table for table in parse_schema(SCHEMA).tables}
WAYS = {
    "Dog": ("owner", "friends", "parent", "owner.city", "owner.dogs", "parent.owner", "owner.city"),
    "Owner": ("city", "dogs", "dogs.friends", "dogs.owner.city", "city.owners"),
    "City": ("owners", "owners.dogs", "owners.dogs.parent"),
}
"""Where relationships lead from each table."""
KEYS = {"Dog": "12345", "Owner": "abcd", "City": "xyz"}


def random_related(chance, table, depth=0):
    """Return conditions that can be asked of the table, as a URL has them."""
    if depth < 2 and chance.random() < 0.5:
        joint = chance.choice("&|")
        parts = [random_related(chance, table, depth + 1) for _ in range(chance.randint(2, 3))]
        inner = joint.join(parts)
        return f"[{inner}]" if depth else inner
    way = chance.choice(WAYS[table]) + "." if chance.random() < 0.8 else ""
    return way + random_condition(chance)


def random_condition(chance):
    """Return a condition on an attribute that each table has."""
    return f"age{chance.choice(('=gt=', '=le=', '==', '!='))}{chance.randint(0, 3)}"


PARTS = {
    "Dog": (
        "owner(age)",
        "owner(age,city(age))",
        "friends(id,age)",
        "parent.age",
        "owner(dogs(id))",
    ),
    "Owner": ("city(age)", "dogs(id,age)", "dogs(id,parent(age))", "city"),
    "City": ("owners(id,age)", "owners(id,dogs(age))", "owners"),
}


def random_parts(chance, table):
    """Return selected parts, of the record and maybe of related ones, as a URL has them."""
    some = chance.sample(PARTS[table], chance.choice((0, 1, 1, 2)))
    ways = {part.partition("(")[0].partition(".")[0] for part in some}
    parts = some if len(ways) == len(some) else some[:1]
    own = ["id"] if parts and chance.random() < 0.5 else ["id", "age"]
    return f"select({','.join([*own, *parts])})"


def random_write_of_any(chance):
    """Return an event at one of few records of the tables."""
    name = chance.choice(list(KEYS))
    kind = chance.choices((PUT, PATCH, DELETE), (6, 5, 2))[0]
    value = {}
    for attribute in TABLES[name].attributes[1:]:
        if chance.random() < 0.6 and attribute.relationship is None:
            value[attribute.name] = None if chance.random() < 0.1 else _some(chance, attribute.name)
    topic = TABLES[name].topic(chance.choice(KEYS[name]))
    if kind == DELETE:
        return Event(topic, DELETE, b"", None, 1, True)
    return Event(topic, kind, json.dumps(value).encode(), "application/json", 1, True)


def _some(chance, name):
    if name == "age":
        return chance.randint(0, 4)
    if name == "friend_ids":
        return [chance.choice("123459") for _ in range(chance.randrange(3))]
    return chance.choice({"owner_id": "abcde", "city_id": "xyzw", "parent_id": "123456"}[name])


def ruled():
    """Return the tables with rules about their records."""
    text = SCHEMA
    for name, rule in (("Owner", "age != 2"), ("City", "age != 1"), ("Dog", "age != 0")):
        auth = f'@auth(read: "$id == $user || {rule}") @auth(roles: ["vet"], read: "age != 3")'
        text = text.replace(f"type {name} @table @export", f"type {name} @table @export {auth}")
    return {table.name: table for table in parse_schema(text).tables}
