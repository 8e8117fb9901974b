"""Transactions over several tables, from outside (B22)."""

import json

import pytest

from asgi import asgi
from build import Server, refusal
from rightful import ANN as OWNER
from rightful import Rightful, person
from rowcast.codecs import CBOR, MSGPACK, encode
from rowcast.core.callers import Grants
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, Event
from rowcast.core.topics import TopicFilter
from rowcast.features.transactions.feature import Transactions
from rowcast.routes.resource import Resource
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

MOVE = [
    {"op": "patch", "topic": "Dog/1", "value": {"age": 4}},
    {"op": "put", "topic": "Note/n", "value": {"text": "moved"}, "ifNoneMatch": "*"},
    {"op": "delete", "topic": "Number/7"},
    {"op": "message", "topic": "loose/topic", "value": "done"},
    {"op": "put", "topic": "loose/kept", "value": [1]},
]


class Echo(Resource):
    """A class with code of its own."""

    async def put(self, value):
        """Do nothing."""


@pytest.fixture
async def rest():
    async with asgi(resources=[Echo]) as opened:
        Transactions(most=10).install(opened.kernel)
        await opened.put("/Dog/1", b'{"name":"Rex","age":3}')
        await opened.put("/Number/7", b"{}")
        yield opened


async def run(rest, writes, **headers):
    return await rest.post("/$tx", json.dumps(writes).encode(), **headers)


@pytest.mark.parametrize("media_type", ["application/json", CBOR, MSGPACK])
async def test_writes_of_several_tables_are_one(rest, media_type):
    """B22, C22: consecutive positions in the order of the list; an outcome for each."""
    heard = rest.listen()
    got = await rest.post("/$tx", encode(MOVE, media_type), content_type=media_type)
    assert got.status == 200
    assert [(row["topic"], row["created"]) for row in got.value] == [
        ("Dog/1", False), ("Note/n", True), ("Number/7", False), ("loose/topic", False),
        ("loose/kept", True),
    ]  # fmt: skip
    first = heard[0].seq
    assert [event.seq for event in heard] == list(range(first, first + 5))
    assert [row["position"] for row in got.value] == [rest.kernel.cursor(it.seq) for it in heard]
    assert (await rest.get("/Dog/1")).value == {"id": "1", "name": "Rex", "age": 4}
    assert (await rest.get("/Number/7")).status == 404
    assert (await rest.get("/loose/kept")).value == [1]


async def test_topics_of_the_server_name_what_can_be_written(rest):
    """B22: beside delayed writes, transactions."""
    refused = await run(rest, [{**MOVE[4], "topic": "$SYS/x"}])
    assert "and $tx, which takes a transaction" in refused.value["detail"]


@pytest.mark.parametrize(
    ("topic", "words"),
    [("Dog/2", "name"), ("$SYS/x", "the server's own"), ("Behind/1", "not offered over REST")],
)
async def test_a_refusal_names_the_write(rest, topic, words):
    """B22: also where its value or its topic alone is wrong."""
    bad = {"op": "put", "topic": topic, "value": {"age": 1}}
    told = (await run(rest, [MOVE[3], bad])).value
    assert told["index"] == 1
    assert told["detail"].startswith("nothing was written, because: write 1: ")
    assert words in told["detail"]


@pytest.mark.parametrize(
    ("bad", "status", "words"),
    [
        ({"op": "delete", "topic": "Dog/9"}, 404, "write 1: there is no record"),
        ({"op": "put", "topic": "Dog/2", "value": {"age": "x"}}, 422, "age"),
        ({"op": "put", "topic": "Dog/1", "value": {}, "ifNoneMatch": "*"}, 422, "name"),
        ({"op": "patch", "topic": "Dog/1", "value": {}, "ifMatch": "0badcafe:99"}, 412, "write 1"),
        ({"op": "patch", "topic": "Dog/1", "value": {}, "ifMatch": "deadbeef:1"}, 412, "write 1"),
        ({"op": "patch", "topic": "Dog/9", "value": {}, "ifMatch": "*"}, 412, "write 1"),
        ({"op": "put", "topic": "Echo", "value": 1}, 405, "has its own put"),
        ({"op": "put", "topic": "$SYS/x", "value": 1}, 403, "the server's own"),
        ({"op": "put", "topic": "Behind/1", "value": {}}, 404, "not offered over REST"),
        ({"op": "putt", "topic": "Dog/1"}, 400, 'mean "put"'),
        ({"op": ["put"], "topic": "Dog/1"}, 400, "there is no op"),
        ({"op": "put", "topic": "Dog/1"}, 400, "lacks the member value"),
        ({"op": "delete", "topic": "Dog/1", "value": 1}, 400, "has no value"),
        ({"op": "put", "topic": 1, "value": 1}, 400, "topic is a text"),
        ({"op": "put", "topic": "Dog/1", "value": 1, "ifMtch": 1}, 400, 'mean "ifMatch"'),
        ({"op": "put", "topic": "Dog/1", "value": 1, "ifMatch": 1}, 400, "cursor of a version"),
        ({"op": "put", "topic": "Dog/1", "value": 1, "ifNoneMatch": "x"}, 400, "ifNoneMatch"),
        ({"op": "put", "topic": "Dog/1", "value": 1, "ifNoneMatch": []}, 400, "ifNoneMatch"),
        ({"op": "message", "topic": "a", "value": 1, "ifMatch": "*"}, 400, "no conditions"),
        ({"op": "put", "topic": "Dog/1", "value": 1, "producer": "x"}, 400, "producer"),
        (7, 400, "write 1: it is no map"),
    ],
)
async def test_one_that_fails_refuses_all(rest, bad, status, words):
    """B22: the refusal says which and why, and nobody hears of the others."""
    heard = rest.listen()
    refused = await run(rest, [{"op": "put", "topic": "Note/n", "value": {"text": "x"}}, bad])
    assert (refused.status, words in refused.value["detail"]) == (status, True), refused.value
    assert heard == []
    assert (await rest.get("/Note/n")).status == 404


@pytest.mark.parametrize("value", [{}, [], None, "x", [{"op": "delete", "topic": "a"}] * 11])
async def test_what_is_no_transaction_is_refused(rest, value):
    assert (await run(rest, value)).status in {400, 422}


async def test_later_writes_see_earlier_ones(rest):
    """B22: a patch of what the transaction itself has put, on its condition."""
    got = await run(
        rest,
        [
            {"op": "put", "topic": "Dog/2", "value": {"name": "Max"}},
            {"op": "patch", "topic": "Dog/2", "value": {"age": 1}, "ifMatch": "*"},
        ],
    )
    assert got.status == 200
    assert (await rest.get("/Dog/2")).value == {"id": "2", "name": "Max", "age": 1}


async def test_a_repeat_has_no_second_effect(rest):
    """M8: by the numbers of a producer."""
    writes = [
        {"op": "put", "topic": f"Note/{n}", "value": {"text": "x"}, "producer": f"p:1:{n}"}
        for n in (1, 2)
    ]
    first, again = await run(rest, writes), await run(rest, writes)
    assert [row["position"] for row in first.value] == [row["position"] for row in again.value]


async def test_other_doors_publish_it():
    """B22: acknowledged when all is written, with the position of the last; refused with why."""
    server = Server()
    Transactions().install(server.kernel)
    writes = [{"op": "put", "topic": f"Dog/{n}", "value": {"name": "x"}} for n in (1, 2)]
    receipt = await server.say("$tx", json.dumps(writes).encode(), qos=1)
    assert (receipt.event.topic, receipt.event.seq) == ("Dog/2", 2)
    failing = [*writes, {"op": "delete", "topic": "Dog/9"}]
    assert await refusal(server.say("$tx", json.dumps(failing).encode())) is Code.NOT_FOUND
    assert server.committer.announced == 2


async def test_a_subscription_is_refused_since_nothing_is_published_there(rest):
    """P5: granted, it would be silent for ever."""
    live = Subscription(rest.kernel.reader, "c")
    for text in ("$tx", "$tx/#", "$tx/1"):
        with pytest.raises(Error, match="subscribe to the topics that these write"):
            rest.kernel.watch(live, SubscribedFilter(TopicFilter(text)), OWNER)


async def test_rights_hold_for_each_write():
    """M9: what the caller may not write refuses all; who may write nothing is refused."""
    server = Rightful()
    Transactions().install(server.kernel)
    await server.write("Dog/1", {"owner": "ben"})

    async def send(caller, *writes):
        payload = json.dumps(list(writes)).encode()
        event = Event("$tx", MESSAGE, payload, "application/json", 1, client="c")
        return await server.kernel.write(event, caller)

    mine = {"op": "put", "topic": "Dog/2", "value": {"owner": "ann"}}
    with pytest.raises(Error) as failure:
        await send(OWNER, mine, {"op": "patch", "topic": "Dog/1", "value": {"name": "x"}})
    assert failure.value.code in {Code.DENIED, Code.NOT_FOUND}
    assert await server.reader.get(server.tables[0], "Dog/2") is None
    assert (await send(OWNER, mine)).event.topic == "Dog/2"
    reader = person("ann", grants=Grants(read=True))
    assert await refusal(send(reader, mine)) in {Code.DENIED, Code.UNAUTHENTICATED}
