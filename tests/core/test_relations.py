"""Relationships in queries: how they are named, and where they lead (A9)."""

import pytest

from rowcast.core.conditions import Condition, Group, Operator, holds
from rowcast.core.errors import Error
from rowcast.core.queries import Projection, RelatedSelect, Select
from rowcast.core.query_text import parse_query
from rowcast.core.relations import RelatedKeys, Relation, related_conditions, relation_of
from rowcast.core.tables import Attribute, Table, Type

KEY = Attribute("id", Type.ID, primary_key=True)


def leading(name, table, end, through, *, many=False, **more):
    kind = Type.LIST if many else Type.OBJECT
    return Attribute(name, kind, type_name=table, relationship=(end, through), **more)


DOG = Table(
    "Dog",
    "Dog",
    (
        KEY,
        Attribute("name", Type.STRING),
        Attribute("owner_id", Type.ID),
        Attribute("secret_id", Type.ID, hidden=True),
        Attribute("friend_ids", Type.LIST, items=Attribute("", Type.ID)),
        leading("owner", "Owner", "from", "owner_id"),
        leading("shy", "Owner", "from", "owner_id", hidden=True),
        leading("safe", "Owner", "from", "secret_id"),
        leading("friends", "Dog", "from", "friend_ids", many=True),
        leading("lost", "Gone", "from", "owner_id"),
        leading("inner", "Inner", "from", "owner_id"),
        leading("twin", "Dog", "from", "id"),
    ),
)
OWNER = Table(
    "Owner",
    "Owner",
    (
        KEY,
        Attribute("name", Type.STRING),
        leading("dogs", "Dog", "to", "owner_id", many=True),
        leading("secrets", "Dog", "to", "secret_id", many=True),
        leading("nothing", "Gone", "to", "x", many=True),
    ),
)
TABLES = {"Dog": DOG, "Owner": OWNER, "Inner": Table("Inner", None)}
ID, OWNER_ID = ("$id",), ("owner_id",)


def parse(text, table=DOG):
    return parse_query(text, table, tables=TABLES)


@pytest.mark.parametrize(
    ("table", "name", "expected"),
    [
        (DOG, "owner", Relation("owner", OWNER, OWNER_ID, ID, False)),
        (DOG, "twin", Relation("twin", DOG, ID, ID, False)),
        (DOG, "friends", Relation("friends", DOG, ("friend_ids",), ID, True, True)),
        (OWNER, "dogs", Relation("dogs", DOG, ID, OWNER_ID, True)),
        (DOG, "name", None),
        (DOG, "none", None),
        (DOG, "shy", None),
        (DOG, "safe", None),
        (DOG, "lost", None),
        (DOG, "inner", None),
        (OWNER, "secrets", None),
        (OWNER, "nothing", None),
    ],
)
def test_where_they_lead(table, name, expected):
    """A9: hidden ends, unknown tables, and tables that are not exported lead nowhere."""
    assert relation_of(table, name, TABLES) == expected


def test_the_keys_of_a_record():
    owner, friends = (relation_of(DOG, name, TABLES) for name in ("owner", "friends"))
    assert owner.keys({"owner_id": "a"}, "1") == ["a"]
    assert owner.keys({}, "1") == []
    assert owner.keys({"owner_id": ["a"]}, "1") == [["a"]]
    assert friends.keys({"friend_ids": ["a", None, "b"]}, "1") == ["a", "b"]
    assert friends.keys({"friend_ids": "a"}, "1") == ["a"]


def test_a_condition_stands_for_the_keys():
    query = parse("owner.name==Ann&name=x")
    assert isinstance(query.where, Group)
    (found,) = related_conditions(query.where)
    relation = relation_of(DOG, "owner", TABLES)
    inner = Condition(("name",), Operator.EQ, "Ann")
    assert found == Condition(OWNER_ID, Operator.IN, RelatedKeys(relation, inner))
    assert not holds(found, {"owner_id": "a"}, "1")
    assert not any(related_conditions(None))


def test_a_range_does_not_go_on_after_one():
    """The other end of a range needs its name again."""
    with pytest.raises(Error):
        parse("owner.name=gt=a&=lt=b")
    assert isinstance(parse("owner.name=gt=a&owner.name=lt=b").where, Group)


def test_selects():
    owner, dogs = relation_of(DOG, "owner", TABLES), relation_of(OWNER, "dogs", TABLES)
    names = Select((("name",),))
    assert parse("select(name,owner(name))").select == Select(
        (("name",), ("owner",)), Projection.OBJECT, (RelatedSelect(owner, names),)
    )
    assert parse("select(owner)").select == Select(
        (("owner",),), Projection.VALUE, (RelatedSelect(owner),)
    )
    assert parse("select([owner.name,owner.id])").select == Select(
        (("owner",),), Projection.ARRAY, (RelatedSelect(owner, Select((("name",), ("id",)))),)
    )
    inner = Select((("dogs",),), Projection.OBJECT, (RelatedSelect(dogs, names),))
    assert parse("select(owner(dogs(name)))").select.related == (RelatedSelect(owner, inner),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("owner.dogs.owner.dogs.name=1", "more than 3 relationships"),
        ("select(owner(dogs(owner(dogs))))", "more than 3 relationships"),
        ("select(safe(name))", "relationship"),
        ("select(owner(name)", "not closed"),
        ("owner==1", "only stored attributes"),
    ],
)
def test_mistakes(text, words):
    """P5."""
    with pytest.raises(Error) as failure:
        parse(text)
    assert words in failure.value.message


def test_without_tables_nothing_is_followed():
    """Where records of other tables cannot be read, a relationship is refused as before."""
    with pytest.raises(Error, match="only stored attributes"):
        parse_query("owner.name==Ann", DOG)
    with pytest.raises(Error, match="only stored attributes"):
        parse_query("select(owner(name))", DOG)
