"""The store's interface as tests: each class of them is run on every store.

A test module derives ``Conformance`` and gives a fixture ``place`` with ``start()``, which opens
the store anew, as after a restart, and closes the one before.
"""

from decimal import Decimal

import pytest
from store_cases import DOG, FULL, JSON, NUMBER, OPEN, ROOT, Writer, all_seen, seen

from app.codecs import json_text
from app.core.errors import Code, Error
from app.core.events import DELETE, MESSAGE, MISSING, PATCH, PUT
from app.core.queries import Condition, Group, Operator, Query, Sort
from app.core.topics import TopicFilter
from app.store.store import Keep

ALL = 10**6


@pytest.fixture
def store(place):
    return place.start()


@pytest.fixture
def writer():
    return Writer()


def dogs(store, query):
    return [record.topic.removeprefix("Dog/") for record in store.search(DOG, query).records]


def topics(page):
    return [record.topic for record in page.records]


def where(name, operator, value):
    return Query(Condition((name,), operator, value))


class Conformance:
    """What every store does."""

    # -- commits and records

    def test_new_store_is_empty(self, store):
        assert (store.head(), store.reserved(), store.last_version()) == (0, 0, 0)
        assert store.read(0, ALL) == []
        assert store.count(None) == store.count(DOG) == 0
        assert len(store.epoch) == 8

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
        event.payload, event.content_type = b"\xa1", "application/cbor"
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
        assert store.commit(events) == [False, False, True, True, False, False, True]
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
        assert [event.seq for event in store.read(0, ALL, None, one_table=True)] == [1, 3]
        assert [event.seq for event in store.read(0, ALL, DOG, one_table=True)] == [2]

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
        assert store.history(DOG, "Dog/a", 0) == store.history(None, "Dog/a", 5) == []

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
        store.commit([writer.event("t", PUT, version=(n * 1000) << 16) for n in range(10)])
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

    # -- scans

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("#", ["a", "a/b", "a/b/c", "a/c", "a/d/c", "a0", "b/b", "é/b"]),
            ("a/#", ["a", "a/b", "a/b/c", "a/c", "a/d/c"]),
            ("a/+/c", ["a/b/c", "a/d/c"]),
            ("+/b", ["a/b", "b/b", "é/b"]),
            ("+", ["a", "a0"]),
            ("a/b", ["a/b"]),
            ("a/x", []),
            ("$SYS/#", ["$SYS/x", "$SYS/y"]),
            ("zz/#", []),
        ],
    )
    def test_scan_selects_by_filter(self, store, writer, text, expected):
        names = ["é/b", "b/b", "a", "a/b", "a/b/c", "a/c", "a/d/c", "a0", "$SYS/x", "$SYS/y"]
        store.commit([writer.event(name, PUT) for name in names])
        assert topics(store.scan(None, TopicFilter(text), "", ALL)) == expected

    def test_scan_pages_with_a_position(self, store, writer):
        store.commit([writer.event(f"t/{n:02}/x", PUT) for n in range(10)])
        first = store.scan(None, TopicFilter("t/+/x"), "", 4)
        assert (first.position, first.more, len(first.records)) == (10, True, 4)
        second = store.scan(None, TopicFilter("t/+/x"), first.records[-1].topic, 6)
        assert (second.more, topics(second)[0], len(second.records)) == (False, "t/04/x", 6)

    def test_scan_of_a_declared_table(self, store, writer):
        """A11: ids of several levels."""
        store.commit([writer.value(DOG, name, {}) for name in ("a", "a/b", "c/b", "x%y")])
        scan = store.scan
        assert topics(scan(DOG, TopicFilter("Dog/#"), "", ALL)) == [
            "Dog/a",
            "Dog/a/b",
            "Dog/c/b",
            "Dog/x%y",
        ]
        assert topics(scan(DOG, TopicFilter("Dog/+/b"), "", ALL)) == ["Dog/a/b", "Dog/c/b"]
        assert topics(scan(DOG, TopicFilter("Dog/+"), "Dog/a", ALL)) == ["Dog/x%y"]
        assert topics(scan(DOG, TopicFilter("+/a"), "", ALL)) == ["Dog/a"]
        assert topics(scan(DOG, TopicFilter("Dog/a"), "", ALL)) == ["Dog/a"]
        assert topics(scan(DOG, TopicFilter("Cat/#"), "", ALL)) == []
        assert topics(scan(DOG, TopicFilter("Dog/a"), "Dog/a", ALL)) == []

    def test_scan_of_integer_keys_is_in_their_order(self, store, writer):
        store.commit([writer.value(NUMBER, number, {}) for number in (10, 9, -1, 100)])
        every = topics(store.scan(NUMBER, TopicFilter("deep/Number/+"), "", ALL))
        assert every == [f"deep/Number/{number}" for number in (-1, 9, 10, 100)]
        scan = store.scan(NUMBER, TopicFilter("deep/#"), "deep/Number/9", 1)
        assert (topics(scan), scan.more) == (["deep/Number/10"], True)
        one = store.scan(NUMBER, TopicFilter("+/+/9"), "", ALL)
        assert topics(one) == ["deep/Number/9"]
        assert topics(store.scan(NUMBER, TopicFilter("+/9"), "", ALL)) == []
        assert topics(store.scan(NUMBER, TopicFilter("+/+/x"), "", ALL)) == []

    def test_scan_of_a_table_at_the_root(self, store, writer):
        store.commit([writer.value(ROOT, "x/y", {"name": "a"})])
        assert topics(store.scan(ROOT, TopicFilter("x/#"), "", ALL)) == ["x/y"]

    # -- queries

    @pytest.fixture
    def pack(self, store, writer):
        values = {
            "a": {"name": "Anna", "age": 3, "weight": 1.5, "price": Decimal("10.0"), "x": "u"},
            "b": {"name": "Bert", "age": 1, "weight": 2.0, "price": Decimal("9.00"), "x": 5},
            "c": {"name": None, "age": 2, "price": Decimal(10)},
            "d": {"name": "Anton", "weight": float("nan"), "home": {"city": "Ulm"}},
        }
        store.commit([writer.value(DOG, key, value) for key, value in values.items()])
        return store

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            (Query(), "abcd"),
            (where("name", Operator.EQ, "Anna"), "a"),
            (where("name", Operator.EQ, None), "c"),
            (where("name", Operator.NE, "Anna"), "bcd"),
            (where("name", Operator.STARTS_WITH, "An"), "ad"),
            (where("name", Operator.ENDS_WITH, "n"), "d"),
            (where("name", Operator.CONTAINS, "n"), "ad"),
            (where("age", Operator.GE, 2), "ac"),
            (where("age", Operator.IN, (1, 2, None)), "bcd"),
            (where("weight", Operator.EQ, None), "cd"),
            (where("weight", Operator.LT, 2), "a"),
            (where("price", Operator.EQ, Decimal(10)), "ac"),
            (where("price", Operator.LT, Decimal(10)), "b"),
            (where("x", Operator.EQ, "u"), "a"),
            (where("x", Operator.EQ, Decimal(5)), "b"),
            (where("id", Operator.GT, "b"), "cd"),
            (where("$id", Operator.EQ, "b"), "b"),
            (Query(Condition(("home", "city"), Operator.EQ, "Ulm")), "d"),
            (Query(sort=(Sort(("name",)),)), "adbc"),
            (Query(sort=(Sort(("name",), descending=True),)), "bdac"),
            (Query(sort=(Sort(("price",)), Sort(("age",)))), "bcad"),
            (Query(sort=(Sort(("x",)),), limit=2), "ba"),
            (Query(limit=2, offset=1), "bc"),
            (Query(limit=0), ""),
            (Query(Group(())), "abcd"),
            (Query(Group((), all_of=False)), ""),
        ],
        ids=repr,
    )
    def test_search(self, pack, query, expected):
        assert "".join(dogs(pack, query)) == expected
        if query.limit is None and not query.offset:
            assert pack.matching(DOG, query) == len(expected)

    def test_search_joins_conditions(self, pack):
        young = Condition(("age",), Operator.LE, 1)
        cheap = Condition(("price",), Operator.EQ, Decimal(10))
        named = Condition(("name",), Operator.STARTS_WITH, "A")
        assert dogs(pack, Query(Group((young, cheap), all_of=False))) == ["a", "b", "c"]
        assert dogs(pack, Query(Group((cheap, named)))) == ["a"]

    @pytest.mark.parametrize("path", ["name", "weight", "price", "x", "id", "$id"])
    @pytest.mark.parametrize("descending", [False, True])
    def test_pages_of_a_search_join_to_the_whole(self, pack, path, descending):
        sort = (Sort((path,), descending),)
        whole = dogs(pack, Query(sort=sort))
        found, after = [], None
        while after != "":
            page = pack.search(DOG, Query(sort=sort, limit=1, after=after))
            found += [record.topic.removeprefix("Dog/") for record in page.records]
            assert page.more == bool(page.after)
            after = page.after
        assert found == whole

    def test_page_is_stable_when_records_come_before_it(self, pack, writer):
        first = pack.search(DOG, Query(sort=(Sort(("age",)),), limit=2))
        writer.seq = pack.head()
        pack.commit([writer.value(DOG, "0", {"age": 0}), writer.delete("Dog/b", DOG)])
        rest = pack.search(DOG, Query(sort=(Sort(("age",)),), after=first.after))
        assert topics(rest) == ["Dog/a", "Dog/d"]

    def test_foreign_token_is_refused(self, pack):
        token = pack.search(DOG, Query(limit=1)).after
        with pytest.raises(Error) as caught:
            pack.search(DOG, Query(sort=(Sort(("age",)),), after=token))
        assert caught.value.code is Code.INVALID

    def test_search_of_an_open_table(self, store, writer):
        store.commit(
            [
                writer.value(OPEN, "a", {"t": 5, "s": "x"}),
                writer.value(OPEN, "b", [1]),
                writer.event("Open/c", PUT, b"\xff", OPEN, content_type="image/png"),
                writer.value(OPEN, "d", {"t": Decimal(7), "\\u": {"$map": 1}}),
            ]
        )
        assert topics(store.search(OPEN, where("t", Operator.GT, 4))) == ["Open/a", "Open/d"]
        assert topics(store.search(OPEN, where("s", Operator.EQ, "x"))) == ["Open/a"]
        assert store.matching(OPEN, where("t", Operator.EQ, None)) == 2

    @pytest.mark.parametrize(
        ("payload", "path", "operator", "value"),
        [
            (b'{"\\u0061": "x"}', ("a",), Operator.EQ, "x"),
            (b'{"a": "\\u0078"}', ("a",), Operator.EQ, "x"),
            (b'{"a": {"$decimal": "5.0"}}', ("a",), Operator.EQ, 5),
            (b'{"a": {"$decimal": "-5"}}', ("a",), Operator.LT, 0),
            (b'{"$map": {"$date": 5}}', ("$date",), Operator.EQ, 5),
            (b'{"\\u0024map": {"$date": 5}}', ("$date",), Operator.EQ, 5),
            (b'{"a": {"b.c[0]": {"": 1}}}', ("a", "b.c[0]", ""), Operator.EQ, 1),
            (b'{"a": 9007199254740993}', ("a",), Operator.GT, 9007199254740992),
            (b'{"a": 1e308}', ("a",), Operator.GE, 1e308),
            (b'{"a": {"$float": "Infinity"}}', ("a",), Operator.GT, 1),
            (b'{"a": true}', ("a",), Operator.EQ, True),
        ],
        ids=repr,
    )
    def test_search_sees_through_every_spelling_of_json(
        self, store, writer, payload, path, operator, value
    ):
        """However a writer spells its JSON, a condition on an undeclared value finds it."""
        decoded = json_text.decode(payload)
        store.commit([writer.event("Open/a", PUT, payload, OPEN, decoded, content_type=JSON)])
        assert store.matching(OPEN, Query(Condition(path, operator, value))) == 1

    def test_float_is_compared_exactly_with_a_large_integer(self, store, writer):
        store.commit([writer.value(DOG, "a", {"weight": 2.0**53})])
        assert store.matching(DOG, where("weight", Operator.EQ, 2**53)) == 1
        assert store.matching(DOG, where("weight", Operator.EQ, 2**53 + 1)) == 0
        assert store.matching(DOG, where("weight", Operator.GE, 2**53 + 1)) == 0

    @pytest.mark.parametrize("text", ["a", "\ud7ff", "\uffff", "\U0010ffff", "", "a\0"])
    def test_prefix_of_any_character(self, store, writer, text):
        names = [text, text + "\U0010ffff", text + "a", "zz", None]
        store.commit([writer.value(DOG, str(n), {"name": name}) for n, name in enumerate(names)])
        expected = sum(name is not None and name.startswith(text) for name in names)
        assert store.matching(DOG, where("name", Operator.STARTS_WITH, text)) == expected

    def test_bytes_in_a_typed_table_have_no_attributes(self, store, writer):
        store.commit([writer.value(DOG, "a", {})])
        store.commit([writer.event("Dog/b", PUT, b"\xff", DOG, content_type="image/png")])
        assert store.get(DOG, "Dog/b").payload == b"\xff"
        assert store.matching(DOG, where("id", Operator.GE, "a")) == 1
        assert dogs(store, Query(sort=(Sort(("id",), descending=True),))) == ["a", "b"]

    def test_text_of_a_caller_is_never_sql(self, store, writer):
        evil = "x'\"; DROP TABLE Dog; --"
        store.commit([writer.value(DOG, evil.replace("/", ""), {"name": evil, evil: 1})])
        assert store.matching(DOG, where("name", Operator.EQ, evil)) == 1
        assert store.matching(DOG, where(evil, Operator.EQ, 1)) == 1
        assert len(store.search(DOG, Query(sort=(Sort((evil,)),))).records) == 1

    # -- the rest

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
