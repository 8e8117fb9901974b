"""Runs: the writes that one read of a connection gives, submitted together."""

import random
from functools import partial

import pytest

from build import ANN, TABLES, Code, Listener, Server
from rowcast.core.callers import Caller, Grants
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, MESSAGE, PUT, Event
from rowcast.core.memory_limits import WRITE_BYTES
from rowcast.core.topics import TopicFilter
from rowcast.features.hooks.hook import Hook
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.retained.retain_rules import Retaining, RetainRules
from rowcast.writes.pending_bytes import WriteBounds
from topic_watch import AT_ONCE

READER = Caller("eve", Grants(read=True), "mqtt")
NAMELESS = Caller("anonymous", ANN.grants, "mqtt", "device")
TOPICS = ("a/1", "a/1", "a/2", "b", "$SYS/x", "Dog/1", "Note/1", "secret")
LARGE = b'"' + b"x" * 400 + b'"'


class Censor(Hook):
    """Refuses one topic, so that hooks have a say at every topic."""

    def on_publish(self, caller, event):
        del caller
        if event.topic == "secret":
            raise Error(Code.CONFLICT, "that is secret")


def world(kind):
    """Return a server where undeclared topics are routed or kept, with a hook or without."""
    hooks = Hooks()
    if kind == "hooks":
        hooks.add(Censor())
    topics = None if kind == "route" else AT_ONCE
    server = Server(topics=topics, hooks=hooks, payload_bytes_max=300)
    server.kernel.durable.add(TopicFilter("b"))  # its messages of QoS 1 are kept, in any case
    if kind == "retainer":
        retaining = Retaining(RetainRules(enabled=False), server.now, server.store)
        server.kernel.steps.add("retained", retaining.step, messages=False)
    return server


def some_events(seed):
    """Return events of which many follow one at the same topic."""
    rng = random.Random(seed)
    events = []
    while len(events) < 60:
        topic, qos = rng.choice(TOPICS), rng.choice((0, 0, 1))
        for _ in range(rng.choice((1, 1, 4))):
            kind = rng.choice((*[MESSAGE] * 12, PUT, DELETE))
            payload = rng.choices((b'{"name":"%d"}' % len(events), LARGE, b"{"), (8, 1, 1))[0]
            payload = payload if kind != DELETE else b""
            level = qos if rng.random() < 0.9 else 1 - qos
            events.append(Event(topic, kind, payload, None, level, kind != MESSAGE))
    return events


async def outcome_of(server, events, caller, submit):
    """Return the outcome of each event, what was announced, and what is stored."""
    heard, outcomes = Listener(server), {}

    def note(index, outcome):
        outcomes[index] = outcome.code if isinstance(outcome, Error) else None

    submit(events, [partial(note, index) for index in range(len(events))], caller)
    await server.committer.settle()
    await server.turn()
    announced = [(event.topic, event.payload, bool(event.seq)) for event in heard.events]
    written = [(event.topic, event.properties, event.table) for event in heard.events]
    await server.stop()
    return outcomes, announced, written


@pytest.mark.parametrize("caller", [ANN, NAMELESS, READER], ids=["named", "nameless", "reader"])
@pytest.mark.parametrize("kind", ["route", "table", "hooks", "retainer"])
@pytest.mark.parametrize("seed", range(5))
async def test_a_run_does_what_its_writes_do_one_by_one(seed, kind, caller):
    """Outcomes, announcements and their order do not depend on how writes come."""
    alone, together = world(kind), world(kind)

    def one_by_one(events, dones, caller):
        for event, done in zip(events, dones, strict=True):
            alone.kernel.submit(event, caller, done)

    expected = await outcome_of(alone, some_events(seed), caller, one_by_one)
    found = await outcome_of(together, some_events(seed), caller, together.kernel.submit_run)
    assert len(expected[0]) == len(some_events(seed))
    assert expected == found


@pytest.mark.parametrize("kind", ["route", "table"])
@pytest.mark.parametrize(
    "odd",
    [
        Event("b", MESSAGE, b"odd", qos=1),
        Event("b", MESSAGE, LARGE),
        Event("b", PUT, b"odd", retain=True),
        Event("c", MESSAGE, b"odd"),
        Event("b", MESSAGE, b"as the others"),
    ],
    ids=["qos", "size", "kind", "topic", "same"],
)
async def test_one_that_differs_in_a_run_at_one_topic(kind, odd):
    """Also where the messages before it are announced together."""
    alone, together = world(kind), world(kind)

    def one_by_one(events, dones, caller):
        for event, done in zip(events, dones, strict=True):
            alone.kernel.submit(event, caller, done)

    def events():
        first = [Event("b", MESSAGE, b"%d" % index) for index in range(6)]
        return [*first[:4], odd.changed(), *first[4:]]

    await first_write(alone)
    await first_write(together)
    expected = await outcome_of(alone, events(), ANN, one_by_one)
    found = await outcome_of(together, events(), ANN, together.kernel.submit_run)
    assert 7 == len(found[0])
    assert expected == found


async def first_write(server):
    """Write once, so that the route is known."""
    await server.say("b", b"first")


async def test_a_run_without_room_is_refused_from_one_write_on():
    """What comes later does not overtake what was refused, though it is smaller."""
    size = WRITE_BYTES + 100
    server = Server(TABLES, topics=AT_ONCE, bounds=WriteBounds(client_max=3 * size))
    payloads = [b"x" * 100, b"x" * 300, b"x" * 10, b"x" * 10]
    events = [Event("a", MESSAGE, payload) for payload in payloads]
    server.kernel.submit(Event("b", MESSAGE, b"y" * 100), ANN)  # something of its caller waits
    outcomes, announced, _ = await outcome_of(server, events, ANN, server.kernel.submit_run)
    assert [None] + [Code.BUSY] * 3 == [outcomes[index] for index in range(4)]
    assert [b"y" * 100, payloads[0]] == [payload for _, payload, _ in announced]
