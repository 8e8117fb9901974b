"""Live queries of the records of a relationship, and of ids that begin alike (M3, A9)."""

import pytest
from query_readers import DOORS, Mqtt, OldMqtt, Sse, Ws, query_server
from related_dogs import SCHEMA, put, related, some_dogs, watch
from related_queries import ruled
from related_readers import run_relationship

from asgi import Asgi
from build import turns
from mqtt_server import Connect, Peer, Publish, Suback, Subscribe, Subscription, user
from rowcast.codecs import decode
from rowcast.core.callers import ALL, Caller, Grants
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, Event
from rowcast.features.live_queries.feature import LiveQueriesOfTables
from rowcast.schema import parse_schema

ANY = Caller("a", ALL, "sse")
READS = Grants(read=True)
GONE = Event("Owner/ann", DELETE, b"", None, 1, True)


def dogs_of(owner, text=SCHEMA, **options):
    """Return a server with owners and their dogs, and readers of the dogs of one."""
    dog, *others = parse_schema(text).tables
    return query_server(dog, others=others, at=f"Owner/{owner}/dogs", **options)


@pytest.mark.parametrize("seed", range(10))
async def test_m3_a9_each_door_holds_what_rest_answers(seed):
    """M3, A9: after each write of any table, and after cuts; nobody has to begin anew."""
    assert "reset" not in await run_relationship(seed, writes=40, cuts=8)


@pytest.mark.parametrize("seed", range(6))
async def test_m3_m9_within_the_rights_of_the_caller(seed):
    """M3, M9: a record that it may not read leads to none, as over REST."""
    rights = {"tables": ruled(), "caller": Caller("vi", READS, roles=frozenset({"vet"}))}
    await run_relationship(seed, writes=40, cuts=4, **rights)


@pytest.mark.parametrize("door", DOORS)
async def test_m3_a9_dogs_of_one_owner(door):
    """M3, A9: they come and go with their owner, and with its record."""
    async with dogs_of("ann") as opened:
        await some_dogs(opened)
        await opened.open("age=gt=1", [door])
        (reader,) = opened.readers
        assert {"Dog/2"} == reader.records.keys()
        for event in (
            put("Dog/3", age=3, owner_id="ann"),
            put("Dog/2", age=2, owner_id="ben"),
            put("Owner/ann", name="Ann"),
            put("Owner/ben", name="Ben"),
            GONE,
            put("Owner/ann", name="Ann"),
        ):
            await opened.write(event)
            await opened.settle()
            await opened.check()
    if door is not OldMqtt:
        steps = ["snapshot", "enter", "leave", "leave", "enter"]
        assert steps == [kind for kind in reader.heard if kind != "current"]


async def test_m3_a9_the_address_of_a_relationship_needs_no_conditions():
    """M3, A9: a stream of it has what GET answers there, not the events of a topic."""
    async with dogs_of("ann") as opened:
        await some_dogs(opened)
        await opened.open("", [Sse])
        assert {"Dog/1", "Dog/2"} == opened.readers[0].records.keys()
        await opened.write(put("Dog/1", age=1, owner_id="ben"))
        await opened.settle()
        await opened.check()
        assert {"Dog/2"} == opened.readers[0].records.keys()


@pytest.mark.parametrize("door", [Sse, Ws, Mqtt])
async def test_m3_a9_an_id_with_signs_of_conditions(door):
    """M3, A9: the id is not taken for conditions."""
    async with dogs_of("a=b/c&d") as opened:
        opened.at = "Owner/a=b/c&d/dogs"
        await opened.write(put("Owner/a=b/c&d", name="X"))
        await opened.write(put("Dog/1", age=3, owner_id="a=b/c&d"))
        if door is Mqtt:
            text = "$query/Owner/a%3Db/c%26d/dogs/age=gt=1"
            _, heard = await watch(opened.server.kernel, text, ANY)
            assert [("snapshot", "Dog/1"), ("current", "")] == await heard()
            return
        opened.conditions = "age=gt=1"
        reader = door(opened)
        await reader.ask(opened.conditions)
        opened.readers.append(reader)
        await opened.settle()
        assert {"Dog/1"} == reader.records.keys()


@pytest.mark.parametrize(
    "text",
    [
        "$query/Owner/ann/dogs/age=gt=1",
        "$query/Owner/ann/dogs/age%3Dgt%3D1",
        "Owner/ann/dogs/+?age>1",
        "/Owner/ann/dogs/+?age>1",
        "$query/Owner/ann/dogs/age=gt=1&sort(-age)&limit(5)",
    ],
)
async def test_m3_a9_mqtt_has_spellings_of_it(text):
    """M3, A9: each is the same query."""
    async with related() as opened:
        await some_dogs(opened)
        peer = Peer(opened.server, 5)
        peer.send(Connect(5, "c"), Subscribe(7, (Subscription(text, 1),)))
        await turns(40)
        answer = peer.heard()
        assert [1] == [packet.reasons[0] for packet in answer if isinstance(packet, Suback)], answer
        assert ["Dog/2"] == [packet.topic for packet in answer if isinstance(packet, Publish)]
        await opened.write(put("Dog/2", age=2, owner_id="ben"))
        await turns(40)
        (left,) = peer.heard()
        assert ("Dog/2", b"", "leave") == (left.topic, left.payload, user(left, "op"))
        peer.lose()


async def test_m3_a9_a_write_of_another_owner_costs_nothing_more():
    """M3: the id is a condition of the index."""
    async with related() as opened:
        await some_dogs(opened)
        kernel = opened.server.kernel
        await watch(kernel, "$query/Owner/ann/dogs/age=gt=1", ANY)
        owners = kernel.views.queries._tables["Owner"]
        receipt = await kernel.write(put("Owner/ben", name="Ben"), ANY)
        assert {} == owners.matches(receipt.event)


async def test_m3_ids_that_begin_alike():
    """M3: as GET /Dog/a/?age=gt=1 answers, on each spelling."""
    async with related() as opened:
        for name in ("a/1", "a/2", "ab"):
            await opened.write(put(f"Dog/{name}", age=len(name)))
        rest = await opened.rest.get("/Dog/a/?age=gt=1")
        assert ["a/1", "a/2"] == [row["id"] for row in rest.value]
        _, heard = await watch(opened.server.kernel, "$query/Dog/a/age=gt=1", ANY)
        assert ["Dog/a/1", "Dog/a/2", ""] == [topic for _, topic in await heard()]
        await opened.write(put("Dog/b", age=5))
        await opened.write(put("Dog/a/1", age=0))
        assert [("leave", "Dog/a/1")] == await heard()


# -- refusals --------------------------------------------------------------------------------------

MASK = '@auth(roles: ["vet"], mask: {dog_ids: "null"})'
MASKED = SCHEMA.replace('to: "owner_id")', 'from: "dog_ids")\n dog_ids: [ID]').replace(
    "type Owner @table @export", f"type Owner @table @export {MASK}"
)


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("Dog/1/owner", "age=gt=1", "is one record, which has no conditions; subscribe to a query"),
        ("Owner/ann/dogs", "group(age,count())", "neither groups nor counts; GET the same"),
        ("Owner/ann/dogs", "count", "neither groups nor counts; GET the same"),
        ("Owner/ann/dogs", "sum(age)", "neither groups nor counts; GET the same"),
        ("Dog", "group(age,count())", "neither groups nor counts; GET the same"),
        ("Dog", "age=gt=1&asof=-1h", "a stream has no asof"),
        ("Owner/ann/dogs", "every=1m", "for an attribute 'every' write every=="),
        ("Owner/ann/dogs", "sort(age)", "no order without a limit"),
        ("Owner/ann/dogs", "age=gt=x", "age"),
    ],
)
async def test_m3_a9_what_cannot_be_asked_is_one_sentence(path, text, words):
    """M3, P5: over MQTT and SSE; where it is no path of records, SSE says what is one."""
    async with related() as opened:
        with pytest.raises(Error, match=words) as refused:
            await watch(opened.server.kernel, f"$query/{path}/{text}", ANY)
        assert Code.INVALID == refused.value.code
        at = path if path.endswith("dogs") else f"{path}/"
        answer = await opened.rest.get(f"/{at}?{text}", accept="text/event-stream")
        assert decode(answer.body, "application/json")["detail"] == refused.value.message


async def test_p5_the_slash_that_a_filter_of_a_relationship_lacks_is_named():
    async with related() as opened:
        with pytest.raises(Error, match="dogs is a relationship of Owner"):
            await watch(opened.server.kernel, "$query/Owner/ann/dogs", ANY)
        await some_dogs(opened)
        _, heard = await watch(opened.server.kernel, "$query/Owner/ann/dogs/", ANY)
        assert ["Dog/1", "Dog/2", ""] == [topic for _, topic in await heard()]


async def test_m3_a_named_query_may_compare_an_attribute_that_is_named_like_a_parameter():
    """M3: nobody could mean the parameter in a schema, where the server has accepted it."""
    named = SCHEMA.replace("age: Int", "age: Int every: String", 1)
    async with related(named + 'query Daily @query(table: "Dog", where: "every=1d")') as opened:
        await opened.write(put("Dog/1", every="1d"))
        _, heard = await watch(opened.server.kernel, "$query/Daily", ANY)
        assert ["snapshot", "current"] == [kind for kind, *_ in await heard()]


@pytest.mark.parametrize("path", ["Owner/ann/dog", "Dog/1/owner", "Owner/ann"])
async def test_m3_a9_conditions_at_no_collection(path):
    """M3, P5: a misspelt parameter, or relationship, is named with what there is."""
    async with related() as opened:
        rest = Asgi(opened.edge, opened.server.store)
        answer = await rest.get(f"/{path}?age=gt=1", accept="text/event-stream")
        told = decode(answer.body, "application/json")
        assert (400, "invalid") == (answer.status, told["code"])
        assert "follow the path of a table, as in /Sensor/?temp=gt=80" in told["detail"]
        assert "or of a relationship to several records" in told["detail"]


async def test_m3_m9_not_by_what_the_caller_may_not_see():
    """M3, L13: a masked list of keys leads to nothing that one could find out."""
    vet = Caller("vi", READS, "sse", roles=frozenset({"vet"}))
    schema = parse_schema(MASKED)
    dog, *others = schema.tables
    async with query_server(dog, others=others, features=[LiveQueriesOfTables()]) as opened:
        with pytest.raises(Error, match="may compare"):
            await watch(opened.server.kernel, "$query/Owner/ann/dogs/age=gt=1", vet)
