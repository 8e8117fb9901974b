"""The steps of a write: compiled for each route, asked in one order; access is closed."""

import pytest

from build import ANN, Code, Listener, Server, refusal, turns
from rowcast.core.callers import Caller
from rowcast.core.errors import Error
from rowcast.core.events import MESSAGE, PATCH, PUT, Event
from rowcast.core.limits import BULK_WRITES_MIN
from rowcast.features.hooks.hook import Hook
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.retained.retain_rules import Retaining, RetainRules
from rowcast.kernel.admission import Admission
from rowcast.kernel.steps import Steps
from rowcast.kernel.write_path import WritePath
from rowcast.reads.record_cache import UNKNOWN
from rowcast.routes.resource import Resource
from rowcast.writes.write import Write
from topic_watch import AT_ONCE, on_disk

STRANGER = Caller("eve", door="mqtt")


class Doorkeeper(Hook):
    """Refuses topics with ``secret``, mends bodies, and knows what it was asked about."""

    def __init__(self):
        self.asked = []

    def on_publish(self, caller, event):
        del caller
        self.asked.append(event.topic)
        if "secret" in event.topic:
            raise Error(Code.CONFLICT, "that is secret")

    def on_publish_received(self, caller, event):
        del caller
        return event.changed(payload=b'{"name":"mended"}') if event.payload == b"broken" else None


class Anything(Resource):
    """Takes what no table would, and knows what it was given."""

    given = ()

    async def put(self, value):
        type(self).given = (*self.given, value)


def guarded(**options):
    """Return a server with a hook, and the hook."""
    hooks, keeper = Hooks(), Doorkeeper()
    hooks.add(keeper)
    return Server(hooks=hooks, **options), keeper


def limited(**rules):
    """Return a server with topic tables and rules for what is kept at undeclared topics."""
    room = Server(topics=AT_ONCE)
    retaining = Retaining(RetainRules(**rules), room.now, room.store)
    room.kernel.steps.add("retained", retaining.step)
    return room


def steps_of(room, topic):
    return room.registry.route(topic).steps


# -- access is closed ------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["Dog/1", "u/1", "$SYS/sessions/x"])
@pytest.mark.parametrize("kind", [PUT, MESSAGE])
async def test_without_the_step_of_access_every_write_is_denied(topic, kind):
    room, outcomes = Server(), []
    listener = Listener(room)
    steps = Steps(room.registry)
    admission = Admission(room.now, 100, room.kernel.durable, steps)
    steps.add("content", admission.step)
    path = WritePath(room.registry, steps, admission, room.committer)
    for _ in range(3):
        path.submit(Event(topic, kind, b"{}", retain=kind == PUT), ANN, outcomes.append)
    assert 3 * [Code.DENIED] == [outcome.code for outcome in outcomes]
    assert [] == listener.events


# -- where no feature has a say --------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch):
    """The topics of the messages that were made a Write."""
    made, carry_out = [], WritePath.carry_out

    def count(self, write):
        made.append(write.event.topic)
        carry_out(self, write)

    monkeypatch.setattr(WritePath, "carry_out", count)
    return made


@pytest.mark.interpreted
async def test_a_message_is_announced_at_once_where_no_feature_has_a_say(counted):
    room = Server()
    listener = Listener(room)
    for number in range(3):
        await room.say("u/1", b"%d" % number)
    assert [b"0", b"1", b"2"] == [event.payload for event in listener.events]
    assert ["u/1"] == counted


@pytest.mark.interpreted
async def test_a_hook_that_comes_later_is_asked_all_the_same(counted):
    room, keeper = Server(), Doorkeeper()
    for _ in range(2):
        await room.say("u/secret")
    room.kernel.hooks.add(keeper)
    assert Code.CONFLICT == await refusal(room.say("u/secret"))
    assert (["u/secret"], 2) == (keeper.asked, len(counted))


@pytest.mark.parametrize(
    ("event", "caller", "expected"),
    [
        (Event("u/1", MESSAGE, b"x" * 101), ANN, Code.TOO_LARGE),
        (Event("u/1", MESSAGE, b"x"), STRANGER, Code.DENIED),
    ],
    ids=["too large", "not its right"],
)
async def test_what_may_not_be_announced_is_refused_in_words(event, caller, expected):
    room = Server()
    room.kernel.admission.payload_bytes_max = 100
    await room.say("u/1")
    assert expected == await refusal(room.kernel.write(event, caller))


async def test_a_message_waits_for_what_its_sender_wrote_before_it():
    room = Server()
    listener = Listener(room)
    await room.say("u/1")
    room.kernel.submit(Event("Dog/1", PUT, b'{"name":"Rex"}', None, 1, True), ANN)
    room.kernel.submit(Event("u/1", MESSAGE, b"after"), ANN)
    await room.committer.settle()
    assert ["u/1", "Dog/1", "u/1"] == [event.topic for event in listener.events]


# -- the order that users rely on ------------------------------------------------------------------


async def test_a_write_that_came_before_is_not_shown_to_hooks_again():
    room, keeper = guarded()
    for _ in range(2):
        await room.put("Dog/1", properties={"producer": "m:1:1"})
    assert ["Dog/1"] == keeper.asked


async def test_access_before_hooks():
    room, keeper = guarded()
    assert Code.DENIED == await refusal(room.put("u/secret", caller=STRANGER))
    assert [] == keeper.asked


async def test_hooks_before_the_resource_class():
    Anything.given = ()
    room, _ = guarded(resources=[("Dog", Anything)])
    assert Code.CONFLICT == await refusal(room.put("Dog/secret"))
    assert () == Anything.given


@pytest.mark.parametrize(
    ("topic", "payload", "expected"),
    [("Dog/secret", b"{", Code.CONFLICT), ("Dog/1", b"broken", None)],
)
async def test_hooks_before_types(topic, payload, expected):
    room, _ = guarded()
    assert expected == await refusal(room.put(topic, payload))


@pytest.mark.parametrize("payload", [b"{", b'{"age":"old"}'])
async def test_access_before_types(payload):
    assert Code.DENIED == await refusal(Server().put("Dog/1", payload, STRANGER))


async def test_access_before_the_resource_class():
    Anything.given = ()
    room = Server(resources=[("Dog", Anything)])
    assert Code.DENIED == await refusal(room.put("Dog/1", caller=STRANGER))
    assert () == Anything.given


async def test_what_is_delayed_is_shown_to_hooks_now_and_not_again():
    room, keeper = guarded()
    listener = Listener(room, "u/#")
    assert Code.CONFLICT == await refusal(room.say("$delayed/1/u/secret"))
    await room.say("$delayed/1/u/1")
    room.time += 1
    room.delayed.start()
    await turns()
    await room.committer.settle()
    assert (2, ["u/1"]) == (len(keeper.asked), listener.topics)
    await room.stop()


async def test_access_before_delay():
    room = Server()
    assert Code.DENIED == await refusal(room.say("$delayed/1/u/1", caller=STRANGER))
    assert [] == room.delayed.names()


async def test_delay_before_the_resource_class():
    Anything.given = ()
    room = Server(resources=[("Dog", Anything)])
    await room.put("$delayed/9/Dog/1", b'{"age":"old"}')
    assert (1, ()) == (len(room.delayed.names()), Anything.given)
    await room.stop()


async def test_the_resource_class_before_types():
    Anything.given = ()
    room = Server(resources=[("Dog", Anything)])
    await room.put("Dog/1", b'{"age":"old"}')
    assert ({"age": "old"},) == Anything.given


async def test_size_before_types():
    room = Server(payload_bytes_max=10)
    assert Code.TOO_LARGE == await refusal(room.put("Dog/1", b"{" * 11))


async def test_what_its_content_refuses_uses_up_no_rate():
    room = limited(publish_rate=1)
    patch = Event("home/1", PATCH, b"{", None, 1, True)
    assert Code.INVALID == await refusal(room.kernel.write(patch, ANN))
    assert None is await refusal(room.put("home/1"))
    assert Code.BUSY == await refusal(room.put("home/2"))


async def test_what_may_not_be_kept_makes_no_topic_table():
    room = limited(payload_bytes_max=1)
    assert Code.TOO_LARGE == await refusal(room.put("home/1"))
    assert [] == on_disk(room)
    await room.put("home/1", b"1")
    assert ["mqtt_home"] == on_disk(room)


async def test_what_is_kept_is_counted_before_it_is_appended():
    room = limited(messages_max=1)
    await room.put("home/1")
    head = room.committer.announced
    assert Code.TOO_LARGE == await refusal(room.put("home/2"))
    assert head == room.committer.announced


# -- only what has something to say ----------------------------------------------------------------


async def test_a_plain_route_is_asked_for_access_and_size_alone():
    room = Server()
    await room.say("a/b")
    assert 2 == len(steps_of(room, "a/b"))


async def test_steps_are_compiled_anew_when_a_hook_comes():
    room = Server()
    await room.say("a/b")
    keeper = Doorkeeper()
    room.kernel.hooks.add(keeper)
    await room.say("a/b")
    assert ["a/b"] == keeper.asked


async def test_a_step_that_is_removed_is_not_asked():
    room, asked = Server(), []

    def factory(_route):
        return lambda write: asked.append(write.event.topic)

    room.kernel.steps.add("backlog", factory)
    await room.say("a/1")
    room.kernel.steps.remove("backlog", factory)
    room.kernel.steps.remove("backlog", factory)
    await room.say("a/2")
    assert ["a/1"] == asked


async def test_a_step_has_a_place_in_the_order():
    with pytest.raises(KeyError):
        Server().kernel.steps.add("sometime", lambda _route: None)


async def test_events_without_properties_ask_no_step_of_a_property():
    room, asked = Server(), []
    room.kernel.steps.on_property("colour", lambda write: asked.append(write.event.topic))
    await room.say("a/1")
    await room.say("a/2", properties={"colour": "red"})
    await room.say("a/3", properties={"size": 1})
    assert ["a/2"] == asked


# -- the server's own ------------------------------------------------------------------------------


async def test_the_servers_own_events_are_appended_without_a_step():
    room, asked = Server(), []
    room.kernel.steps.add("backlog", lambda _route: asked.append)
    listener = Listener(room, "$AUDIT/#")
    room.kernel.writes.commit_or_announce((Write(Event("$AUDIT/x", MESSAGE, b"1"), ANN),))
    await room.committer.settle()
    assert ([], ["$AUDIT/x"]) == (asked, listener.topics)


async def test_nothing_to_append_is_nothing():
    room = Server()
    room.kernel.writes.commit_or_announce(())
    await room.committer.settle()
    assert 0 == room.committer.commits


@pytest.mark.interpreted
async def test_a_step_that_is_of_records_is_not_asked_about_messages(counted):
    room, asked = Server(), []
    room.kernel.steps.add("retained", lambda _route: asked.append, messages=False)
    for kind in (MESSAGE, MESSAGE, PUT):
        await room.kernel.write(Event("u/1", kind, b"x", retain=kind == PUT), ANN)
    assert [PUT] == [write.event.kind for write in asked]
    assert 2 == len(counted), "the first message, which compiles the route, and the put"


# -- the records of a table ------------------------------------------------------------------------


def dogs(count, first=0):
    numbers = range(first, first + count)
    return [Event(f"Dog/{n}", PUT, b'{"name":"a"}', None, 1, True) for n in numbers]


async def test_the_steps_of_a_table_are_asked_for_once():
    """Its records have the same: what a feature has there, its factory says for the first."""
    room, asked = Server(), []
    room.kernel.steps.add("rows", lambda route: asked.append(route.topic))
    await room.kernel.write_all(dogs(3), ANN, atomic=False)
    assert ["Dog/0"] == asked
    room.kernel.steps.changed()
    await room.kernel.write_all(dogs(2), ANN, atomic=False)
    assert ["Dog/0", "Dog/0"] == asked


async def test_the_steps_of_plain_topics_are_asked_for_once():
    """All have the same: not those of the server, of a table, or of a topic that is logged."""
    room, asked, seen = Server(undeclared="route"), [], []

    def factory(route):
        asked.append(route.topic)
        return lambda write: seen.append(write.event.topic)

    room.kernel.steps.add("backlog", factory)
    for topic in ("u/1", "u/2", "v", "Dog/1", "u/3"):
        await room.say(topic)
    assert (["u/1", "Dog/1"], ["u/1", "u/2", "v", "Dog/1", "u/3"]) == (asked, seen)
    room.kernel.steps.changed()
    await room.say("v")
    assert ["u/1", "Dog/1", "v"] == asked
    logged, asked = Server(undeclared="table"), []
    logged.kernel.steps.add("backlog", factory)
    for topic in ("u/1", "v/1"):
        await logged.say(topic)
    assert ["u/1", "v/1"] == asked


async def test_a_step_of_a_table_is_told_of_each_record():
    room, seen = Server(), []
    room.kernel.steps.add("rows", lambda _: lambda write: seen.append(write.event.topic))
    await room.kernel.write_all(dogs(BULK_WRITES_MIN), ANN, atomic=True)
    assert [f"Dog/{n}" for n in range(BULK_WRITES_MIN)] == seen


async def test_a_load_keeps_the_routes_of_others():
    """So many routes would push them out, and each is written once."""
    room = Server()
    await room.kernel.write_all(
        [*dogs(1), Event("u/1", PUT, b"1", None, 1, True)], ANN, atomic=True
    )
    before = set(room.registry.known)
    outcomes = await room.kernel.write_all(dogs(BULK_WRITES_MIN), ANN, atomic=True)
    assert (BULK_WRITES_MIN, before) == (len(outcomes), set(room.registry.known))
    assert [*range(3, 3 + BULK_WRITES_MIN)] == [outcome.event.seq for outcome in outcomes]


async def test_a_load_is_refused_for_one_record_as_a_few_are():
    room = Server()
    events = [*dogs(BULK_WRITES_MIN), Event("Dog/x", PUT, b'{"name":7}', None, 1, True)]
    assert Code.UNPROCESSABLE == await refusal(room.kernel.write_all(events, ANN, atomic=True))
    assert (0, []) == (room.store.head(), room.store.read(0, 10))


async def test_a_load_does_not_pass_what_is_below_its_table():
    """A7: a class at the topic of one record is the longer path, and takes its write over."""
    room = Server(resources=[("Dog/7", Anything)])
    await room.kernel.write_all(dogs(1), ANN, atomic=True)
    assert Code.NOT_ALLOWED == await refusal(
        room.kernel.write_all(dogs(BULK_WRITES_MIN), ANN, atomic=True)
    )


async def test_what_a_load_pushes_out_of_memory_is_nothing():
    """Records that are read stay; those that it replaces are the new ones."""
    room = Server()
    await room.kernel.write_all(dogs(2), ANN, atomic=True)
    await room.kernel.write_all(dogs(BULK_WRITES_MIN, first=1), ANN, atomic=True)
    seqs = [room.cache.get(f"Dog/{n}") for n in range(3)]
    assert [1, 3] == [record.seq for record in seqs[:2]]
    assert seqs[2] is UNKNOWN
    assert 4 == (await room.kernel.read("Dog/2", ANN)).seq
