"""Delayed writes: durable at once, published once, when due (D52)."""

import asyncio
import json

import pytest
import pytest_asyncio

from build import ANN, DOG, Listener, Server
from rowcast.codecs import JSON
from rowcast.core.callers import ALL, Caller, Grants
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event
from rowcast.core.limits import DELAY_SECONDS_MAX
from rowcast.core.topics import split_delayed
from rowcast.features.delayed.delayed import DelayedBounds
from rowcast.features.delayed.feature import DelayedPublish
from rowcast.features.hooks.hook import Hook
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.rights.access_list import AccessRule
from rowcast.routes.resource import Resource
from rowcast.writes.write import Condition, Receipt


class Later:
    """A call of the loop that is still to come."""

    def __init__(self, when, call):
        self.when, self.call, self.cancelled = when, call, False

    def cancel(self):
        self.cancelled = True


class Clock:
    """The loop of the delayed writes, whose time is the room's."""

    def __init__(self, room):
        self.room, self.timers = room, []

    def call_later(self, seconds, call):
        self.timers.append(Later(self.room.time + seconds, call))
        return self.timers[-1]

    async def forward(self, seconds):
        """Let time pass."""
        self.room.time += seconds
        while due := [t for t in self.timers if not t.cancelled and t.when <= self.room.time]:
            self.timers.remove(due[0])
            due[0].call()
        self.timers = [timer for timer in self.timers if not timer.cancelled]
        await self.room.kernel.committer.settle()


class Delays(Server):
    """A room whose time a test moves."""

    def __init__(self, **options):
        super().__init__(**options)
        self.clock_of_delays = self.delayed.loop = Clock(self)
        self.delayed.restore(self.store.states("delayed"))
        self.delayed.start()
        self.listener = Listener(self)

    async def forward(self, seconds):
        await self.clock_of_delays.forward(seconds)

    async def send(self, topic, payload=b"x", kind=MESSAGE, qos=1, caller=ANN, **facts):
        event = Event(topic, kind, payload, qos=qos, retain=kind != MESSAGE, **facts)
        return await self.kernel.write(event, caller)

    def facts(self):
        return self.store.states("delayed")

    async def rows(self):
        return await self.kernel.resource("$SYS/delayed/", ANN).get()


@pytest_asyncio.fixture
async def room(request):
    bounds = DelayedBounds(**getattr(request, "param", {}))
    made = Delays(features=[DelayedPublish(bounds)])
    yield made
    made.delayed.stop()


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("$delayed/5/a/b", ("$delayed/5/", "a/b")),
        ("$delayed/4294967//", ("$delayed/4294967/", "/")),
        ("a/$delayed/5/b", ("", "a/$delayed/5/b")),
        ("$delayed", ("", "$delayed")),
    ],
)
def test_where_a_delayed_topic_is_divided(topic, expected):
    assert expected == split_delayed(topic)


@pytest.mark.parametrize(
    "topic",
    [
        "$delayed/5", "$delayed/5/", "$delayed//a", "$delayed/0/a", "$delayed/-1/a", "$delayed/x/a",
        "$delayed/1.5/a", f"$delayed/{DELAY_SECONDS_MAX + 1}/a", "$delayed/99999999999/a",
        "$delayed/\u0665/a",
    ],
)  # fmt: skip
async def test_what_is_no_delay_is_refused(room, topic):
    with pytest.raises(Error) as refused:
        await room.send(topic)
    assert Code.INVALID == refused.value.code
    assert "$delayed/<seconds>/<topic>" in refused.value.message


async def test_it_is_durable_at_once_and_published_when_due(room):
    receipt = await room.send("$delayed/60/Note/1", b'{"n":1}', client="c")
    assert isinstance(receipt, Receipt)
    assert (1, []) == (len(room.facts()), room.listener.events)
    await room.forward(59)
    assert [] == room.listener.events
    await room.forward(1)
    [event] = room.listener.events
    assert ("Note/1", b'{"n":1}', MESSAGE, 1, "c") == (
        event.topic, event.payload, event.kind, event.qos, event.client
    )  # fmt: skip
    assert ([], event.seq) == (room.facts(), room.store.head())


async def test_it_is_judged_by_its_writer_s_client_id_when_due_too():
    """D52, G20: over HTTP there is none; the event's client is then the user's name."""
    denied = AccessRule("deny", frozenset({"all"}), ("a/#",), clients=frozenset({ANN.user}))
    room = Delays(access=[denied, AccessRule("allow", frozenset({"all"}), ("#",))])
    meter = Caller("meter", ALL, "mqtt", ANN.user)
    await room.send("$delayed/5/a/b", client=ANN.user)
    with pytest.raises(Error) as refused:
        await room.send("$delayed/5/a/c", caller=meter)
    assert Code.DENIED == refused.value.code
    await room.forward(5)
    assert ["a/b"] == room.listener.topics
    room.delayed.stop()


@pytest.mark.parametrize(
    ("kind", "payload"), [(PUT, b'{"name":"Rex"}'), (PATCH, b'{"age":3}'), (DELETE, b"")]
)
async def test_every_kind_of_write_may_be_delayed(room, kind, payload):
    """D52: retained and QoS are kept."""
    await room.put("Dog/1", b'{"name":"Bella"}')
    await room.send("$delayed/5/Dog/1", payload, kind, qos=2)
    await room.forward(5)
    event = room.listener.events[-1]
    assert (kind, 2, True, "Dog/1") == (event.kind, event.qos, event.retain, event.topic)
    value = await room.kernel.read_value("Dog/1", ANN, None)
    names = {PUT: "Rex", PATCH: "Bella"}
    assert names.get(kind) == (value and value["name"])


async def test_those_due_at_one_time_keep_their_order(room):
    for number in range(30):
        await room.send("$delayed/5/a", b"%d" % number)
    await room.send("$delayed/4/a", b"first")
    await room.forward(10)
    assert [b"first", *(b"%d" % number for number in range(30))] == [
        event.payload for event in room.listener.events
    ]


@pytest.mark.parametrize("away", [0, 30, 3600])
async def test_it_survives_a_restart(room, away):
    """D52: also when it was due meanwhile; the order stays, and new ones come after."""
    for number in range(12):
        await room.send("$delayed/60/a", b"%d" % number, qos=2)
    room.delayed.stop()
    again = Delays(store=room.store)
    again.time += away
    await again.send("$delayed/60/a", b"new")
    await again.forward(60)
    assert [*(b"%d" % number for number in range(12)), b"new"] == [
        event.payload for event in again.listener.events
    ]
    assert [] == again.facts()
    again.delayed.stop()


async def test_facts_of_others_are_not_taken_for_delayed(room):
    room.delayed.restore([("delayed-other", "1", b"")])
    assert [] == await room.rows()


async def test_the_fact_goes_with_the_event(room):
    """D52: one transaction, so that a kill neither loses nor doubles it."""
    await room.send("$delayed/5/Dog/1", b"{}", PUT)
    commits = []
    commit = room.store.commit

    def watched(events, changes=()):
        commits.append(([event.topic for event in events], [change.value for change in changes]))
        return commit(events, changes)

    room.store.commit = watched
    await room.forward(5)
    assert [(["Dog/1"], [None])] == commits


async def test_what_the_disk_refuses_is_tried_again(room):
    await room.send("$delayed/5/Dog/1", b"{}", PUT)
    commit, room.store.commit = room.store.commit, _full
    await room.forward(5)
    assert ([], 1) == (room.listener.events, len(room.facts()))
    room.store.commit = commit
    await room.forward(1)
    assert (["Dog/1"], []) == (room.listener.topics, room.facts())


def _full(_events, _changes=()):
    raise Error(Code.BUSY, "the disk is full")


async def test_what_could_not_be_kept_was_not_taken(room):
    room.store.commit = _full
    with pytest.raises(Error):
        await room.send("$delayed/5/Dog/1", b"{}", PUT)
    assert [] == await room.rows()
    await room.forward(5)
    assert [] == room.listener.events


@pytest.mark.parametrize(
    ("topic", "payload", "kind", "code"),
    [
        ("$delayed/5/Dog/1", b'{"age":"x"}', PUT, Code.UNPROCESSABLE),
        ("$delayed/5/Dog/1", b"{", PUT, Code.INVALID),
        ("$delayed/5/Dog", b"{}", PUT, Code.NOT_ALLOWED),
        ("$delayed/5/Dog/1", b"", PUT, Code.INVALID),
        ("$delayed/5/a/+", b"x", MESSAGE, Code.INVALID),
        ("$delayed/5/$SYS/x", b"x", MESSAGE, Code.DENIED),
        ("$delayed/5/$delayed/5/a", b"x", MESSAGE, Code.INVALID),
    ],
)
async def test_what_would_be_refused_then_is_refused_now(room, topic, payload, kind, code):
    with pytest.raises(Error) as refused:
        await room.send(topic, payload, kind)
    assert (code, []) == (refused.value.code, room.facts())


@pytest.mark.parametrize(
    ("caller", "code"),
    [(Caller("rob", Grants(read=True), "http"), Code.DENIED), (Caller(), Code.UNAUTHENTICATED)],
)
async def test_rights_are_asked_when_it_is_sent(room, caller, code):
    with pytest.raises(Error) as refused:
        await room.send("$delayed/5/Dog/1", b"{}", PUT, caller=caller)
    assert code == refused.value.code


async def test_hooks_see_what_it_will_be():
    """D52: on_publish decides about the real topic, and a rewritten one stays delayed."""

    class Moved(Hook):
        def on_publish(self, caller, event):
            if event.topic == "secret":
                raise Error(Code.DENIED, "not there")

        def on_publish_received(self, caller, event):
            event.topic = "moved/" + event.topic
            return event

    hooks = Hooks()
    hooks.add(Moved())
    room = Delays(hooks=hooks)
    with pytest.raises(Error):
        await room.send("$delayed/5/secret")
    await room.send("$delayed/5/open")
    await room.forward(5)
    assert ["moved/open"] == room.listener.topics
    room.delayed.stop()


async def test_a_condition_is_refused(room):
    event = Event("$delayed/5/Dog/1", PUT, b"{}", qos=1, retain=True)
    with pytest.raises(Error) as refused:
        await room.kernel.write(event, ANN, Condition(seqs=frozenset({1})))
    assert Code.INVALID == refused.value.code


async def test_what_its_table_refuses_when_it_is_due_is_dropped():
    """The schema changed meanwhile: the log of the server says so, the rest goes on."""
    room = Delays()
    await room.send("$delayed/5/new/1", b"x", PUT)
    await room.send("$delayed/5/Dog/1", b"{}", PUT)
    room.delayed.stop()
    again = Delays(store=room.store, tables=(DOG,), undeclared="reject")
    await again.forward(5)
    assert (["Dog/1"], []) == (again.listener.topics, again.facts())
    again.delayed.stop()


@pytest.mark.parametrize(
    ("user", "found", "removed", "published"),
    [
        ("ann", Caller("ann", Grants(read=True, write=False)), False, False),
        ("ann", Error(Code.DENIED, "disabled"), False, False),
        ("ann", Error(Code.UNAUTHENTICATED, "removed"), True, False),
        ("ann", Error(Code.UNAUTHENTICATED, "another password"), False, True),
        ("ann", Caller("ann", ALL), False, True),
        ("$server", Error(Code.UNAUTHENTICATED, "no user"), True, True),
    ],
)
async def test_who_may_not_write_any_more_is_not_published(room, user, found, removed, published):
    """D52, L8, L9: what waits is its writer's, as that is when it is due; a refusal is told."""
    told = []
    room.kernel.listeners.refusals.append(lambda who, *rest: told.append((who.user, *rest[:3])))

    def judge(_caller):
        if isinstance(found, Error):
            raise found
        return found

    await room.kernel.write(Event("$delayed/5/a", MESSAGE, b"1", qos=1), Caller(user, ALL))
    access = room.kernel.reauthorization
    access.judges.append(judge)
    access.removals.append(lambda _user: removed)
    await room.forward(5)
    assert (["a"] if published else [], []) == (room.listener.topics, room.facts())
    if isinstance(found, Error):  # rights that refuse tell it themselves
        assert told == ([] if published else [("ann", "write", "a", found.code)])


async def test_undeclared_topics_may_be_rejected(room):
    other = Delays(undeclared="reject")
    with pytest.raises(Error) as refused:
        await other.send("$delayed/5/a")
    assert Code.NOT_FOUND == refused.value.code
    await other.send("$delayed/5/Dog/1", b"{}", PUT)
    other.delayed.stop()


async def test_a_resource_class_gets_it_in_time():
    taken = []

    class Lamp(Resource):
        async def put(self, value):
            taken.append((self.topic, value))

    room = Delays(resources=[("Lamp", Lamp)])
    await room.send("$delayed/5/Lamp/1", b'"on"', PUT)
    assert [] == taken
    await room.forward(5)
    for _ in range(9):
        await asyncio.sleep(0)
    assert [("Lamp/1", "on")] == taken
    room.delayed.stop()


async def test_code_of_resources_may_delay_too(room):
    await room.kernel.write_value("$delayed/5/Dog/1", PUT, {"name": "Rex"}, ANN)
    await room.forward(5)
    assert ["Dog/1"] == room.listener.topics


async def test_what_waits_is_seen(room):
    await room.send("$delayed/60/Dog/1", b'{"name":"Rex"}', PUT, qos=2, client="c")
    [row] = await room.rows()
    told = {
        "due": "2023-11-14T22:14:20.000Z",
        "topic": "Dog/1",
        "kind": "put",
        "qos": 2,
        "retain": True,
        "user": "ann",
        "client": "c",
        "content_type": None,
        "payload_bytes": 14,
    }
    assert told == {name: value for name, value in row.items() if name != "id"}
    of_one = room.kernel.resource(f"$SYS/delayed/{row['id']}", ANN)
    assert row == await of_one.get()
    assert of_one.members == tuple(row)


async def test_what_waits_may_be_cancelled(room):
    await room.send("$delayed/60/a", b"1")
    await room.send("$delayed/60/a", b"2")
    first = (await room.rows())[0]["id"]
    await room.delete(f"$SYS/delayed/{first}")
    assert 1 == len(room.facts())
    with pytest.raises(Error) as refused:
        await room.delete(f"$SYS/delayed/{first}")
    assert Code.NOT_FOUND == refused.value.code
    await room.forward(60)
    assert [b"2"] == [event.payload for event in room.listener.events]


async def patch(room, number, value, caller=ANN):
    payload = json.dumps(value).encode()
    event = Event(f"$SYS/delayed/{number}", PATCH, payload, JSON, qos=1, retain=True)
    return await room.kernel.write(event, caller)


@pytest.mark.parametrize(("due", "rest"), [("22:13:30", (10, 50)), ("22:15:20", (120, 0))])
async def test_what_waits_may_be_given_another_time(room, due, rest):
    """D52, M11: earlier or later, under the same id; it comes once, and then."""
    await room.send("$delayed/60/a", b"1")
    [row] = await room.rows()
    await patch(room, row["id"], {"due": f"2023-11-14T{due}Z"})
    [moved] = await room.rows()
    assert row | {"due": f"2023-11-14T{due}.000Z"} == moved
    assert 1 == len(room.facts())
    await room.forward(rest[0] - 1)
    assert [] == room.listener.events
    await room.forward(1)
    assert [b"1"] == [event.payload for event in room.listener.events]
    await room.forward(rest[1])
    assert (1, []) == (len(room.listener.events), room.facts())


async def test_a_time_long_ago_is_now_also_after_a_restart(room):
    """D52, M11: a kill before it is published leaves a fact that the next start can read."""
    await room.send("$delayed/60/a", b"1")
    [row] = await room.rows()
    await patch(room, row["id"], {"due": "1960-01-01T00:00:00Z"})
    room.delayed.restore(room.store.states("delayed"))
    assert [row["id"]] == [item["id"] for item in await room.rows()]
    await room.forward(0)
    assert [b"1"] == [event.payload for event in room.listener.events]


@pytest.mark.parametrize(
    "value", [{}, {"due": None}, {"due": "soon"}, {"topic": "b"}, [], {"due": 4e15}]
)
async def test_nothing_else_of_it_can_be_changed(room, value):
    await room.send("$delayed/60/a", b"1")
    [row] = await room.rows()
    with pytest.raises(Error) as refused:
        await patch(room, row["id"], value)
    assert Code.UNPROCESSABLE == refused.value.code
    assert [row] == await room.rows()
    with pytest.raises(Error, match="nothing delayed waits"):
        await patch(room, "99", {"due": 0})


async def test_who_may_not_write_may_not_cancel(room):
    await room.send("$delayed/60/a")
    [row] = await room.rows()
    event = Event(f"$SYS/delayed/{row['id']}", DELETE, b"", qos=1, retain=True)
    reader = Caller("rob", Grants(read=True), "http")
    with pytest.raises(Error) as refused:
        await room.kernel.write(event, reader)
    assert (Code.DENIED, 1) == (refused.value.code, len(room.facts()))


@pytest.mark.parametrize("room", [{"events": 3}, {"size_bytes": 450}], indirect=True)
async def test_they_are_bounded(room):
    """D52: in number and bytes; room comes back when some were published or cancelled."""
    taken = 0
    with pytest.raises(Error) as refused:
        while True:
            await room.send("$delayed/60/a", b"x" * 20)
            taken += 1
    assert (Code.BUSY, 3) == (refused.value.code, taken)
    await room.forward(60)
    await room.send("$delayed/60/a", b"x" * 20)
    [row] = await room.rows()
    await room.delete(f"$SYS/delayed/{row['id']}")
    for _ in range(3):
        await room.send("$delayed/60/a", b"x" * 20)


@pytest.mark.slow
async def test_many_that_were_cancelled_hold_no_memory(room):
    for _ in range(40):
        for _ in range(50):
            await room.send("$delayed/60/a")
        for row in await room.rows():
            assert room.delayed.cancel(row["id"])
    assert len(room.delayed._heap) < 1200


@pytest.mark.parametrize("room", [{"turn_events": 10}], indirect=True)
async def test_a_crowd_is_published_in_turns(room):
    for number in range(35):
        await room.send("$delayed/60/a", b"%d" % number)
    await room.forward(60)
    assert [b"%d" % number for number in range(35)] == [
        event.payload for event in room.listener.events
    ]


async def test_changes_that_come_with_it_are_committed_with_it(room):
    """D16: the identifier of a QoS 2 publish and the delayed message are one transaction."""
    from rowcast.store.store import Change

    outcomes = []
    event = Event("$delayed/60/a", MESSAGE, b"x", qos=2)
    changes = (Change("session/c", "in/1", b""),)
    room.kernel.submit(event, Caller("c", ALL, "mqtt"), outcomes.append, None, changes)
    await room.kernel.committer.settle()
    assert isinstance(outcomes[0], Receipt)
    assert (1, 1) == (len(room.facts()), len(room.store.states("session/")))
    assert 1 == room.kernel.committer.commits
