"""Any query of the past tells what it told then (B14, M6)."""

import json
import random

import pytest

from asgi import asgi
from build import refusal
from rowcast.core.callers import SERVER
from rowcast.core.errors import Code
from rowcast.core.events import DELETE, PATCH, PUT
from rowcast.core.moments import moment_of
from rowcast.core.queries import Query
from rowcast.features.history.past_queries import PastQueries

SCHEMA = """
type Owner @table @export {
  id: ID @primaryKey
  name: String
  dogs: [Dog] @relationship(to: "owner_id")
}
type Dog @table @export {
  id: ID @primaryKey
  name: String
  age: Int
  owner_id: ID
  owner: Owner @relationship(from: "owner_id")
}
"""
QUERIES = (
    "/Dog/?sort(age)",
    "/Dog/?sort(-age,name)&limit(1,4)",
    "/Dog/?sort(-name)&select(name,age)",
    "/Dog/?count",
    "/Dog/?age=gt=2&count",
    "/Dog/?limit(2,5)",
    "/Dog/?sort(age)&limit(3)",
    "/Dog/?group(age,count(),max(name))",
    "/Dog/?group(owner_id,avg(age),sum(age))&age=gt=1",
    "/Dog/?group(count())",
    "/Dog/?select(name,owner(name))",
    "/Dog/?owner.name=o1&select(id)",
    "/Owner/?select(name,dogs(name,age))",
    "/Owner/?dogs.age=gt=3&sort(-name)",
    "/Owner/1/dogs?sort(age)",
    "/Owner/1/dogs?count",
    "/Owner/1/dogs?group(age,count())",
    "/Dog/3/owner",
    "/Dog/3?select(name,owner(name))",
    "/Dog/3.age",
    "/Dog/.csv?sort(name)",
)


async def write(rest, chance, number):
    """Write one record at random."""
    table, top = chance.choice((("Dog", 9), ("Dog", 9), ("Owner", 3)))
    path = f"/{table}/{chance.randrange(top)}"
    kind = chance.choices((PUT, PATCH, DELETE), (6, 3, 2))[0]
    value = {"name": f"{table[0].lower()}{chance.randrange(6)}"}
    if table == "Dog":
        value |= {"age": chance.randrange(6), "owner_id": str(chance.randrange(3))}
    if kind == DELETE:
        await rest.delete(path)
    else:
        await rest.ask(kind.upper(), path, json.dumps(value).encode())


def asked(query, cursor):
    return f"{query}{'&' if '?' in query else '?'}asof={cursor}"


@pytest.mark.parametrize("seed", range(4))
async def test_m6_every_query_tells_of_the_past_what_it_told_then(seed):
    """M6, B14: random writes; order, pages, groups, counts and relationships, status and body."""
    chance = random.Random(seed)
    async with asgi(SCHEMA) as rest:
        told = []
        for number in range(36):
            await write(rest, chance, number)
            if number % 12 == 11:
                cursor = rest.kernel.head
                for query in QUERIES:
                    got = await rest.get(query)
                    told.append((query, cursor, got.status, got.body, got.headers.get("link")))
        for query, cursor, status, body, link in told:
            got = await rest.get(asked(query, cursor))
            assert status == got.status, (query, got.body)
            if status == 200:
                assert body == got.body, query
                assert bool(link) == ("link" in got.headers), query
        assert 200 in {status for _, _, status, _, _ in told}


async def test_m6_the_next_page_of_the_past_is_of_the_same_moment():
    """M6: the link has the position, so that later writes are in no page."""
    async with asgi(SCHEMA) as rest:
        for number in range(7):
            value = {"name": f"d{number}", "age": number % 3}
            await rest.put(f"/Dog/{number}", json.dumps(value).encode())
        wanted = (await rest.get("/Dog/?sort(age)")).value
        path, found = asked("/Dog/?sort(age)&limit(2)", rest.kernel.head), []
        for number in range(4):
            got = await rest.get(path)
            found += got.value
            await rest.put(f"/Dog/x{number}", b'{"age": 1}')
            path = got.headers.get("link", "<").split(">")[0][1:]
        assert wanted == found
        assert "" == path


async def test_m6_what_the_past_cannot_answer_is_refused_in_words():
    """M6, P5: too much to be sorted, and a token of nothing; a count holds no records."""
    async with asgi(SCHEMA) as rest:
        for number in range(5):
            await rest.put(f"/Dog/{number}", b'{"age": 1}')
        got = await rest.get(asked("/Dog/?sort(age)&after(nonsense)", rest.kernel.head))
        assert (400, True) == (got.status, "page token" in got.value["detail"])
        moment = moment_of(rest.kernel.head, "asof", 0.0)
        past = PastQueries(rest.kernel, moment, most=4)
        table = rest.kernel.registry.route("Dog/1").table
        assert Code.TOO_LARGE is await refusal(past.search(table, Query(), SERVER))
        assert 3 == len((await past.search(table, Query(limit=3), SERVER)).records)
        assert 5 == await past.count(table, Query(), SERVER)
