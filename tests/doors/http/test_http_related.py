"""Relationships over REST: followed in select, in conditions, and by their path (A9, B8)."""

import json

import pytest

from asgi import asgi
from rightful import ANN as OWNER
from rightful import VET, Rightful
from rowcast.codecs import CBOR, JSON, MSGPACK, NDJSON
from rowcast.core.errors import Code, Error
from rowcast.core.evaluation import project
from rowcast.core.query_text import parse_query
from rowcast.kernel.related_reads import RelatedReads

SCHEMA = """
type City @table @export { id: ID @primaryKey name: String country: String }
type Owner @table @export {
  id: ID @primaryKey
  name: String
  born: Date
  pin: String @hidden
  city_id: ID
  city: City @relationship(from: "city_id")
  dogs: [Dog] @relationship(to: "owner_id")
}
type Dog @table @export {
  id: ID @primaryKey
  name: String
  age: Int
  owner_id: ID @indexed
  owner: Owner @relationship(from: "owner_id")
  friend_ids: [ID]
  friends: [Dog] @relationship(from: "friend_ids")
  key: ID @hidden
  safe: Owner @relationship(from: "key")
  behind_id: ID
  behind: Behind @relationship(from: "behind_id")
}
type Behind @table @export(rest: false) { id: ID @primaryKey }
"""
RECORDS = {
    "City/b": {"name": "Bonn", "country": "de"},
    "City/p": {"name": "Paris", "country": "fr"},
    "Owner/ann": {"name": "Ann", "city_id": "b", "born": "2001-02-03T00:00:00Z", "pin": "1"},
    "Owner/ben": {"name": "Ben", "city_id": "p"},
    "Dog/1": {"name": "Rex", "age": 3, "owner_id": "ann", "friend_ids": ["2", "9", "3"]},
    "Dog/2": {"name": "Max", "age": 5, "owner_id": "ben"},
    "Dog/3": {"name": "Ada", "age": 7, "owner_id": "ann", "key": "ann"},
    "Dog/4": {"name": "Bo", "owner_id": "nobody", "behind_id": "x"},
    "Dog/a/5": {"name": "Cy"},
}


@pytest.fixture
async def rest():
    async with asgi(SCHEMA) as opened:
        for topic, value in RECORDS.items():
            await opened.put(f"/{topic}", json.dumps(value).encode())
        yield opened


async def value(rest, path, **headers):
    got = await rest.get(path, **headers)
    assert got.status == 200, got.body
    return got.value


# -- select ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["owner(name)", "owner{name}", "owner.name"])
async def test_a_relationship_is_selected(rest, text):
    """A9: the other record's parts; null where it leads to none."""
    assert await value(rest, f"/Dog/?select(name,{text})") == [
        {"name": "Rex", "owner": {"name": "Ann"}},
        {"name": "Max", "owner": {"name": "Ben"}},
        {"name": "Ada", "owner": {"name": "Ann"}},
        {"name": "Bo", "owner": None},
        {"name": "Cy", "owner": None},
    ]


@pytest.mark.parametrize("media_type", [JSON, CBOR, MSGPACK, NDJSON])
async def test_whole_records_and_lists(rest, media_type):
    """A9: many to one, one to many, and a list of keys in its order; values of their types."""
    path = "/Owner/?name=Ann&select(dogs(id,friends(name,owner(name))))"
    friends = [
        {"name": "Max", "owner": {"name": "Ben"}},
        {"name": "Ada", "owner": {"name": "Ann"}},
    ]
    assert await value(rest, path, accept=media_type) == [
        {"dogs": [{"id": "1", "friends": friends}, {"id": "3", "friends": []}]}
    ]
    whole = await value(rest, "/Dog/?id=2&select(owner)", accept=media_type)
    assert whole == [{"id": "ben", "name": "Ben", "city_id": "p"}]


async def test_the_depth_is_bounded(rest):
    """A9: tables lead in circles."""
    deep = "/Dog/?select(id,owner(dogs(owner(name))))"
    (first, *_) = await value(rest, deep)
    assert first["owner"]["dogs"][0] == {"owner": {"name": "Ann"}}
    for path in (
        "/Dog/?select(owner(dogs(owner(dogs))))",
        "/Dog/?owner.dogs.owner.dogs.age=1",
    ):
        refused = await rest.get(path)
        assert (refused.status, "more than 3 relationships" in refused.value["detail"]) == (
            400,
            True,
        )


async def test_one_record_with_its_relationships(rest):
    got = await rest.get("/Dog/1?select(name,owner(name,born),friends(name))")
    assert got.value == {
        "name": "Rex",
        "owner": {"name": "Ann", "born": "2001-02-03T00:00:00Z"},
        "friends": [{"name": "Max"}, {"name": "Ada"}],
    }
    again = await rest.get("/Dog/1?select(owner(name))", if_none_match=got.etag)
    assert again.status == 200  # the owner may have changed without the dog
    assert await value(rest, "/Owner/ann?select(dogs(name))") == {
        "dogs": [{"name": "Rex"}, {"name": "Ada"}]
    }


async def test_a_page_is_one_statement_for_each_relationship(rest):
    """A9: many lookups are one, not N."""
    asked = []
    search = rest.kernel.search

    async def counted(table, query, caller):
        asked.append(table.name)
        return await search(table, query, caller)

    rest.kernel.search = counted
    await value(rest, "/Dog/?select(owner(city(name)),friends(name))")
    assert asked == ["Dog", "Owner", "City", "Dog"]


# -- conditions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("owner.name==Ann", ["1", "3"]),
        ("owner.city.name==Bonn", ["1", "3"]),
        ("owner.city.name!=Bonn", ["2"]),
        ("owner.name==Ann&age=gt=3", ["3"]),
        ("[owner.name==Ben|name==Cy]", ["2", "a/5"]),
        ("owner.born=gt=2000-01-01", ["1", "3"]),
        ("friends.name==Ada", ["1"]),
        ("friends.owner.name==Ben", ["1"]),
        ("owner.name==Nobody", []),
        ("owner.name=sw=A&name=ew=x", ["1"]),
    ],
)
async def test_conditions_on_another_table(rest, query, ids):
    """A9, B8: they hold if a related record matches."""
    assert [row["id"] for row in await value(rest, f"/Dog/?{query}")] == ids
    assert (await value(rest, f"/Dog/?{query}&count"))["count"] == len(ids)


async def test_conditions_on_many(rest):
    assert await value(rest, "/Owner/?dogs.age=gt=6&select(name)") == ["Ann"]
    assert await value(rest, "/City/?name=Bonn&group(count())") == [{"count()": 1}]
    assert await value(rest, "/Dog/?owner.city.country=fr&group(owner_id,count())") == [
        {"owner_id": "ben", "count()": 1}
    ]


async def test_writes_by_query_follow_them(rest):
    """B12."""
    assert (await rest.patch("/Dog/?owner.name==Ann", b'{"age":1}')).value["count"] == 2
    assert (await rest.delete("/Dog/?owner.city.name==Paris")).value["count"] == 1


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/Dog/?owner.nam==x", 'no attribute "nam"'),
        ("/Dog/?owner.pin==1", 'no attribute "pin"'),
        ("/Dog/?owner==ann", "can be compared here, such as owner_id"),
        ("/Dog/?select(owner(pin))", 'no attribute "pin"'),
        ("/Dog/?safe.name==Ann", "only stored attributes can be compared (at"),
        ("/Dog/?select(name,safe(name))", "relationship"),
        ("/Dog/?select(behind(id))", "relationship"),
        ("/Dog/?sort(owner.name)", "relationship"),
        ("/Dog/?select(name,owner(name)", "not closed"),
    ],
)
async def test_what_cannot_be_followed_is_told(rest, path, words):
    """P5, L13: hidden attributes lead nowhere, and excluded tables are not there."""
    refused = await rest.get(path)
    assert refused.status == 400
    assert words in refused.value["detail"].replace("'", '"'), refused.value


@pytest.mark.parametrize(
    ("path", "owner", "name", "near"),
    [
        ("/Dog/?select(age,owner(nam))", "Owner", "nam", "name"),
        ("/Dog/?select(owner{nam})&limit(2)", "Owner", "nam", "name"),
        ("/Dog/1?select(age,owner(nam))", "Owner", "nam", "name"),
        ("/Dog/?select(age,owner(city(nam)))", "City", "nam", "name"),
        ("/Owner/?select(dogs(friends(agee)))", "Dog", "agee", "age"),
        ("/Dog/?select(age,owned(name))", "Dog", "owned.name", "owner"),
        ("/Dog/1?select(age,owned(name))", "Dog", "owned.name", "owner"),
    ],
)
async def test_p5_a_part_that_no_related_record_has_is_refused(rest, path, owner, name, near):
    """P5: as one of the table itself is; what some record has is no mistake."""
    refused = await rest.get(path)
    assert refused.status == 400, refused.value
    told = f"{owner} declares no attribute {name!r}, and no record has one"
    assert refused.value["detail"] == f'{told}; did you mean "{near}"?'


async def test_p5_an_undeclared_part_of_a_related_record_is_told(rest):
    await rest.put("/Owner/cy", b'{"nam": "C."}')
    assert (await value(rest, "/Dog/?select(owner(nam))"))[0] == {"owner": {}}


# -- paths -----------------------------------------------------------------------------------------


async def test_a_relationship_has_a_path(rest):
    """B8: of one record the other, with its ETag; of many a collection with queries."""
    got = await rest.get("/Dog/1/owner")
    assert (got.value["id"], got.etag) == ("ann", (await rest.get("/Owner/ann")).etag)
    assert await value(rest, "/Dog/1/owner?select(name)") == "Ann"
    dogs = await value(rest, "/Owner/ann/dogs?age=gt=3&select(name,owner(name))")
    assert dogs == [{"name": "Ada", "owner": {"name": "Ann"}}]
    assert (await value(rest, "/Owner/ann/dogs?count"))["count"] == 2
    assert [row["id"] for row in await value(rest, "/Dog/1/friends")] == ["2", "3"]
    for path in ("/Dog/4/owner", "/Dog/9/owner", "/Dog/a/5/owner", "/Dog/1/behind", "/Dog/3/safe"):
        assert (await rest.get(path)).status == 404
    await rest.put("/Dog/1/owner", b'{"name":"a dog of that id"}')
    assert await value(rest, "/Dog/1/owner?select(name)") == "a dog of that id"


@pytest.mark.parametrize("words", ["last=3", "from=-1h", "every=1m&fn=count&from=-1h"])
@pytest.mark.parametrize("path", ["/Dog/1/owner", "/Owner/ann/dogs"])
async def test_p5_a_relationship_has_no_history(rest, path, words):
    """B13, P5: it was the history of a topic of that name, at which nothing happens."""
    refused = await rest.get(f"{path}?{words}")
    assert (refused.status, "is a relationship" in refused.value["detail"]) == (400, True)
    await rest.put(path, b'{"name":"a record of that id"}')
    assert len(await value(rest, f"{path}?last=3")) == 1


# -- rights and bounds -----------------------------------------------------------------------------

OWNED = """
type Dog @table @export {
  id: ID @primaryKey name: String owner_id: ID
  owner: Owner @relationship(from: "owner_id")
}
type Owner @table @export
  @auth(read: "name == $user") @auth(roles: ["vet"], mask: {phone: "last4"}) {
  id: ID @primaryKey name: String phone: String
}
"""


async def asked(server, text, caller):
    table = server.tables[0]
    query = parse_query(text, table, tables=server.registry.related)
    query = await server.kernel.related.resolved(query, caller)
    page = await server.kernel.search(table, query, caller)
    joined = await server.kernel.related.joined(table, query.select, page.records, caller, JSON)
    return [
        project(query.select, server.kernel.transcoder.value(it) | joined[it.topic], it.topic)
        for it in page.records
    ]


@pytest.mark.parametrize(
    ("path", "first"),
    [("/Owner/ann/dogs/1", "/Owner/ann/dogs"), ("/Dog/1/owner/dogs", "/Dog/1/owner")],
)
async def test_a_path_beyond_a_relationship_is_told_where_it_ends(rest, path, first):
    got = await rest.get(path)
    assert got.status == 404
    assert f"a path ends with its first relationship, at {first!r}" in got.value["detail"]


async def test_rights_of_the_other_table_hold():
    """M9, L12: another's owner is as absent; what is masked is neither shown nor compared."""
    server = Rightful(OWNED)
    for name in ("ann", "ben"):
        await server.write(f"Owner/{name}", {"name": name, "phone": "0123456789"})
        await server.write(f"Dog/{name}s", {"name": f"{name}s", "owner_id": name})
    assert await asked(server, "select(name,owner(name))", OWNER) == [
        {"name": "anns", "owner": {"name": "ann"}},
        {"name": "bens", "owner": None},
    ]
    assert len(await asked(server, "owner.name=sw=", OWNER)) == 1
    assert len(await asked(server, "owner.name=sw=", VET)) == 2
    (first, _) = await asked(server, "select(name,owner(phone))", VET)
    assert first["owner"]["phone"].endswith("6789")
    assert "012345" not in first["owner"]["phone"]
    with pytest.raises(Error, match="that you may compare"):
        await asked(server, "owner.phone==0123456789", VET)


async def test_too_many_are_refused(rest):
    """P2."""
    kernel = rest.kernel
    related = RelatedReads(kernel, kernel.transcoder, most=1)
    table = rest.kernel.registry.related["Dog"]
    for text in ("owner.name!=x", "select(owner)"):
        query = parse_query(text, table, tables=kernel.registry.related)
        caller = rest.edge.caller({"client": ("127.0.0.1", 0)}, "http")
        with pytest.raises(Error, match="more than 1 records of Owner") as failure:
            query = await related.resolved(query, caller)
            page = await kernel.search(table, query, caller)
            await related.joined(table, query.select, page.records, caller, JSON)
        assert failure.value.code is Code.INVALID
