"""Equal reads that are asked for together are one (C25)."""

import asyncio
import random

import pytest

from build import ANN, DOG, Server, turns
from rowcast.core.conditions import Condition, Operator
from rowcast.core.errors import Code, Error
from rowcast.core.events import CURRENT, SNAPSHOT
from rowcast.core.queries import Query
from rowcast.core.query_text import parse_query
from rowcast.core.topics import TopicFilter
from rowcast.reads.shared_reads import SharedReads, query_key
from rowcast.subscriptions.subscribed_filters import SubscribedFilter
from rowcast.subscriptions.subscription import Subscription
from virtual import Threads


class Store:
    """Answers with the number of the read, on threads that a test moves."""

    def __init__(self):
        self.reads, self.value = 0, 0
        self.threads = Threads()
        self.threads.hold()
        self.shared = SharedReads()

    def read(self):
        self.reads += 1
        return self.value

    def ask(self, key="k"):
        async def run(call):
            return await asyncio.wrap_future(self.threads.submit(call))

        def read():
            return self.read()  # what it is when a thread begins

        return asyncio.ensure_future(self.shared.read(key, read, run))


@pytest.mark.slow
async def test_those_who_ask_before_a_read_begins_share_it():
    """C25."""
    store = Store()
    asked = [store.ask() for _ in range(1_000)]
    await turns()
    store.threads.step()
    await turns()
    assert ([0] * 1_000, 1, 999) == ([task.result() for task in asked], store.reads,
                                     store.shared.shared)  # fmt: skip


async def test_those_who_ask_while_it_reads_wait_for_the_next():
    """C25: what was written before one asked is in the answer."""
    store = Store()
    first, late, original = store.ask(), [], store.read

    def read():
        found = original()
        store.value = 1  # written when this read had seen what it sees
        late.extend(store.ask() for _ in range(100))
        return found

    store.read = read
    await turns()
    store.threads.step()
    store.read = original
    await turns(50)
    assert (0, False) == (first.result(), any(task.done() for task in late))
    store.threads.step()
    await turns()
    assert [1] * 100 == [task.result() for task in late]
    assert 2 == store.reads


async def test_different_reads_are_not_shared():
    store = Store()
    asked = [store.ask(key) for key in ("a", "b")]
    await turns()
    store.threads.release()
    await turns()
    assert (2, [0, 0]) == (store.reads, [task.result() for task in asked])


@pytest.mark.parametrize("how", ["leaves", "fails"])
async def test_when_the_first_leaves_or_fails_the_others_read_for_themselves(how):
    """C25: nobody's time limit, or lost connection, is another's."""
    store = Store()
    if how == "fails":
        failures = [Error(Code.BUSY, "the time is over")]

        def read():
            store.reads += 1
            if failures:
                raise failures.pop()
            return store.value

        store.read = read
    first, *others = [store.ask() for _ in range(5)]
    await turns()
    if how == "leaves":
        first.cancel()
        await turns()
        store.threads.waiting.popleft()
    else:
        store.threads.step()
    await turns()
    assert not any(task.done() for task in others)
    store.threads.step()
    await turns()
    assert [0] * 4 == [task.result() for task in others]
    assert first.cancelled() or Code.BUSY == first.exception().code


async def test_nobody_waits_for_more_than_two_reads_that_fail():
    """C25: where all reads fail, the last of many readers has its answer with the others."""
    store = Store()

    def read():
        store.reads += 1
        raise Error(Code.BUSY, "the time is over")

    store.read = read
    asked = [store.ask() for _ in range(50)]
    for waiting in (1, 1, 48):
        await turns()
        assert waiting == len(store.threads.waiting)
        while store.threads.waiting:
            store.threads.step()
    await turns()
    assert {Code.BUSY} == {task.exception().code for task in asked}


class Joined:
    """A client that keeps what it is told."""

    def __init__(self, server, text):
        self.state, self.current, self.snapshots = {}, 0, 0
        self.subscription = Subscription(server.reader, text)
        interest = SubscribedFilter(TopicFilter(text), 1)
        server.kernel.watch(self.subscription, interest, ANN, current=True)

    def take(self):
        for event, _ in self.subscription.take(1_000):
            if event.kind == CURRENT:
                self.current += 1
            elif event.kind == "delete":
                self.state.pop(event.topic, None)
            elif event.topic:
                self.snapshots += event.kind == SNAPSHOT
                assert event.kind != SNAPSHOT or event.topic not in self.state, event.topic
                self.state[event.topic] = event.payload


@pytest.mark.parametrize("seed", range(20))
async def test_all_who_join_while_others_write_have_what_is_there(seed):
    """C25, C3: with pages of two records, and reads that are held at any moment."""
    rng = random.Random(seed)
    server = Server(reading={"table_scan_records": 2, "scan_records": 2})
    there, clients = {}, []
    for step in range(120):
        topic = f"{rng.choice(('Dog', 'yard'))}/{rng.randrange(6)}"
        work = rng.random()
        if work < 0.3:
            clients += [Joined(server, rng.choice(("Dog/+", "yard/#"))) for _ in range(4)]
        elif work < 0.4 and topic in there:
            await server.delete(topic)
            del there[topic]
        elif work < 0.7:
            there[topic] = b'{"age":%d}' % step
            await server.put(topic, there[topic])
        elif work < 0.8:
            server.readers.hold()
        elif server.readers.waiting and work < 0.9:
            server.readers.step()
        else:
            server.readers.release()
        for client in rng.sample(clients, len(clients) // 2):
            client.take()
        await turns(rng.randrange(5))
    server.readers.release()
    for _ in range(30):
        await turns()
        for client in clients:
            client.take()
    for client in clients:
        of = client.subscription.client_id.partition("/")[0]
        wanted = {topic: value for topic, value in there.items() if topic.startswith(of)}
        assert wanted.keys() == client.state.keys()
        assert 1 == client.current
    assert server.reader.shared.shared > 0


@pytest.mark.slow
async def test_a_thousand_clients_that_join_at_a_time_read_a_table_once():
    """C25: a page for all, not one for each."""
    server = Server(readers=Threads())
    for number in range(50):
        await server.put(f"Dog/{number:02}")
    server.readers.hold()
    clients = [Joined(server, "Dog/+") for _ in range(1_000)]
    for client in clients:
        client.take()
    await turns()
    assert 1 == len(server.readers.waiting)
    server.readers.release()
    await turns(2_000)
    for client in clients:
        client.take()
    assert {50} == {client.snapshots for client in clients}
    assert 999 == server.reader.shared.shared


async def test_equal_live_queries_that_begin_together_are_one_search():
    """C25, M3."""
    server = Server()
    await server.put("Dog/1", b'{"age":3}')
    query = parse_query("age=gt=2", DOG)
    server.readers.hold()
    asked = [asyncio.ensure_future(server.reader.selected(DOG, query)) for _ in range(10)]
    await turns()
    assert 1 == len(server.readers.waiting)
    server.readers.release()
    await turns()
    assert [["Dog/1"]] * 10 == [[item.topic for item in task.result().records] for task in asked]


def test_queries_that_python_takes_for_equal_are_not_shared():
    """C25: 1, 1.0 and true are different conditions."""
    values = (1, 1.0, True)
    keys = {
        query_key(DOG, Query(where=Condition(("age",), Operator.EQ, value))) for value in values
    }
    assert 3 == len(keys)
    assert query_key(DOG, Query(where=Condition(("age",), Operator.EQ, [1]))) is None
