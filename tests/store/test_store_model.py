"""Random operations do the same to the SQLite store as to the memory store.

The invariant: whatever is written, in whatever batches, with restarts in between, every question
that the interface knows has the same answer from both.
"""

import shutil
import tempfile
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from random_values import ANYTHING, BLOBS, DOG_VALUES, NAMES, SCALARS, SORTS, WHERE, WORDS
from store_cases import DOG, NUMBER, OPEN, ROOT, TABLES, Writer, all_seen

from amounts import amount
from memory_store import MemoryStore
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, MESSAGE, MISSING, PATCH, PUT
from rowcast.core.queries import Query
from rowcast.core.topics import TopicFilter
from rowcast.store.sqlite import SqlStore
from rowcast.store.store import Change, Keep

pytestmark = pytest.mark.slow

ALL = 10**6
IDS = st.sampled_from(["a", "a/b", "a/b/c", "b", "b/b", "$x", "é", "a0", "", "a\0"])
KEYS = st.sampled_from(["0", "1", "-5", "10", "9", "2147483647"])
TABLE = st.sampled_from([DOG, NUMBER, OPEN, ROOT, None])
FILTERS = st.sampled_from(
    [
        *("#", "+", "+/#", "+/b", "+/+", "+/b/#", "a/#", "a", "$x/#", "+/a/+"),
        *("Dog/#", "Dog/+", "Dog/+/b", "Dog/a/#", "Dog", "Dog/a", "Open/+", "Open/a/#"),
        *("deep/#", "deep/+/10", "deep/Number/9"),
    ]
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    stores = MemoryStore(), SqlStore(tmp_path_factory.mktemp("pair"))
    for store in stores:
        store.open(TABLES)
    yield stores
    stores[1].close()


@settings(
    max_examples=amount(long=200, short=50), deadline=None, suppress_health_check=list(HealthCheck)
)
@given(
    table=st.sampled_from([DOG, OPEN]),
    values=st.lists(DOG_VALUES, min_size=1, max_size=8),
    queries=st.lists(st.builds(Query, WHERE, st.none(), SORTS), min_size=1, max_size=10),
)
def test_any_query_has_the_answer_of_its_definition(pair, table, values, queries):
    """The reference is ``core/evaluation.py``; SQL agrees with it on every value and page."""
    memory, sql = pair
    writer = Writer(memory.head())
    old = [record.topic for record in memory.scan(table, TopicFilter("#"), "", ALL).records]
    events = [writer.delete(topic, table) for topic in old]
    events += [writer.value(table, str(n), value) for n, value in enumerate(values)]
    assert memory.commit(events) == sql.commit(events)
    for query in queries:
        assert memory.matching(table, query) == sql.matching(table, query)
        token = None
        while token != "":
            page = replace(query, limit=2, after=token)
            expected, found = memory.search(table, page), sql.search(table, page)
            assert all_seen(expected.records) == all_seen(found.records)
            token = expected.after
            assert token == found.after


class Stores(RuleBasedStateMachine):
    """Both stores, and one writer of events for both."""

    def __init__(self):
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.memory = MemoryStore()
        self.sql = SqlStore(self.directory)
        self.writer = Writer()
        self.waiting = []
        self.changes = []

    def teardown(self):
        self.sql.close()
        shutil.rmtree(self.directory)

    @initialize()
    def open(self):
        for store in (self.memory, self.sql):
            store.open(TABLES)

    def both(self, ask):
        """Ask both; the answers are equal, and so are the refusals."""
        answers = []
        for store in (self.memory, self.sql):
            try:
                answers.append(ask(store))
            except Error as error:
                answers.append(error.code)
        assert answers[0] == answers[1]
        return answers[0]

    # -- writing

    def put(self, event):
        self.waiting.append(event)

    @rule(
        record=IDS,
        value=DOG_VALUES,
        kind=st.sampled_from([PUT, PATCH]),
        expires=st.sampled_from([0.0, 5.0, 5.5]),
        properties=st.sampled_from([None, {}, {"user": [["a", "b"]], "data": b"x"}]),
    )
    def put_dog(self, record, value, kind, expires, properties):
        more = {"kind": kind, "expires_at": expires, "properties": properties, "qos": 1}
        self.put(self.writer.value(DOG, record, value, **more))

    @rule(record=KEYS, name=WORDS, rest=st.dictionaries(NAMES, SCALARS, max_size=1))
    def put_number(self, record, name, rest):
        self.put(self.writer.value(NUMBER, record, {**rest, "name": name}))

    @rule(
        record=IDS,
        value=ANYTHING | DOG_VALUES,
        content_type=st.sampled_from(["application/json", None, "application/cbor"]),
    )
    def put_open(self, record, value, content_type):
        self.put(self.writer.value(OPEN, record, value, content_type=content_type))

    @rule(table=st.sampled_from([OPEN, ROOT, DOG, None]), record=IDS, payload=BLOBS)
    def put_bytes(self, table, record, payload):
        assume(table is not ROOT or record)  # a topic has a character at least (MQTT-4.7.3-1)
        topic = table.topic(record) if table else f"t/{record}"
        self.put(self.writer.event(topic, PUT, payload, table, MISSING, content_type="image/png"))

    @rule(record=IDS, expires=st.sampled_from([0.0, 4.0]), qos=st.sampled_from([0, 2]))
    def put_topic(self, record, expires, qos):
        self.put(self.writer.event(f"t/{record}", PUT, b"x", expires_at=expires, qos=qos))

    @rule(table=TABLE, record=IDS, key=KEYS, kind=st.sampled_from([DELETE, MESSAGE]))
    def put_other(self, table, record, key, kind):
        record = key if table is NUMBER else record
        assume(table is not ROOT or record)
        topic = table.topic(record) if table else f"t/{record}"
        payload = b"" if kind == DELETE else b"m"
        version = self.writer.seq - 3 << 16
        self.put(self.writer.event(topic, kind, payload, table, version=max(0, version)))

    @rule(
        owner=st.sampled_from(["s/a", "s/b", "s/ab", "s/%", "é"]),
        name=st.sampled_from(["", "1", "2", "_"]),
        value=st.none() | BLOBS,
    )
    def change(self, owner, name, value):
        self.changes.append(Change(owner, name, value))

    @rule()
    def commit(self):
        events, self.waiting = self.waiting, []
        changes, self.changes = self.changes, []
        self.both(lambda store: store.commit(events, changes))

    @rule(
        table=TABLE,
        keep=st.sampled_from(
            [Keep(events=3), Keep(bytes=9), Keep(seconds=2), Keep(events=5, bytes=1)]
        ),
        limit=st.sampled_from([1, 4, ALL]),
    )
    def trim(self, table, keep, limit):
        self.both(lambda store: store.trim(table, keep, self.writer.seq / 1000, limit))

    @rule()
    def restart(self):
        self.sql.close()
        self.sql = SqlStore(self.directory)
        self.open()

    @rule(seq=st.integers(1, 1000))
    def reserve(self, seq):
        self.both(lambda store: store.reserve(seq))

    # -- reading

    @invariant()
    def same_facts(self):
        self.both(lambda store: (store.head(), store.reserved(), store.last_version()))
        self.both(lambda store: (store.states(""), store.states("s/a"), store.states("s/%")))
        for table in (*TABLES, None):
            self.both(lambda store, table=table: (store.count(table), store.trimmed(table)))

    @rule(after=st.integers(0, 30), limit=st.sampled_from([1, 5, ALL]), table=TABLE)
    def read(self, after, limit, table):
        self.both(lambda store: all_seen(store.read(after, limit)))
        self.both(lambda store: all_seen(store.read(after, limit, [table])))
        self.both(lambda store: store.since(table, after << 16))

    @rule(record=IDS, key=KEYS)
    def look(self, record, key):
        wanted = [(DOG, f"Dog/{record}"), (None, f"t/{record}"), (OPEN, f"Open/{record}")]
        wanted.append((NUMBER, f"deep/Number/{key}"))

        def ask(store):
            found = store.lookup(wanted)
            return {topic: all_seen([record]) for topic, record in found.items()}

        self.both(ask)
        for table, topic in wanted:
            self.both(lambda store, of=(table, topic): all_seen([store.get(*of)]))
            self.both(lambda store, of=(table, topic): all_seen(store.history(*of, 3)))

    @rule(table=TABLE, text=FILTERS, limit=st.sampled_from([1, 2, ALL]))
    def scan(self, table, text, limit):
        after, more = "", True
        while more:
            last = after

            def ask(store, last=last):
                page = store.scan(table, TopicFilter(text), last, limit)
                return page.position, all_seen(page.records), page.more

            _, records, more = self.both(ask)
            after = records[-1][0] if records else ""

    @rule(
        table=st.sampled_from([DOG, DOG, NUMBER, OPEN, ROOT]),
        where=WHERE,
        sort=SORTS,
        limit=st.sampled_from([None, 0, 1, 2]),
        offset=st.sampled_from([0, 0, 1]),
    )
    def search(self, table, where, sort, limit, offset):
        query = Query(where, None, sort, limit, offset)
        self.both(lambda store: store.matching(table, query))
        token = None
        while token != "":
            page = Query(where, None, sort, limit, offset, token)

            def ask(store, page=page):
                found = store.search(table, page)
                return found.position, all_seen(found.records), found.after, found.more

            token = self.both(ask)[2]

    @rule(now=st.sampled_from([3.0, 4.0, 5.5]))
    def expired(self, now):
        self.both(lambda store: sorted(record.topic for record in store.expired(now, ALL)))
        self.both(lambda store: store.next_expiry())


TestStores = Stores.TestCase
TestStores.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
