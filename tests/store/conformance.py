"""The store's interface as tests: each class of them is run on every store.

A test module derives ``Conformance`` and gives a fixture ``place`` with ``start()``, which opens
the store anew, as after a restart, and closes the one before.
"""

from decimal import Decimal

import pytest
from conformance_queries import QueryConformance
from conformance_states import StateConformance
from conformance_topic_tables import TopicTableConformance
from store_cases import (
    DOG,
    FULL,
    JSON,
    NUMBER,
    OPEN,
    OTHER_DOG,
    all_seen,
    before_and_after,
    seen,
)

from rowcast.codecs import encode
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, MISSING, PATCH, PUT
from rowcast.core.topic_tables import branch_of
from rowcast.core.topics import TopicFilter
from rowcast.store.read_limit import ReadLimit
from rowcast.store.store import Keep

ALL = 10**6


class Conformance(QueryConformance, StateConformance, TopicTableConformance):
    """What every store does."""

    # -- commits and records

    def test_new_store_is_empty(self, store):
        assert (store.head(), store.reserved(), store.last_version()) == (0, 0, 0)
        assert store.read(0, ALL) == []
        assert store.count(None) == store.count(DOG) == 0
        assert len(store.epoch) == 8

    def test_databases_may_have_tables_of_one_name(self, place, writer):
        """A6: records, counts and history of each are its own, also after a restart."""
        store = place.start()
        store.commit([writer.value(DOG, "a", {"name": "Rex"})])
        store.commit([writer.value(OTHER_DOG, "a", {"name": "Ada"})])
        store.commit([writer.event("Dog/a", DELETE, table=DOG)])
        for opened in before_and_after(store, place):
            assert (opened.count(DOG), opened.count(OTHER_DOG)) == (0, 1)
            assert opened.get(DOG, "Dog/a") is None
            assert opened.get(OTHER_DOG, "other-dogs/a").decoded == {"id": "a", "name": "Ada"}
            kinds = [[event.kind for event in opened.read(0, ALL, sources=[table])]
                     for table in (DOG, OTHER_DOG)]  # fmt: skip
            assert kinds == [[PUT, DELETE], [PUT]]

    def test_typed_record_comes_back_as_its_value(self, store, writer):
        store.commit([writer.value(DOG, "rex", FULL, client="c", qos=1, expires_at=5.5)])
        record = store.get(DOG, "Dog/rex")
        assert record.decoded == FULL
        assert (record.kind, record.content_type, record.retain) == (PUT, JSON, True)
        assert (record.client, record.qos, record.expires_at) == ("c", 1, 5.5)
        assert (record.seq, record.version, record.table) == (1, 1 << 16, DOG)

    def test_typed_record_has_plain_json_whatever_it_was_written_in(self, store, writer):
        """A19: a declared date is plain text for a JSON reader."""
        event = writer.value(DOG, "a", {"price": Decimal("1.50"), "zeta": 1, "name": "A"})
        event.payload = encode(event.decoded, "application/cbor")
        event.content_type = "application/cbor"
        store.commit([event])
        expected = b'{"id":"a","name":"A","price":"1.50","zeta":1}'
        assert store.get(DOG, "Dog/a").payload == expected

    @pytest.mark.parametrize(
        "value",
        [
            {},
            {"name": None},
            {"name": None, "other": None},
            {"weight": float("inf")},
            {"weight": -0.0},
            {"extra": None},
            {"extra": [None]},
            {"tags": []},
            {"price": Decimal("-0.00")},
            {"": 1, "a.b": {"": None}},
            {"$date": 5},
            {"name": "nul \0 in it", "photo": b""},
        ],
        ids=repr,
    )
    def test_value_comes_back_equal(self, store, writer, value):
        store.commit([writer.value(DOG, "a", value)])
        assert store.get(DOG, "Dog/a").decoded == {"id": "a", **value}

    def test_nan_comes_back(self, store, writer):
        store.commit([writer.value(DOG, "a", {"weight": float("nan"), "extra": float("nan")})])
        value = store.get(DOG, "Dog/a").decoded
        assert [repr(value[name]) for name in ("weight", "extra")] == ["nan", "nan"]

    def test_integer_in_a_float_attribute_comes_back_as_a_float(self, store, writer):
        store.commit([writer.value(DOG, "a", {"weight": 5})])
        assert repr(store.get(DOG, "Dog/a").decoded["weight"]) == "5.0"

    def test_put_replaces_all_of_a_record(self, store, writer):
        store.commit([writer.value(DOG, "a", FULL, properties={"x": 1}, expires_at=1.0)])
        store.commit([writer.value(DOG, "a", {"age": 1})])
        record = store.get(DOG, "Dog/a")
        assert record.decoded == {"id": "a", "age": 1}
        assert (record.properties, record.expires_at) == (None, 0.0)

    def test_patch_event_holds_the_whole_record(self, store, writer):
        store.commit([writer.value(DOG, "a", {"age": 1}, kind=PATCH)])
        record = store.get(DOG, "Dog/a")
        assert (record.kind, record.decoded) == (PUT, {"id": "a", "age": 1})

    @pytest.mark.parametrize(
        ("payload", "content_type", "value"),
        [
            (b'{ "b": 1,\n"a": 2.0 }', JSON, {"b": 1, "a": 2.0}),
            (b"[1]", "application/json; charset=utf-8", [1]),
            (b'{"a":1}', None, {"a": 1}),
            (b"7", None, 7),
            (b"\xa1", "application/cbor", {"a": b"x"}),
            (b"\xff\x00", "image/png", MISSING),
            (b"", None, MISSING),
        ],
        ids=repr,
    )
    def test_open_table_gives_back_the_same_bytes(
        self, store, writer, payload, content_type, value
    ):
        """A18, B21: bytes in, the same bytes and media type out."""
        event = writer.event("Open/x/y", PUT, payload, OPEN, value, content_type=content_type)
        store.commit([event])
        record = store.get(OPEN, "Open/x/y")
        assert (record.payload, record.content_type) == (payload, content_type)

    def test_undeclared_topic_keeps_bytes_properties_and_qos(self, store, writer):
        """E22, D40: what travels with a retained message is kept with it."""
        properties = {"user": [["a", "1"], ["a", "2"]], "correlation": b"\x00", "format": 1}
        event = writer.event("a/b", PUT, b"\x01", qos=2, properties=properties, expires_at=9.25)
        store.commit([event])
        record = store.get(None, "a/b")
        assert record.properties == properties
        assert (record.payload, record.qos, record.expires_at) == (b"\x01", 2, 9.25)
        assert store.read(0, 1)[0].fields == event.fields

    def test_message_leaves_the_record(self, store, writer):
        """D49: a message is in the log, and the record is as it was."""
        store.commit([writer.event("t", PUT, b"1"), writer.event("t", MESSAGE, b"2")])
        assert store.get(None, "t").payload == b"1"
        assert [event.payload for event in store.read(0, ALL)] == [b"1", b"2"]

    def test_delete_removes_the_record(self, store, writer):
        store.commit([writer.event("t", PUT, b"1")])
        store.commit([writer.delete("t")])
        assert (store.get(None, "t"), store.count(None)) == (None, 0)

    def test_commit_tells_what_was_there_before_each_event(self, store, writer):
        events = [
            writer.event("t", MESSAGE, b""),
            writer.event("t", PUT, b"1"),
            writer.event("t", PUT, b"2"),
            writer.delete("t"),
            writer.delete("t"),
            writer.event("t", PUT, b"3"),
            writer.event("t", MESSAGE, b""),
        ]
        assert store.commit(events) == [False, False, True, True, False, False, False]
        assert store.commit([writer.event("t", PUT, b"4")]) == [True]

    def test_empty_commit_does_nothing(self, store):
        assert (store.commit([]), store.head()) == ([], 0)

    def test_many_events_of_several_tables_in_one_commit(self, store, writer):
        events = []
        for number in range(700):
            events.append(writer.event(f"t/{number % 500}", PUT, b"%d" % number))
            events.append(writer.value(DOG, f"d{number % 300}", {"age": number}))
            events.append(writer.value(NUMBER, number % 100, {"name": str(number)}))
        assert sum(store.commit(events)) == 200 + 400 + 600
        assert [store.count(table) for table in (None, DOG, NUMBER)] == [500, 300, 100]
        assert store.get(DOG, "Dog/d99").decoded["age"] == 699
        assert [event.seq for event in store.read(0, ALL)] == list(range(1, 2101))

    def test_lookup_finds_what_is_there(self, store, writer):
        store.commit([writer.event("t", PUT, b"1"), writer.value(NUMBER, 7, {})])
        wanted = [(None, "t"), (None, "u"), (NUMBER, "deep/Number/7"), (NUMBER, "deep/Number/x")]
        found = store.lookup(wanted)
        assert set(found) == {"t", "deep/Number/7"}
        assert seen(found["t"]) == seen(store.get(None, "t"))

    def test_integer_key_is_one_spelling(self, store, writer):
        store.commit([writer.value(NUMBER, -7, {"name": "a"})])
        assert store.get(NUMBER, "deep/Number/-7").decoded == {"n": -7, "name": "a"}
        assert store.get(NUMBER, "deep/Number/-07") is None
        assert store.get(NUMBER, "other") is None
        with pytest.raises(Error) as caught:
            store.commit(
                [writer.event("t", PUT), writer.event("deep/Number/07", PUT, table=NUMBER)]
            )
        assert caught.value.code is Code.INVALID
        assert (store.head(), store.get(None, "t")) == (1, None)

    # -- positions and restarts

    def test_all_is_there_after_a_restart(self, place, store, writer):
        store.reserve(500)
        store.commit([writer.value(DOG, "a", FULL), writer.event("t", PUT, b"1")])
        store.commit([writer.value(OPEN, "o", {"a": 1}), writer.event("t", MESSAGE, b"2")])
        before = (store.epoch, store.head(), store.reserved(), store.last_version())
        records = all_seen([store.get(DOG, "Dog/a"), store.get(None, "t")])
        events = all_seen(store.read(0, ALL))
        again = place.start()
        assert (again.epoch, again.head(), again.reserved(), again.last_version()) == before
        assert before[1:] == (4, 500, 4 << 16)
        assert all_seen([again.get(DOG, "Dog/a"), again.get(None, "t")]) == records
        assert all_seen(again.read(0, ALL)) == events
        assert [again.count(table) for table in (DOG, OPEN, None)] == [1, 1, 1]

    def test_reserve_never_goes_back(self, store):
        store.reserve(10)
        store.reserve(5)
        assert store.reserved() == 10

    def test_last_version_is_the_greatest(self, store, writer):
        store.commit([writer.event("t", PUT, version=50)])
        store.commit([writer.event("t", PUT, version=7)])
        assert store.last_version() == 50

    def test_folded_events_equal_the_records(self, store, writer):
        """The one idea: a record is the last event at its topic."""
        store.commit([writer.value(DOG, f"d{n % 7}", {"age": n, "x": None}) for n in range(30)])
        store.commit([writer.delete("Dog/d1", DOG), writer.value(DOG, "d2", {}, kind=PATCH)])
        folded = {}
        for event in store.read(0, ALL):
            folded[event.topic] = event.seq if event.kind != DELETE else None
        records = store.scan(DOG, TopicFilter("Dog/#"), "", ALL).records
        assert {record.topic: record.seq for record in records} == {
            topic: seq for topic, seq in folded.items() if seq
        }

    # -- the log

    def test_read_pages_in_order(self, store, writer):
        store.commit([writer.event(f"t{n}", MESSAGE, b"%d" % n) for n in range(10)])
        assert [event.seq for event in store.read(3, 4)] == [4, 5, 6, 7]

    def test_read_of_one_table(self, store, writer):
        store.commit([writer.event("t", PUT), writer.value(DOG, "a", {}), writer.event("u", PUT)])
        assert [event.seq for event in store.read(0, ALL, [None])] == [1, 3]
        assert [event.seq for event in store.read(0, ALL, [DOG])] == [2]

    def test_event_of_the_log_is_as_it_came(self, store, writer):
        events = [
            writer.value(DOG, "a", {"age": 1}, client="x"),
            writer.event("Dog/a", MESSAGE, b"\xff", DOG, retain=False, content_type="a/b"),
            writer.delete("Dog/a", DOG),
        ]
        store.commit(events)
        assert [event.fields for event in store.read(0, ALL)] == [e.fields for e in events]

    def test_history_of_one_topic(self, store, writer):
        store.commit([writer.value(DOG, "ab"[n % 2], {"age": n}) for n in range(6)])
        assert [event.seq for event in store.history(DOG, "Dog/a", 2)] == [3, 5]
        assert [event.seq for event in store.history(DOG, "Dog/a", ALL)] == [1, 3, 5]
        assert [event.seq for event in store.history(DOG, "Dog/a", 2, 5)] == [1, 3]
        assert store.history(DOG, "Dog/a", 0) == store.history(None, "Dog/a", 5) == []

    def test_b14_change_is_the_last_that_made_or_ended_a_record(self, store, writer):
        """B14: up to a position; what was only said changes nothing."""
        kinds = (PUT, MESSAGE, PATCH, DELETE, MESSAGE)
        store.commit([writer.event("a/t", kind, b"%d" % n) for n, kind in enumerate(kinds)])
        store.commit([writer.value(DOG, "a", {}), writer.event("a/u", PUT)])
        branch = branch_of("a/t")
        found = [store.change(branch, "a/t", until) for until in (0, 1, 2, 3, 4, 99)]
        assert [event and event.seq for event in found] == [None, 1, 1, 3, 4, 4]
        assert store.change(DOG, "Dog/a", 6).topic == "Dog/a"
        assert store.change(DOG, "Dog/a", 5) is None
        assert store.change(DOG, "Cat/a", 9) is None
        store.trim(None, Keep(events=1), 0, ALL)
        assert store.change(branch, "a/t", 99) is None

    def test_b13_one_topic_is_followed_a_page_at_a_time(self, store, writer):
        """B13: in order, of one topic alone."""
        store.commit([writer.event(f"a/{'tu'[n % 2]}", PUT) for n in range(8)])
        store.commit([writer.value(DOG, "a", {})])
        branch = branch_of("a/t")
        pages = [store.follow(branch, "a/t", after, 2) for after in (0, 1, 3, 5, 7)]
        assert [[1, 3], [3, 5], [5, 7], [7], []] == [[e.seq for e in page] for page in pages]
        assert [9] == [event.seq for event in store.follow(DOG, "Dog/a", 0, ALL)]
        assert [] == store.follow(DOG, "a/t", 0, ALL) == store.follow(branch, "Dog/a", 0, ALL)

    def test_since_is_just_before_the_first_event(self, store, writer):
        events = [writer.event("t", PUT, version=version) for version in (10, 20, 15, 30)]
        store.commit([*events, writer.value(DOG, "a", {}, version=99)])
        found = [store.since(None, version) for version in (0, 10, 11, 21, 30, 31)]
        assert found == [0, 0, 1, 3, 3, 5]

    # -- trimming

    def test_trim_by_count_keeps_the_newest(self, store, writer):
        store.commit([writer.event("t", PUT, b"%d" % n) for n in range(10)])
        store.commit([writer.value(DOG, "a", {})])
        assert store.trim(None, Keep(events=4), 0, ALL) == 6
        assert [event.seq for event in store.read(0, ALL)] == [7, 8, 9, 10, 11]
        assert (store.trimmed(None), store.trimmed(DOG)) == (6, 0)
        assert store.get(None, "t").seq == 10

    def test_trim_by_age(self, store, writer):
        store.commit([writer.event("t", PUT, version=n * 1_000_000) for n in range(10)])
        assert store.trim(None, Keep(seconds=5), 9.0, ALL) == 4
        assert store.trimmed(None) == 4

    def test_trim_by_bytes(self, store, writer):
        store.commit([writer.event("t", PUT, b"x" * 10) for n in range(10)])
        assert store.trim(None, Keep(bytes=35), 0, ALL) == 7

    def test_trim_goes_in_steps(self, store, writer):
        store.commit([writer.event("t", PUT) for n in range(10)])
        steps = [store.trim(None, Keep(events=3), 0, 4) for _ in range(3)]
        assert (steps, store.trimmed(None)) == ([4, 3, 0], 7)

    def test_trim_without_limits_keeps_all(self, store, writer):
        store.commit([writer.event("t", PUT)])
        assert store.trim(None, Keep(), 1e12, ALL) == 0

    def test_head_survives_a_trim_of_everything(self, place, store, writer):
        """Numbers are never used again, even when the log is empty."""
        store.commit([writer.event("t", PUT, b"xx"), writer.value(DOG, "a", {})])
        assert store.trim(DOG, Keep(seconds=1), 1e9, ALL) == 1
        assert store.trim(None, Keep(bytes=1), 0, ALL) == 1
        assert (store.head(), store.read(0, ALL)) == (2, [])
        again = place.start()
        assert (again.head(), again.trimmed(DOG), again.trimmed(None)) == (2, 2, 1)
        assert again.get(DOG, "Dog/a").seq == 2

    # -- the rest

    def test_p1_a_limited_read_gives_its_answer_or_the_limits_error(self, store, writer):
        store.commit([writer.event("t", PUT, b"1")])
        limit = ReadLimit()
        assert store.limited(limit, lambda: store.get(None, "t")).payload == b"1"
        limit.end(Error(Code.BUSY, "enough"))
        with pytest.raises(Error, match="enough"):
            store.limited(limit, lambda: store.get(None, "t"))

    def test_expired_records_of_all_tables(self, store, writer):
        """E17, A5: what is over is found, the longest over first."""
        store.commit(
            [
                writer.event("t", PUT, expires_at=30.0),
                writer.event("u", PUT),
                writer.value(DOG, "a", {}, expires_at=10.0),
                writer.value(DOG, "b", {}, expires_at=50.0),
            ]
        )
        assert [record.topic for record in store.expired(30.0, ALL)] == ["Dog/a", "t"]
        assert [record.topic for record in store.expired(30.0, 1)] == ["Dog/a"]
        assert store.expired(9.9, ALL) == []

    def test_expired_records_behind_a_place(self, store, writer):
        """A5: those that cannot be deleted are passed, also where many expire at once."""
        topics = [f"t/{n}" for n in range(3)]
        at_once = [writer.event(topic, PUT, expires_at=20.0) for topic in topics]
        first = writer.event("first", PUT, expires_at=10.0)
        store.commit([*at_once, writer.value(DOG, "a", {}, expires_at=20.0), first])
        every = [record.topic for record in store.expired(30.0, ALL)]
        assert every[0] == "first"
        for limit in (1, 2, ALL):
            for passed in range(4):
                found = store.expired(30.0, limit, (20.0, passed))
                assert [record.topic for record in found] == every[1 + passed :][:limit]

    def test_versions_return_when_a_clock_was_ahead(self, store, writer):
        """P6: what is last is what the server goes on from; times are found by what comes now."""
        second = 1_000_000
        store.commit([writer.event("t", PUT, version=10 * second)])
        store.commit([writer.event("t", PUT, version=900 * second)])
        store.return_versions(20 * second)
        assert 20 * second == store.last_version()
        store.return_versions(30 * second)
        assert 20 * second == store.last_version()
        store.commit([writer.event("t", PUT, version=25 * second)])
        assert 25 * second == store.last_version()
        assert 0 == store.since(None, 10 * second)

    def test_a_version_far_ahead_tells_no_age(self, store, writer):
        """P6: what a wrong clock wrote is forgotten with what is beside it, not years later."""
        second = 1_000_000
        for seconds in (10, 9000, 9001, 20, 9002, 1000, 9003):
            store.commit([writer.event("t", PUT, version=seconds * second)])
        keep = Keep(seconds=100)
        assert 0 == store.trim(None, keep, 100.0, ALL)
        assert 1 == store.trim(None, keep, 115.0, ALL)
        assert 3 == store.trim(None, keep, 121.0, ALL)
        assert [5, 6, 7] == [event.seq for event in store.read(0, ALL)]
        assert 2 == store.trim(None, keep, 1101.0, ALL)
        assert [7] == [event.seq for event in store.read(0, ALL)]

    def test_the_next_expiry_of_all_tables(self, store, writer):
        """A5: what a timer is set for; records that replace or delete others count no more."""
        assert store.next_expiry() is None
        store.commit([writer.event("t", PUT, expires_at=30.0), writer.event("u", PUT)])
        assert 30.0 == store.next_expiry()
        store.commit([writer.value(DOG, "a", {}, expires_at=10.5)])
        assert 10.5 == store.next_expiry()
        store.commit([writer.value(DOG, "a", {}), writer.event("t", DELETE)])
        assert store.next_expiry() is None
