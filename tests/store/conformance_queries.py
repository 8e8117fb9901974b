"""The store's interface as tests, its second part: scans and queries."""

from dataclasses import replace
from decimal import Decimal

import pytest
from store_cases import DOG, JSON, NUMBER, OPEN, ROOT

from rowcast.codecs import json_text
from rowcast.core.conditions import Condition, Group, Operator
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT
from rowcast.core.grouping import Aggregate, GroupFunction, Grouping, Groups
from rowcast.core.queries import Query, Sort
from rowcast.core.query_text import parse_query
from rowcast.core.topics import TopicFilter
from rowcast.store.store import Scan

ALL = 10**6


def dogs(store, query):
    return [record.topic.removeprefix("Dog/") for record in store.search(DOG, query).records]


def topics(page):
    return [record.topic for record in page.records]


def where(name, operator, value):
    return Query(Condition((name,), operator, value))


def _as(path, number):
    """Return a number as a value of an attribute."""
    kinds = {"price": Decimal, "name": str}
    return kinds.get(path, int)(number)


class QueryConformance:
    """What every store finds."""

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

    def test_several_scans_are_as_each_by_itself(self, store, writer):
        store.commit([writer.event(f"t/{n}/x", PUT) for n in range(5)])
        store.commit([writer.value(DOG, name, {}) for name in ("a", "b")])
        scans = [
            *(Scan(None, TopicFilter(text), "") for text in ("t/+/x", "t/3/#", "t/1/x", "none/+")),
            Scan(DOG, TopicFilter("Dog/+"), "Dog/a"),
        ]
        pages = store.scan_all(scans, ALL, ALL)
        alone = [store.scan(*scan, ALL) for scan in scans]
        assert list(map(topics, pages)) == list(map(topics, alone))
        assert {(page.position, page.more) for page in pages} == {(7, False)}
        assert list(map(len, map(topics, pages))) == [5, 1, 1, 0, 1]

    @pytest.mark.parametrize(
        ("limit", "size", "expected"),
        [
            (4, ALL, [(3, False), (1, True)]),
            (3, ALL, [(3, False)]),
            (2, ALL, [(2, True)]),
            (6, ALL, [(3, False), (3, False)]),
            (ALL, 1, [(1, True)]),
            (ALL, 401, [(3, False), (2, True)]),
            (ALL, 300, [(3, False)]),
            (ALL, ALL, [(3, False), (3, False), (0, False)]),
        ],
    )
    def test_several_scans_have_one_bound(self, store, writer, limit, size, expected):
        """A page with more is the last; there is at least one record if there is any."""
        names = [f"{first}/{n}" for first in "ab" for n in range(3)]
        store.commit([writer.event(name, PUT, b"x" * 100) for name in names])
        scans = [Scan(None, TopicFilter(f"{first}/+"), "") for first in "abc"]
        pages = store.scan_all(scans, limit, size)
        assert [(len(page.records), page.more) for page in pages] == expected

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
        again = store.scan(NUMBER, TopicFilter("+/+/9"), "deep/Number/9", ALL)
        assert topics(again) == []
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

    @pytest.mark.parametrize("extra", [None, "age", "price"])
    def test_m4_search_by_the_time_of_the_last_write(self, pack, extra):
        """With no other condition, one that SQL decides, and one that it does not."""
        conditions = {"age": (Operator.LE, 3), "price": (Operator.LE, Decimal(11))}
        with_it = {None: "abcd", "age": "abc", "price": "abc"}[extra]
        condition = Condition((extra,), *conditions[extra]) if extra else None
        records = pack.search(DOG, Query()).records
        versions = {record.topic[-1]: record.version for record in records}
        below = versions["c"]
        old = "".join(key for key in with_it if versions[key] < below)
        new = "".join(key for key in with_it if versions[key] >= below)
        for stale, expected in ((True, old), (False, new)):
            query = Query(condition, stale=stale, stale_below=below)
            assert expected == "".join(dogs(pack, query))
            assert len(expected) == pack.matching(DOG, query)
            assert expected[:1] == "".join(dogs(pack, replace(query, limit=1)))

    @pytest.mark.parametrize("path", ["age", "price", "x", "name"])
    def test_a_long_list_of_choices(self, store, writer, path):
        """More than SQL joins on one level, of columns that it compares and others."""
        store.commit([writer.value(DOG, str(n), {path: _as(path, n)}) for n in (3, 1500, 4000)])
        choices = tuple(_as(path, n) for n in range(1, 3000))
        assert dogs(store, where(path, Operator.IN, choices)) == ["1500", "3"]
        assert dogs(store, where(path, Operator.IN, ())) == []

    @pytest.mark.parametrize(
        "text",
        [
            "count()",
            "count(),sum(age),avg(weight),min(name),max(born)",
            "name,count(),count(price)",
            "good,min(photo),max(id)",
            "age,weight",
            "born,sum(steps)",
            "id,max(age)",
            "$id,count()",
            "name,sum(price),min(price)",
            "price,count()",
            "home.city,count()",
            "x,sum(x)",
            "name,min(good)",
            "name,avg(extra)",
        ],
    )
    @pytest.mark.parametrize("where", ["", "age=gt=0", "price=gt=1", "age=gt=10000"])
    def test_groups(self, pack, text, where):
        """B19: in SQL or one by one, the same as adding up the records that a search finds."""
        query = parse_query(f"{where}&group({text})", DOG, groups=True)
        expected = Groups(query.group, ALL)
        for record in pack.search(DOG, Query(query.where)).records:
            expected.add(record.decoded, record.topic.removeprefix("Dog/"))
        found = pack.grouped(DOG, replace(query, group=None), query.group, ALL)
        assert [list(row) for row in found] == [query.group.names] * len(found)
        assert [pytest.approx(row) for row in expected.rows()] == found

    def test_groups_by_the_time_of_the_last_write(self, pack):
        below = pack.search(DOG, Query()).records[1].version
        asked = Query(stale=True, stale_below=below)
        count = Grouping((), (Aggregate(GroupFunction.COUNT),))
        assert pack.grouped(DOG, asked, count, 1) == [{"count()": pack.matching(DOG, asked)}]

    def test_a_sum_beyond_64_bits(self, store, writer):
        steps = [2**63 - 1, 2**63 - 1, -1]
        dogs = [writer.value(DOG, str(n), {"steps": it}) for n, it in enumerate(steps)]
        store.commit(dogs)
        grouping = parse_query("group(sum(steps),count())", DOG, groups=True).group
        (found,) = store.grouped(DOG, Query(), grouping, 1)
        assert found == {"sum(steps)": 2**64 - 3, "count()": 3}

    @pytest.mark.parametrize("path", ["age", "x"])
    def test_too_many_groups(self, store, writer, path):
        store.commit([writer.value(DOG, str(n), {path: n}) for n in range(3)])
        grouping = Grouping(((path,),))
        assert len(store.grouped(DOG, Query(), grouping, 3)) == 3
        with pytest.raises(Error, match="more than 2 groups"):
            store.grouped(DOG, Query(), grouping, 2)

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
