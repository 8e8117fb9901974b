"""Facts go to the disk with the writes they belong to, or not at all (D16, D27)."""

import gc
import logging
from weakref import ref

import pytest

from build import ANN, Code, Listener, Server, turns
from rowcast.cluster.forwarding import ForwardingCommitter
from rowcast.core.callers import ALL, NONE, Caller
from rowcast.core.errors import Error
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.routes.resource import Resource
from rowcast.store.store import Change
from rowcast.writes.batch import take
from rowcast.writes.pending_bytes import WriteBounds
from rowcast.writes.write import Condition, Group, Receipt, Write

BUSY = Error(Code.BUSY, "the disk is full")
NEVER = Condition(exists=True)


def fact(name, value=b"1", owner="s"):
    return Change(owner, name, value)


def put(topic, *changes, outcomes=None, **options):
    told = outcomes.append if outcomes is not None else lambda _outcome: None
    event = Event(topic, PUT, b"1", "application/json", 1, True, decoded=1)
    return Write(event, ANN, told, changes=changes, **options)


def message(topic, *changes, outcomes=None):
    told = outcomes.append if outcomes is not None else lambda _outcome: None
    return Write(Event(topic, MESSAGE, b"1"), ANN, told, logged=False, changes=changes)


def grouped(*writes):
    group = Group(list(writes))
    for write in writes:
        write.group = group
    return list(writes)


def failing(store, *errors):
    """Make the next commits of a store fail; None is one that does not."""
    left = list(errors)

    def fault(name):
        error = left.pop(0) if name == "commit" and left else None
        if error is not None:
            raise error

    store.fault = fault


def names(room):
    return [name for _, name, _ in room.store.states("")]


# -- with a write ----------------------------------------------------------------------------------


async def test_facts_of_a_write_are_in_its_transaction():
    room, batches = Server(), []
    store_commit = room.store.commit
    room.store.commit = lambda *batch: [batches.append(batch), store_commit(*batch)][1]
    room.committer.submit([put("u/1", fact("a")), put("u/2"), put("u/3", fact("b"), fact("c"))])
    await room.committer.settle()
    ((events, changes),) = batches
    assert ["u/1", "u/2", "u/3"] == [event.topic for event in events]
    assert ["a", "b", "c"] == [change.name for change in changes]


async def test_facts_of_a_refused_write_are_not_kept():
    room, outcomes = Server(), []
    refused = put("u/1", fact("a"), outcomes=outcomes, condition=NEVER)
    room.committer.submit([refused, put("u/2", fact("b"))])
    await room.committer.settle()
    assert (Code.PRECONDITION, ["b"]) == (outcomes[0].code, names(room))


async def test_facts_of_a_group_share_its_fate():
    room = Server()
    room.committer.submit(grouped(put("u/1", fact("a")), put("u/2", fact("b"), condition=NEVER)))
    room.committer.submit(grouped(put("u/3", fact("c")), put("u/4", fact("d"))))
    await room.committer.settle()
    assert ["c", "d"] == names(room)


class Hearer:
    """Hears of a write; whether it is still there tells whether the write is."""

    def __call__(self, _outcome):
        """Hear the outcome."""


async def test_b11_writes_of_a_group_leave_memory_when_they_are_answered():
    """B11: the group and its writes name each other, and do not wait for a collection."""
    room, hearers = Server(), [Hearer(), Hearer()]
    gc.disable()
    try:
        events = [Event(f"u/{n}", PUT, b"1", None, 1, True) for n in range(2)]
        room.committer.submit(grouped(*map(Write, events, (ANN, ANN), hearers)))
        await room.committer.settle()
        left = [ref(hearer) for hearer in hearers]
        hearers.clear()
        assert [None, None] == [hearer() for hearer in left]
    finally:
        gc.enable()


class Follower(Server):
    """The parts of a node that proposes its writes to another one."""

    def _committer(self, bounds):
        self.store.restore = None  # nothing is followed here
        parts = (self.store, self.bus, self.cache, self.clock, self.writer, bounds)
        return ForwardingCommitter(*parts, node="b")


async def test_b11_writes_of_a_group_leave_memory_when_a_follower_answers_them():
    """B11: likewise where another node has decided them."""
    room, hearers = Follower(), [Hearer(), Hearer()]
    gc.disable()
    try:
        events = [Event(f"u/{n}", PUT, b"1", None, 1, True) for n in range(2)]
        writes = grouped(*map(Write, events, (ANN, ANN), hearers))
        for write in writes:
            room.committer.pending.hold(ANN, write.size)
        room.committer._announce_and_answer(writes, [BUSY, BUSY])
        left = [ref(hearer) for hearer in hearers]
        hearers.clear()
        del write, writes
        assert [None, None] == [hearer() for hearer in left]
    finally:
        gc.enable()


@pytest.mark.heavy
async def test_b11_writes_of_a_group_leave_memory_when_they_are_refused():
    """B11: likewise where there is no room for them, and nobody answers them."""
    room = Server(bounds=WriteBounds(client_high=1, client_max=2, high=1, most=2, batch=1))
    room.writer.held = True
    room.committer.submit([put("u/1")])

    async def refused():
        events = [Event(f"Dog/{n}", PUT, b"{}", None, 1, True) for n in range(2)]
        try:
            await room.kernel.write_all(events, ANN, atomic=True)
        except Error as error:
            return error.code
        return None

    gc.disable()
    try:
        before = writes_in_memory()
        assert Code.BUSY is await refused()
        assert set() == writes_in_memory() - before
    finally:
        gc.enable()
    room.writer.release()
    await room.committer.settle()


def writes_in_memory():
    """Return the identities of all writes and groups that were not freed."""
    return {id(known) for known in gc.get_objects() if type(known) in {Group, Write}}


async def test_facts_of_an_unlogged_message_are_durable_before_it_is_announced():
    room, seen, outcomes = Server(), [], []
    listener = Listener(room)
    listener.offer = lambda _event: seen.append(names(room))
    room.committer.submit([message("u/1", fact("a"), outcomes=outcomes)])
    await room.committer.settle()
    assert ([["a"]], 0, 0) == (seen, outcomes[0].event.seq, room.committer.announced)
    assert 0 == room.store.reserved()  # no number is used


async def test_a_full_disk_refuses_an_unlogged_message_that_has_facts():
    room, outcomes = Server(), []
    listener = Listener(room)
    failing(room.store, BUSY)
    room.committer.submit([message("u/1", fact("a"), outcomes=outcomes), message("u/2")])
    await room.committer.settle()
    assert ([BUSY], ["u/2"], []) == (outcomes, listener.topics, names(room))


async def test_writes_that_are_tried_alone_keep_their_facts():
    room, outcomes = Server(), []
    surprise = RuntimeError("a surprise")
    failing(room.store, surprise, None, surprise, None)
    room.committer.submit([put(f"u/{n}", fact(f"f{n}"), outcomes=outcomes) for n in range(3)])
    await room.committer.settle()
    assert [Receipt, Error, Receipt] == [type(outcome) for outcome in outcomes]
    assert ["f0", "f2"] == names(room)


# -- without a write -------------------------------------------------------------------------------


async def test_facts_that_wait_are_one_transaction():
    room, told = Server(), []
    for number in range(5):
        room.committer.keep([fact(f"f{number}")], told.append)
    room.committer.keep([fact("quiet")])
    await room.committer.settle()
    assert (1, [None] * 5, 6) == (room.committer.commits, told, len(names(room)))


async def test_facts_keep_their_place_among_writes():
    room, told = Server(), []
    first = put("u/1", fact("a", b"first"))
    first.done = lambda _outcome: told.append("written")
    room.committer.submit([first])
    room.committer.keep([fact("a", b"second")], lambda _error: told.append("kept"))
    room.committer.submit([put("u/2", fact("b", b"third"))])
    room.committer.keep([fact("b", None)])
    await room.committer.settle()
    assert ([("s", "a", b"second")], ["written", "kept"]) == (room.store.states(""), told)
    assert (1, 2) == (room.committer.commits, room.committer.announced)


async def test_nothing_to_keep_is_kept_after_what_came_before():
    room, told = Server(), []
    room.committer.submit([put("u/1")])
    room.committer.keep([], lambda error: told.append((error, room.committer.announced)))
    await room.committer.settle()
    room.committer.keep([], told.append)
    await room.committer.settle()
    assert ([(None, 1), None], 1) == (told, room.committer.commits)


async def test_facts_count_towards_a_batch_and_a_group_is_not_split():
    room = Server(bounds=WriteBounds(batch_events=3))
    room.committer.keep([fact("a"), fact("b")])
    room.committer.submit(grouped(put("u/1"), put("u/2"), put("u/3")))
    room.committer.keep([fact("c")])
    room.committer.keep([fact("d"), fact("e"), fact("f"), fact("g")])
    room.committer.keep([fact("h")])
    await room.committer.settle()
    assert (3, list("abcdefgh")) == (room.committer.commits, names(room))
    assert 0 == len(take(room.committer._waiting, 1))


async def test_a_busy_disk_is_told_to_who_waits_and_logged_for_who_does_not(caplog):
    caplog.set_level(logging.ERROR, "rowcast.commit")
    room, told = Server(), []
    failing(room.store, BUSY)
    room.committer.keep([fact("a")], told.append)
    room.committer.keep([fact("b")])
    room.committer.keep([fact("c")])
    await room.committer.settle()
    assert ([BUSY], []) == (told, names(room))
    assert ["facts were not kept: the disk is full"] == caplog.messages


async def test_facts_that_the_store_cannot_take_do_not_fail_their_neighbours(caplog):
    room, told, outcomes = Server(), [], []
    surprise = RuntimeError("a surprise")
    failing(room.store, surprise, None, surprise, None, None)
    room.committer.submit([put("u/1", outcomes=outcomes)])
    room.committer.keep([fact("a")], told.append)
    room.committer.submit([put("u/2", outcomes=outcomes)])
    room.committer.keep([fact("b")], told.append)
    await room.committer.settle()
    assert [Receipt, Receipt] == [type(outcome) for outcome in outcomes]
    assert ([Code.BUSY, None], ["b"]) == ([told[0].code, told[1]], names(room))
    assert "facts alone" in caplog.text


async def test_too_many_facts_are_refused():
    room, told = Server(bounds=WriteBounds(backlog_changes=3)), []
    room.committer.keep([fact(str(number)) for number in range(5)])  # one that is large may be
    room.committer.keep([fact("a")], told.append)
    assert [Code.BUSY] == [error.code for error in told]
    await room.committer.settle()
    room.committer.keep([fact("a"), fact("b"), fact("c")], told.append)
    room.committer.keep([fact("d")], told.append)
    assert 2 == len(told)
    await room.committer.settle()
    room.committer.keep([fact("d")], told.append)
    await room.committer.settle()
    assert ([None, None], True) == (told[2:], "d" in names(room))


async def test_one_who_fails_to_listen_harms_nobody_else(caplog):
    room, told = Server(), []
    room.committer.keep([fact("a")], lambda _error: 1 / 0)
    room.committer.keep([fact("b")], told.append)
    await room.committer.settle()
    assert ([None], ["a", "b"]) == (told, names(room))
    assert "the callback for 1 stored facts failed" in caplog.text


async def test_settle_waits_for_facts():
    room = Server()
    room.writer.held = True
    room.committer.keep([fact("a")])
    await turns()
    room.committer.keep([fact("b")])
    room.writer.release()
    await room.committer.settle()
    assert ["a", "b"] == names(room)


async def test_facts_at_the_very_end_are_answered():
    """The threads are gone: nobody waits for ever, however much waits."""
    room, told, outcomes = Server(bounds=WriteBounds(batch_events=1)), [], []
    room.writer.stopped = True
    room.committer.keep([fact("a")], told.append)
    room.committer.submit([put("u/1", fact("b"), outcomes=outcomes), put("u/2", outcomes=outcomes)])
    await room.committer.settle()
    assert [Code.BUSY] * 3 == [error.code for error in (*told, *outcomes)]


# -- through the door ------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["u/1", "Dog/1", "Note/1"])
async def test_submitted_facts_are_kept_once_the_write_is_accepted(topic):
    room, outcomes = Server(), []
    event = Event(topic, MESSAGE, b"{}", qos=0)
    room.kernel.submit(event, ANN, outcomes.append, changes=[fact("a")])
    assert outcomes == []
    await room.committer.settle()
    assert ([Receipt], ["a"]) == ([type(outcome) for outcome in outcomes], names(room))


@pytest.mark.parametrize(
    ("topic", "caller", "payload"),
    [("u/1", Caller(grants=NONE), b""), ("Dog/1", ANN, b"no dog"), ("$SYS/x", ANN, b"")],
)
async def test_submitted_facts_of_a_refused_write_are_not_kept(topic, caller, payload):
    room, outcomes = Server(), []
    room.kernel.submit(
        Event(topic, PUT, payload, qos=1, retain=True),
        caller,
        outcomes.append,
        changes=[fact("a")],
    )
    await room.committer.settle()
    assert ([Error], []) == ([type(outcome) for outcome in outcomes], names(room))


class Careful(Resource):
    """Writes, then thinks again."""

    async def put(self, value):
        await super().put(value)
        if value == {"bad": True}:
            raise Error(Code.INVALID, "too late")

    async def publish(self, value):
        """Keep it to itself."""


@pytest.mark.parametrize(
    ("kind", "payload", "expected"),
    [(PUT, b"{}", ["a"]), (PUT, b'{"bad":true}', []), (MESSAGE, b"{}", ["a"])],
)
async def test_facts_follow_what_a_resource_class_did(kind, payload, expected):
    room, outcomes = Server(resources=[("Careful", Careful)]), []
    event = Event("Careful/1", kind, payload, "application/json", 1)
    caller = Caller("ann", ALL, "mqtt")
    room.kernel.submit(event, caller, outcomes.append, changes=[fact("a")])
    await turns(20)
    assert (expected, 1) == (names(room), len(outcomes))
    assert bool(expected) == isinstance(outcomes[0], Receipt)


async def test_facts_that_fail_after_a_resource_class_are_told():
    room, outcomes = Server(resources=[("Careful", Careful)]), []
    failing(room.store, BUSY)
    event = Event("Careful/1", MESSAGE, b"{}", "application/json", 1)
    room.kernel.submit(event, ANN, outcomes.append, changes=[fact("a")])
    await turns(20)
    assert [BUSY] == outcomes
