"""The door: six steps of a write, one of a read, and the beginnings of a watch."""

import asyncio
from dataclasses import replace

import pytest

from build import ANN, BEN, DOG, NOTE, NOW, Code, Listener, Server, code_of, refusal, turns
from rowcast.codecs import JSON
from rowcast.core.callers import NONE, Caller, Grants
from rowcast.core.conditions import Condition as Comparison
from rowcast.core.conditions import Operator
from rowcast.core.errors import Error
from rowcast.core.events import CURRENT, DELETE, MESSAGE, PATCH, PUT, RESET, SNAPSHOT, Event
from rowcast.core.queries import Query
from rowcast.core.tables import Logs
from rowcast.core.topics import TopicFilter
from rowcast.reads.record_cache import UNKNOWN
from rowcast.routes.resource import Resource
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription
from rowcast.writes.write import Condition, Receipt

STRANGER = Caller("rob", NONE, "http")
READER = Caller("rob", Grants(read=True), "http")


def event(topic, kind=PUT, payload=b"{}", qos=1, **properties):
    return Event(topic, kind, payload, None, qos, kind != MESSAGE, properties=properties or None)


# -- writing ---------------------------------------------------------------------------------------


async def test_d48_a_retained_write_is_the_record_when_it_is_answered():
    room = Server()
    receipt = await room.put("u/1", b"hello")
    assert (b"hello", False) == ((await room.kernel.read("u/1", ANN)).payload, receipt.existed)
    assert "0badcafe:1" == room.kernel.head == room.kernel.cursor(receipt.event.seq)


async def test_d49_a_message_leaves_the_record():
    room = Server()
    listener = Listener(room)
    await room.put("u/1", b"hello")
    await room.say("u/1", b"psst")
    assert b"hello" == (await room.kernel.read("u/1", ANN)).payload
    assert [PUT, MESSAGE] == [item.kind for item in listener.events]


async def test_d50_a_delete_removes_and_is_told():
    room = Server()
    listener = Listener(room)
    await room.put("u/1")
    assert (await room.delete("u/1")).existed
    assert Code.NOT_FOUND == await refusal(room.kernel.read("u/1", ANN))
    assert DELETE == listener.events[-1].kind


@pytest.mark.parametrize(
    ("item", "caller", "expected"),
    [
        (event("a/+"), ANN, Code.INVALID),
        (event("u/1"), STRANGER, Code.DENIED),
        (event("u/1", MESSAGE), STRANGER, Code.DENIED),
        (event("$SYS/x"), ANN, Code.DENIED),
        (event("Dog/1", payload=b'{"age":"old"}'), ANN, Code.UNPROCESSABLE),
        (event("u/1", MESSAGE, b"x" * 101), ANN, Code.TOO_LARGE),
    ],
)
async def test_what_is_refused_is_neither_stored_nor_announced(item, caller, expected):
    room = Server(payload_bytes_max=100)
    listener = Listener(room)
    assert expected == await refusal(room.kernel.write(item, caller))
    assert ([], 0, {}) == (listener.events, room.store.head(), room.committer.pending)


@pytest.mark.parametrize("topic", ["u/1", "Note/1"])
async def test_a_message_that_a_durable_session_wants_is_stored(topic):
    """D27: in the log, with number and version, before anybody hears of it."""
    room = Server((replace(NOTE, logs=Logs.RETAINED),))
    listener = Listener(room)
    wanted = TopicFilter("+/1")
    room.kernel.durable.add(wanted)
    receipt = await room.say(topic, qos=1)
    assert [receipt.event.seq] == [event.seq for event in room.store.read(0, 9)] == [1]
    assert receipt.event.version > 0
    assert 0 == (await room.say(topic, qos=0)).event.seq
    assert 0 == (await room.say("u/2", qos=1)).event.seq
    room.kernel.durable.remove(wanted)
    assert 0 == (await room.say(topic, qos=1)).event.seq
    assert (4, 1) == (len(listener.events), room.committer.commits)


async def test_a_message_that_a_durable_session_wants_needs_the_disk():
    room = Server()
    listener = Listener(room)
    room.kernel.durable.add(TopicFilter("#"))
    room.store.fault = lambda _name: (_ for _ in ()).throw(Error(Code.BUSY, "full"))
    assert Code.BUSY == await refusal(room.say("u/1", qos=1))
    assert [] == listener.events


async def test_a_message_that_nobody_stores_is_announced_and_answered_at_once():
    room, outcomes = Server(), []
    listener = Listener(room)
    room.kernel.submit(event("u/1", MESSAGE), ANN, outcomes.append)
    room.kernel.submit(event("Note/1", MESSAGE, qos=0), ANN, outcomes.append)
    room.kernel.submit(event("u/1", MESSAGE), ANN)
    assert ["u/1", "Note/1", "u/1"] == listener.topics
    assert [Receipt, Receipt] == [type(outcome) for outcome in outcomes]


@pytest.mark.parametrize("topic", ["u/1", "Note/1"])
async def test_c22_a_message_waits_for_its_callers_write_and_for_nobody_elses(topic):
    room = Server()
    listener = Listener(room)
    room.writer.held = True
    room.kernel.submit(event("Dog/1"), ANN)
    room.kernel.submit(event(topic, MESSAGE, b'"ann"', qos=0), ANN)
    room.kernel.submit(event(topic, MESSAGE, b'"ben"', qos=0), BEN)
    assert [b'"ben"'] == [item.payload for item in listener.events]
    await turns()
    room.writer.release()
    await room.committer.settle()
    assert ["Dog/1", topic] == listener.topics[1:]


async def test_d42_a_message_keeps_the_time_it_has_to_live():
    """MQTT-3.3.2-6: also on a topic that nobody declared."""
    room = Server()
    listener = Listener(room)
    await room.kernel.write(event("u/1", MESSAGE, message_expiry_interval=9), ANN)
    assert [NOW + 9] == [item.expires_at for item in listener.events]


@pytest.mark.parametrize("topic", ["u/1", "Note/1"])
async def test_a16_a_condition_of_a_message_counts(topic):
    room = Server()
    listener = Listener(room)
    item = event(topic, MESSAGE, qos=0)
    assert Code.PRECONDITION == await refusal(room.kernel.write(item, ANN, Condition(exists=True)))
    assert [] == listener.events
    await room.kernel.write(item, ANN, Condition(exists=False))
    assert [topic] == listener.topics


async def test_an_impatient_writer_does_not_stop_the_write():
    room = Server()
    room.writer.held = True
    writing = asyncio.ensure_future(room.put("u/1"))
    await turns()
    writing.cancel()
    await turns()
    room.writer.release()
    await room.committer.settle()
    assert 1 == room.store.head()


# -- several writes --------------------------------------------------------------------------------


async def test_b11_each_for_itself():
    room = Server()
    events = [event("u/1"), event("Dog/1", payload=b"{"), event("u/2")]
    outcomes = await room.kernel.write_all(events, ANN, atomic=False)
    assert [Receipt, Error, Receipt] == [type(outcome) for outcome in outcomes]


async def test_b11_all_or_none():
    room = Server()
    await room.put("u/1", b"5")
    good = [event("u/2"), event("u/3", MESSAGE), event("u/1", PATCH, b'{"a":1}')]
    outcomes = await room.kernel.write_all(good, ANN, atomic=True)
    assert [Receipt] * 3 == [type(outcome) for outcome in outcomes]
    await room.put("u/1", b"\xff")
    listener = Listener(room)
    outcomes = await room.kernel.write_all(good, ANN, atomic=True)
    assert [Code.CONFLICT] * 3 == [outcome.code for outcome in outcomes]
    assert [] == listener.events


@pytest.mark.parametrize(
    ("item", "caller", "expected"),
    [
        (event("Dog/1", payload=b"{"), ANN, Code.INVALID),
        (event("u/1"), STRANGER, Code.DENIED),
        (event("Dog/1"), ANN, Code.NOT_ALLOWED),
    ],
)
async def test_b11_what_is_not_admitted_is_told_before_anything_is_written(item, caller, expected):
    class Dog(Resource):
        async def put(self, value):
            return await super().put(value)

    room = Server(resources=[("Dog", Dog)] if expected is Code.NOT_ALLOWED else ())
    work = room.kernel.write_all([event("u/2"), item], caller, atomic=True)
    assert (expected, 0) == (await refusal(work), room.store.head())


async def test_b11_nothing_is_nothing():
    room = Server()
    assert [] == await room.kernel.write_all([], ANN, atomic=True)
    assert [] == await room.kernel.write_all([], ANN, atomic=False)


# -- resource classes ------------------------------------------------------------------------------


class Careful(Resource):
    """Changes what it is given, refuses some, and fails on others."""

    async def put(self, value):
        if value == "no":
            raise Error(Code.DENIED, "not this one")
        if value == "bug":
            raise ZeroDivisionError("secret")
        if value == "wait":
            await asyncio.Event().wait()
        if value == "drop":
            return None
        return await super().put({"name": value})

    async def delete(self):
        return await super().delete()

    async def publish(self, message):
        return await super().publish([message])


def careful():
    return Server(resources=[("Dog", Careful), ("open", Careful)])


async def test_a_resource_changes_what_is_written():
    room = careful()
    receipt = await room.put("Dog/1", b'"Rex"', client="device", properties={"a": 1})
    assert {"id": "1", "name": "Rex"}.items() <= receipt.event.decoded.items()
    assert ("device", {"a": 1, "by": "http:ann"}) == (
        receipt.event.client, receipt.event.properties,
    )  # fmt: skip
    assert (await room.delete("Dog/1")).existed


async def test_a_resource_without_a_table_writes_undeclared_topics():
    room = careful()
    listener = Listener(room)
    await room.put("open/1", b'"x"')
    await room.say("open/1", b'"x"')
    room.writer.held = True
    room.kernel.submit(event("u/1"), ANN)
    saying = asyncio.ensure_future(room.say("open/1", b'"y"'))
    await turns()
    room.writer.release()
    await saying
    assert [b'{"name":"x"}', b'["x"]', b"{}", b'["y"]'] == [
        item.payload for item in listener.events
    ]


async def test_a_resource_that_writes_nothing_is_a_success_too():
    room = careful()
    receipt = await room.put("Dog/1", b'"drop"')
    assert (0, 0) == (receipt.event.seq, room.store.head())


@pytest.mark.parametrize(("word", "expected"), [(b'"no"', Code.DENIED), (b'"bug"', Code.INTERNAL)])
async def test_a_resource_refuses_or_fails(caplog, word, expected):
    room = careful()
    with pytest.raises(Error) as raised:
        await room.put("Dog/1", word)
    assert expected == raised.value.code
    assert "secret" not in raised.value.message
    assert ("secret" in caplog.text) == (expected is Code.INTERNAL)


async def test_a16_a_condition_passes_through_a_resource():
    room = careful()
    await room.put("Dog/1", b'"Rex"')
    again = room.put("Dog/1", b'"Max"', condition=Condition(exists=False))
    assert Code.PRECONDITION == await refusal(again)
    said = room.kernel.write(event("open/1", MESSAGE), ANN, Condition(exists=True))
    assert Code.PRECONDITION == await refusal(said)


async def test_a_resource_that_is_at_work_when_the_server_stops_is_answered():
    room = careful()
    writing = [asyncio.ensure_future(room.put("Dog/1", b'"wait"')) for _ in range(2)]
    await turns()
    await room.stop()
    assert [Code.BUSY, Code.BUSY] == [await refusal(each) for each in writing]
    await room.stop()


async def test_an_instance_knows_what_it_is_about():
    room = careful()
    resource = room.kernel.resource("Dog/1", ANN)
    assert ("Dog/1", "1", ANN) == (resource.topic, resource.id, resource.caller)
    assert None is room.kernel.resource("Note/1", ANN) is room.kernel.resource("u/1", ANN)


async def test_a_plain_value_is_written_past_the_resource():
    room = careful()
    receipt = await room.kernel.write_value("Dog/1", PUT, {"name": "Rex"}, ANN)
    assert (JSON, 1, True) == (receipt.event.content_type, receipt.event.qos, receipt.event.retain)
    gone = await room.kernel.write_value("Dog/1", DELETE, None, ANN)
    assert (b"", None) == (gone.event.payload, gone.event.content_type)
    assert Code.DENIED == await refusal(room.kernel.write_value("u/1", PUT, 1, STRANGER))


# -- reading ---------------------------------------------------------------------------------------


async def test_reading_needs_the_right_and_a_record():
    room = Server()
    await room.put("u/1", b'{"a":1}')
    assert {"a": 1} == await room.kernel.read_value("u/1", READER, None)
    assert None is await room.kernel.read_value("u/2", READER, None)
    for work in (room.kernel.read("u/1", STRANGER), room.kernel.read_value("u/1", STRANGER, None)):
        assert Code.DENIED == await refusal(work)
    assert Code.DENIED == code_of(room.kernel.peek, "u/1", STRANGER)


async def test_peeking_asks_memory_only():
    room = Server()
    room.readers.held = True
    assert UNKNOWN is room.kernel.peek("u/1", ANN)
    receipt = await room.put("u/1")
    assert receipt.event is room.kernel.peek("u/1", ANN)


async def test_a_record_whose_time_is_over_is_not_there():
    room = Server()
    await room.kernel.write(event("u/1", message_expiry_interval=5), ANN)
    await room.kernel.read("u/1", ANN)
    room.time += 5
    assert Code.NOT_FOUND == await refusal(room.kernel.read("u/1", ANN))


async def test_a_collection_is_searched_and_counted():
    room = Server()
    for number in range(3):
        await room.put(f"Dog/{number}", b'{"age":%d}' % number)
    older = Query(where=Comparison(("age",), Operator.GE, 1))
    assert 3 == len(await room.kernel.read_value("Dog", ANN, None))
    assert [1, 2] == [item["age"] for item in await room.kernel.read_value("Dog", ANN, older)]
    assert 3 == await room.kernel.count(DOG, Query(), ANN)
    assert 2 == await room.kernel.count(DOG, older, ANN)
    for work in (room.kernel.search(DOG, older, STRANGER), room.kernel.count(DOG, older, STRANGER)):
        assert Code.DENIED == await refusal(work)


# -- watching --------------------------------------------------------------------------------------


def watch(room, text="u/#", since=None, current=True, subscription=None, caller=ANN):
    subscription = subscription or Subscription(room.reader, "me")
    room.kernel.watch(
        subscription, SubscribedFilter(TopicFilter(text)), caller, since, current=current
    )
    return subscription


async def told(subscription, count):
    """Return the kinds and positions of what comes."""
    pairs = []
    while len(pairs) < count:
        pairs += await subscription.batch(10)
    return [(item.kind, item.seq) for item, _ in pairs]


async def test_a_watch_begins_with_the_records():
    room = Server()
    await room.put("u/1")
    subscription = watch(room)
    assert [(SNAPSHOT, 1), (CURRENT, 1)] == await told(subscription, 2)
    await room.put("u/1")
    assert [(PUT, 2)] == await told(subscription, 1)


@pytest.mark.parametrize("since", ["0badcafe:1", 1])
async def test_a_watch_continues_after_a_cursor(since):
    room = Server()
    await room.put("u/1")
    await room.put("u/1")
    assert [(PUT, 2)] == await told(watch(room, since=since), 1)


@pytest.mark.parametrize("since", ["0ddba11a:1", "0badcafe:9"])
@pytest.mark.parametrize("current", [True, False])
async def test_c11_a_cursor_that_leads_nowhere_begins_anew(since, current):
    """One RESET, then the records, whatever was asked for."""
    room = Server()
    await room.put("u/1")
    subscription = watch(room, since=since, current=current)
    assert [(RESET, 1), (SNAPSHOT, 1), (CURRENT, 1)] == await told(subscription, 3)


async def test_c11_the_reset_of_one_filter_is_not_that_of_the_others():
    room = Server()
    subscription = watch(room, current=False)
    watch(room, "v/#", since="0ddba11a:1", subscription=subscription)
    pairs = []
    while not any(item.kind == RESET for item, _ in pairs):
        pairs += await subscription.batch(10)
    assert ["v/#"] == [interest.topics.text for item, interest in pairs if item.kind == RESET]


async def test_c11_a_cursor_of_what_is_stored_but_not_yet_announced_is_good():
    """A reader that was behind has read it from the log."""
    room = Server()
    room.writer.held = True
    room.kernel.submit(event("u/1"), ANN)
    await turns()
    room.writer.step()
    subscription = watch(room, since="0badcafe:1", current=False)
    room.writer.release()
    await room.put("u/2")
    assert [(PUT, 2)] == await told(subscription, 1)


@pytest.mark.parametrize(
    ("text", "since", "caller", "expected"),
    [
        ("u/#", None, STRANGER, Code.DENIED),
        ("$share/group/u/#", None, ANN, Code.UNSUPPORTED),
        ("u/#", "yesterday", ANN, Code.INVALID),
    ],
)
async def test_a_watch_that_is_refused_leaves_nothing_on_the_bus(text, since, caller, expected):
    room = Server()
    assert expected == code_of(watch, room, text, since, caller=caller)
    assert 0 == room.bus.subscriptions


async def test_the_same_filter_again_changes_it():
    room = Server()
    subscription = watch(room)
    again = SubscribedFilter(TopicFilter("u/#"), 1)
    assert not room.kernel.watch(subscription, again, ANN)
    assert (again, 1) == (subscription.interests["u/#"], room.bus.subscriptions)


async def test_the_end_of_a_watch_leaves_nothing_on_the_bus():
    room = Server()
    subscription = watch(room)
    watch(room, "v/#", subscription=subscription)
    assert room.kernel.unwatch(subscription, TopicFilter("u/#"))
    assert not room.kernel.unwatch(subscription, TopicFilter("u/#"))
    assert 1 == room.bus.subscriptions
    room.kernel.close(subscription)
    assert (0, True, []) == (
        room.bus.subscriptions, subscription.closed, await subscription.batch(1)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("topic", "expected"), [("Dog", "Dog/#"), ("Dog/1", "Dog/1"), ("u/1", "u/1")]
)
async def test_a_stream_is_of_a_record_or_of_a_whole_collection(topic, expected):
    room = Server()
    stream = room.kernel.open_stream(topic, ANN)
    assert [expected] == [interest.topics.text for interest in stream.interests]
    room.kernel.close(stream)


async def test_a_resource_answers_who_connects():
    room = careful()
    stream = await room.kernel.connect(room.kernel.resource("Dog/1", ANN))
    assert ["Dog/1"] == [interest.topics.text for interest in stream.subscription.interests]
    stream.close()
    assert 0 == room.bus.subscriptions
    refused = room.kernel.resource("Dog/1", STRANGER)
    assert Code.DENIED == await refusal(room.kernel.connect(refused))
