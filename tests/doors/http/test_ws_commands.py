"""What a client may say on a WebSocket, and how it is answered (C10, C11, C19, C20)."""

import asyncio

import pytest
from websockets.exceptions import ConnectionClosed

from http_server import HttpServer, ask, hear, say
from rowcast.codecs import decode
from rowcast.core.callers import NONE
from rowcast.core.events import PUT
from rowcast.routes.resource import Resource
from serving import PATIENCE_SECONDS


@pytest.fixture
async def doors(request):
    async with HttpServer(settings=getattr(request, "param", None)) as running:
        yield running


async def end_of(connecting):
    """Return the code and the reason with which the server closes."""
    async with connecting as peer:
        with pytest.raises(ConnectionClosed) as caught:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    await peer.recv()
    return caught.value.rcvd.code, caught.value.rcvd.reason


# -- commands -------------------------------------------------------------------------------------


async def test_many_subscriptions_each_have_a_number_and_an_ack(doors):
    """C19."""
    await doors.write("Dog/1")
    async with doors.ws() as peer:
        acks, marks = [], []
        for number, topic in enumerate(("Dog/#", "Cat/+", "Dog/1")):
            await say(peer, id=f"s{number}", op="subscribe", topic=topic)
        while len(marks) < 3:
            (heard,) = await hear(peer)
            (acks if "ack" in heard else marks).append(heard)
            marks = [each for each in marks if each["kind"] == "current"]
        await doors.write("Dog/1")
        events = await hear(peer, 2)
    assert [("s0", 1), ("s1", 2), ("s2", 3)] == [(a["ack"], a["subscription"]) for a in acks]
    assert {"ack", "subscription", "resumed", "cursor"} == acks[0].keys()
    assert {1, 3} == {each["subscription"] for each in events}


async def test_an_own_stream_and_a_subscription_get_one_frame_each(doors):
    async with doors.ws("/Dog/1?start=new") as peer:
        await hear(peer)
        await ask(peer, id=1, op="subscribe", topic="Dog/#", start="new")
        await hear(peer)
        await doors.write("Dog/1")
        assert [None, 1] == [each.get("subscription") for each in await hear(peer, 2)]


@pytest.mark.parametrize(
    ("start", "resumed", "numbers"),
    [
        ({"since": "0badcafe:2"}, True, [2, 3]),
        ({"start": "new"}, False, []),
        ({"previousCount": 1}, False, [3]),
        ({"startTime": 1}, False, [0, 1, 2, 3]),
    ],
    ids=["since", "new", "previousCount", "startTime"],
)
async def test_a_subscription_begins_where_it_says(doors, start, resumed, numbers):
    """C10, C24."""
    await doors.writes(4)
    async with doors.ws() as peer:
        ack = await ask(peer, id=1, op="subscribe", topic="Dog/1", **start)
        await doors.write("Dog/1", value={"n": 9})
        heard = []
        while 9 not in heard:
            (event,) = await hear(peer)
            heard += [event["value"]["n"]] if "value" in event else []
    assert resumed is ack["resumed"]
    assert [*numbers, 9] == heard


async def test_a_subscription_that_cannot_resume_says_so_and_is_reset_alone(doors):
    """C10, C11."""
    await doors.writes(3)
    async with doors.ws() as peer:
        await ask(peer, id=1, op="subscribe", topic="Cat/#", start="new")
        await hear(peer)
        ack = await ask(peer, id=2, op="subscribe", topic="Dog/#", since="deadbeef:1")
        heard = await hear(peer, 3)
    assert ack["resumed"] is False
    assert ["reset", "snapshot", "current"] == [each["kind"] for each in heard]
    assert [2, 2, 2] == [each["subscription"] for each in heard]


async def test_after_an_unsubscribe_nothing_more_comes(doors):
    """C19."""
    async with doors.ws() as peer:
        await ask(peer, id=1, op="subscribe", topic="Dog/#", start="new")
        await hear(peer)
        assert {"ack": 2, "subscription": 1} == await ask(
            peer, id=2, op="unsubscribe", subscription=1
        )
        await doors.write("Dog/1")
        assert 3 == (await ask(peer, id=3, op="ping"))["ack"]
        assert 0 == doors.kernel.bus.subscriptions


async def test_a_number_is_never_used_twice(doors):
    async with doors.ws() as peer:
        await ask(peer, id=1, op="subscribe", topic="Dog/#", start="new")
        await hear(peer)
        await ask(peer, id=2, op="unsubscribe", subscription=1)
        assert 2 == (await ask(peer, id=3, op="subscribe", topic="Dog/#"))["subscription"]


async def test_writes_are_acknowledged_when_they_are_durable(doors):
    """C20."""
    async with doors.ws() as peer:
        put = await ask(peer, id=1, op="put", topic="Dog/1", value={"a": 1})
        assert (1, doors.cursor(1), True) == (put["ack"], put["cursor"], put["created"])
        assert isinstance(put["version"], int)
        patch = await ask(peer, id=2, op="patch", topic="Dog/1", value={"b": 2})
        assert (doors.cursor(2), False) == (patch["cursor"], patch["created"])
        got = await ask(peer, id=3, op="get", topic="Dog/1")
        assert ({"a": 1, "b": 2}, patch["version"]) == (got["value"], got["version"])
        message = await ask(peer, id=4, op="message", topic="Dog/1", value="hi")
        assert doors.cursor(3) == message["cursor"]
        deleted = await ask(peer, id=5, op="delete", topic="Dog/1")
        assert {"ack", "cursor", "version"} == deleted.keys()
        unlogged = await ask(peer, id=6, op="message", topic="Chat/1", value="hi")
        assert unlogged["cursor"] is None
    assert doors.store.get(doors.registry.route("Dog/1").table, "Dog/1") is None


async def test_many_commands_at_once_are_carried_out_and_answered_in_order(doors):
    """C20, C22."""
    async with doors.ws() as peer:
        for number in range(1_000):
            await say(peer, id=number, op="put", topic="Dog/1", value={"n": number})
        acks = await hear(peer, 1_000)
    assert list(range(1_000)) == [ack["ack"] for ack in acks]
    assert [doors.cursor(n) for n in range(1, 1_001)] == [ack["cursor"] for ack in acks]


async def test_a_command_without_an_id_is_only_answered_when_it_fails(doors):
    async with doors.ws() as peer:
        await say(peer, op="put", topic="Dog/1", value={"a": 1})
        await say(peer, op="delete", topic="Dog/none")
        error = (await hear(peer))[0]
    assert (None, "not_found") == (error["id"], error["error"]["code"])


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ({"ifMatch": "0badcafe:1"}, None),
        ({"ifMatch": "*"}, None),
        ({"ifMatch": "0badcafe:2"}, "precondition"),
        ({"ifMatch": "deadbeef:1"}, "precondition"),
        ({"ifNoneMatch": "*"}, "precondition"),
        ({"ifNoneMatch": "0badcafe:1"}, "invalid"),
        ({"ifMatch": 1}, "invalid"),
        ({"ifMatch": "*", "ifNoneMatch": "*"}, "invalid"),
        ({"if_match": "*"}, "invalid"),
    ],
    ids=str,
)
async def test_a_write_may_have_a_condition(doors, condition, code):
    """C20."""
    await doors.write("Dog/1")
    async with doors.ws() as peer:
        answer = await ask(peer, id=1, op="put", topic="Dog/1", value={"a": 1}, **condition)
    assert code == answer.get("error", {}).get("code")


async def test_a_condition_that_fails_tells_the_current_cursor(doors):
    await doors.write("Dog/1")
    async with doors.ws() as peer:
        answer = await ask(peer, id=1, op="put", topic="Dog/1", value={}, ifMatch=doors.cursor(9))
    assert (doors.cursor(1), 412) == (answer["error"]["cursor"], answer["error"]["status"])


@pytest.mark.parametrize(
    ("frame", "code", "hint"),
    [
        ("{", "invalid", "malformed"),
        ("[1]", "invalid", "a map"),
        ("{}", "invalid", "no op"),
        ('{"op": 1}', "invalid", "no op"),
        ('{"topic": "Dog/1"}', "invalid", "the command has no op; known are"),
        ('{"op": "subscirbe"}', "invalid", 'did you mean "subscribe"'),
        ('{"op": "put", "topic": "Dog/1"}', "invalid", "lacks the member 'value'"),
        ('{"op": "put", "topic": "Dog/1", "valeu": 1}', "invalid", 'did you mean "value"'),
        ('{"op": "put", "topic": 7, "value": 1}', "invalid", "topic is text"),
        ('{"op": "put", "topic": "Dog/+", "value": 1}', "invalid", "wildcard"),
        ('{"op": "put", "topic": "$SYS/x", "value": 1}', "denied", "the server's own"),
        ('{"op": "put", "topic": "Dog/", "value": 1}', "not_allowed", "name a record"),
        ('{"op": "put", "topic": "Sensor/1", "value": {"at": "soon"}}', "unprocessable", "at"),
        ('{"op": "get", "topic": "Dog/none"}', "not_found", "no record"),
        ('{"op": "subscribe", "topic": "a/#/b"}', "invalid", "last level"),
        ('{"op": "subscribe", "topic": "a", "since": "x"}', "invalid", "not a cursor"),
        ('{"op": "subscribe", "topic": "a", "start": "new", "since": "0badcafe:1"}', "invalid",
         "exclude"),
        ('{"op": "subscribe", "topic": "a", "start": ["new"]}', "invalid", "start is 'new'"),
        ('{"op": "subscribe", "topic": "Dog/+", "where": {"age": 3}}', "invalid", "where is text"),
        ('{"op": "put", "topic": "Dog/1", "value": {}, "ifNoneMatch": []}', "invalid",
         'ifNoneMatch is "*"'),
        ('{"op": "unsubscribe", "subscription": 7}', "not_found", "no subscription 7"),
        ('{"op": "unsubscribe", "subscription": [7]}', "not_found", "no subscription"),
        ('{"op": "ping", "id": 1.5}', "invalid", "an id is"),
        ('{"op": "ping", "id": "' + "x" * 65 + '"}', "invalid", "an id is"),
        (b"\xa1bopdping", "unsupported", "?format=cbor"),
        ("[" * 200, "too_large", "deep"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_told_and_the_connection_stays(doors, frame, code, hint):
    async with doors.ws() as peer:
        await peer.send(frame)
        (answer,) = await hear(peer)
        assert 1 == (await ask(peer, id=1, op="ping"))["ack"]
    assert code == answer["error"]["code"]
    assert hint in answer["error"]["detail"]
    assert answer["id"] is None


async def test_a_binary_frame_that_cannot_be_decoded_is_told_in_its_format(doors):
    async with doors.ws("/?format=cbor") as peer:
        await peer.send(b"\xff")
        answer = decode(await peer.recv(), "application/cbor")
    assert "invalid" == answer["error"]["code"]


async def test_a_filter_is_subscribed_to_once(doors):
    async with doors.ws("/Dog/?start=new") as peer:
        await hear(peer)
        own = await ask(peer, id=1, op="subscribe", topic="Dog/#")
        await ask(peer, id=2, op="subscribe", topic="Cat/#", start="new")
        await hear(peer)
        again = await ask(peer, id=3, op="subscribe", topic="Cat/#")
    assert ["conflict", "conflict"] == [each["error"]["code"] for each in (own, again)]
    assert [1, 3] == [own["id"], again["id"]]


@pytest.mark.parametrize("doors", [{"socket_subscriptions_max": 2}], indirect=True)
async def test_subscriptions_of_one_socket_are_bounded(doors):
    async with doors.ws() as peer:
        for number in range(3):
            await say(peer, id=number, op="subscribe", topic=f"t/{number}", start="new")
        answers = [each for each in await hear(peer, 5) if "kind" not in each]
    assert "busy" == answers[-1]["error"]["code"]


async def test_a_caller_without_rights_gets_errors_and_keeps_the_connection():
    async with HttpServer(grants=NONE) as doors, doors.ws() as peer:
        for command in (
            {"op": "put", "topic": "Dog/1", "value": 1},
            {"op": "subscribe", "topic": "Dog/1"},
            {"op": "get", "topic": "Dog/1"},
        ):
            assert "unauthenticated" == (await ask(peer, id=1, **command))["error"]["code"]


async def test_a_disk_that_refuses_is_told(doors):
    def full(what):
        raise OSError(28, what)

    async with doors.ws() as peer:
        doors.store.fault = full
        answer = await ask(peer, id=1, op="put", topic="Dog/1", value={"a": 1})
        doors.store.fault = None
        assert "busy" == answer["error"]["code"]
        assert "ack" in await ask(peer, id=2, op="put", topic="Dog/1", value={"a": 1})


async def test_an_overridden_get_is_asked():
    class Clock(Resource):
        async def get(self, query=None):
            return {"time": self.id}

    async with HttpServer(resources=[Clock]) as doors, doors.ws() as peer:
        answer = await ask(peer, id=1, op="get", topic="Clock/now")
    assert {"time": "now"} == answer["value"]


async def test_an_overridden_put_is_called():
    class Shout(Resource):
        async def put(self, value):
            return await self.kernel.write_value("Dog/1", PUT, value.upper(), self.caller)

    async with HttpServer(resources=[Shout]) as doors, doors.ws("/Dog/1") as peer:
        await hear(peer)
        await say(peer, op="put", topic="Shout/1", value="hi")
        assert "HI" == (await hear(peer))[0]["value"]


async def test_a_late_write_is_told_what_won(doors):
    """E26: an answer with the version that won."""
    async with doors.ws("/Dog/1?start=new") as peer:
        await hear(peer)
        value = {"name": "x"}
        stamp = {"version": 1_600_000_000_000_002, "origin": "north"}
        won = await ask(peer, id=1, op="put", topic="Cat/1", value=value, **stamp)
        late = await ask(peer, id=2, op="delete", topic="Cat/1", version=1_600_000_000_000_001)
    assert "late" not in won
    assert (1_600_000_000_000_002, None) == (late["late"], late["cursor"])


async def test_a_numbered_write_that_comes_again_has_no_effect(doors):
    """M8."""
    async with doors.ws("/Dog/1?start=new") as peer:
        await hear(peer)
        write = {"op": "put", "topic": "Cat/1", "value": {"name": "x"}, "producer": "m:1:7"}
        first, again = await ask(peer, id=1, **write), await ask(peer, id=2, **write)
    assert (first["cursor"], True) == (again["cursor"], again["repeat"])
    assert (first["version"], True) == (again["version"], again["created"])


async def test_a_numbered_patch_that_comes_again_has_no_effect(doors):
    """M8: as over HTTP."""
    async with doors.ws("/Dog/1?start=new") as peer:
        await hear(peer)
        await ask(peer, id=1, op="put", topic="Cat/1", value={"name": "x"})
        write = {"op": "patch", "topic": "Cat/1", "value": {"name": "y"}, "producer": "m:1:7"}
        first, again = await ask(peer, id=2, **write), await ask(peer, id=3, **write)
    assert (first["cursor"], True) == (again["cursor"], again["repeat"])
