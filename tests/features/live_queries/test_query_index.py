"""The index of live queries finds all that match, and little else (M3)."""

import random

import pytest
from random_queries import VALUES, random_conditions, random_table

from rowcast.core.conditions import holds
from rowcast.core.errors import Error
from rowcast.core.query_text import parse_query
from rowcast.core.tables import Attribute, Table, Type
from rowcast.core.values import Checker
from rowcast.features.live_queries.intervals import Interval, Intervals
from rowcast.features.live_queries.query_index import QueryIndex

TABLE = Table(
    "T", "T", (Attribute("a", Type.INT), Attribute("b", Type.STRING), Attribute("c", Type.ANY))
)


def where(text, table=TABLE):
    return parse_query(text, table).where


def random_value(chance, checker, table):
    while True:
        value = {
            item.name: VALUES[item.type](chance)
            for item in table.attributes[1:]
            if chance.random() < 0.8
        }
        try:
            return checker.check(value)
        except Error:
            continue


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(20))
def test_m3_every_query_that_matches_is_found(seed):
    """M3: whatever queries came and went before."""
    chance = random.Random(seed)
    table, index, queries = random_table(chance), QueryIndex(), {}
    checker = Checker(table)
    for number in range(200):
        name = f"q{number % 120}"
        if name in queries:
            index.remove(name)
            del queries[name]
        try:
            queries[name] = where(random_conditions(chance, table), table)
        except Error:
            continue
        index.add(name, queries[name])
        value = random_value(chance, checker, table)
        matching = {name for name, one in queries.items() if holds(one, value, "1")}
        found = index.find("1", value)
        assert matching <= found, {name: queries[name] for name in matching - found}
        assert found <= queries.keys(), "it is removed"


@pytest.mark.heavy
def test_m3_what_is_found_does_not_grow_with_the_queries_that_do_not_match():
    """M3: equalities, ranges, prefixes, alternatives; each of a thousand."""
    index = QueryIndex()
    for number in range(1_000):
        index.add(f"eq{number}", where(f"a=={number}"))
        index.add(f"in{number}", where(f"c=in=({number},x{number})"))
        index.add(f"range{number}", where(f"a=ge={number * 10}&a=lt={number * 10 + 10}"))
        index.add(f"prefix{number}", where(f"b==x{number:04}*"))
        index.add(f"or{number}", where(f"a=={number}|b==x{number:04}y"))
        index.add(f"and{number}", where(f"b!=z&a=={number}&c=ct=q"))
    found = index.find("1", {"a": 20, "b": "x0007y", "c": 7})
    expected = {"eq20", "in7", "range2", "prefix7", "or20", "or7", "and20"}
    assert expected <= found
    assert len(found) <= len(expected) + 2  # the ends of neighbouring intervals touch


def test_a_query_without_terms_is_compared_with_every_record():
    index = QueryIndex()
    for number, text in enumerate(("a!=1", "b=ct=x", "b=ew=x", "a==1|b!=x")):
        index.add(str(number), where(text))
    index.add("all", None)
    assert {"0", "1", "2", "3", "all"} == index.find("1", {})


def test_nothing_is_left_of_removed_queries():
    index = QueryIndex()
    texts = ("a==1", "a=gt=1", "b==x*", "a==1|b==x", "b!=x")
    for text in texts:
        index.add(text, where(text))
    for text in texts:
        index.remove(text)
    assert not (index._terms or index._paths or index._rest)


@pytest.mark.parametrize("seed", range(10))
def test_intervals_are_found_as_by_comparing_each(seed):
    chance = random.Random(seed)
    most = chance.choice((0, 5, 64))
    known, readded, intervals = {}, set(), Intervals(single_max=most)

    def end():
        return None if chance.random() < 0.2 else chance.randrange(20)

    for number in range(150):
        name = str(chance.randrange(40))
        if name in known:
            del known[name]
            readded.add(name)
            intervals.remove(name)
        else:
            interval = Interval(end(), end())
            known[name] = interval
            intervals.add(name, interval)
        value = chance.randrange(-1, 21)
        wanted = {name for name, interval in known.items() if interval.has(value)}
        found = set(intervals.find(value))
        assert wanted <= found, (seed, number)
        assert found - wanted <= readded & known.keys(), "it is removed"
        assert len(intervals._single) <= most


def test_many_intervals_are_in_few_trees():
    """M3: a lookup looks at a logarithm of trees, whatever came and went."""
    intervals = Intervals(single_max=4)
    for number in range(2_000):
        intervals.add(str(number), Interval(number, number + 1))
        assert len(intervals._trees) <= 11
    for number in range(1_900):
        intervals.remove(str(number))
    assert sum(len(items) for _, items in intervals._trees) <= 210
    assert {"1950", "1951"} == set(intervals.find(1_951))
