"""Caches with a bound: in which order they forget, and that they never grow beyond it (D56)."""

from rowcast.core.bounded import BoundedCache, ClearedCache, TtlMap


def test_an_entry_lasts_its_time():
    table = TtlMap(10, 5)
    table.put("a", 1, now=0)
    assert [1, 1, None] == [table.get("a", now) for now in (0, 9.9, 10)]
    assert table.get("b", 0) is None


def test_putting_again_begins_anew():
    table = TtlMap(10, 5)
    table.put("a", 1, now=0)
    table.put("a", 2, now=5)
    assert (2, 1) == (table.get("a", 14), len(table))


def test_a_full_table_forgets_the_oldest():
    table = TtlMap(10, 3)
    for number in range(5):
        table.put(number, number, now=number)
    assert ([2, 3, 4], 2) == ([key for key, _, _ in table.left(5)], table.forgotten)


def test_what_is_over_makes_room_first():
    table = TtlMap(10, 3)
    for number in range(3):
        table.put(number, number, now=0)
    table.put(3, 3, now=10)
    assert (1, 0) == (len(table), table.forgotten)


def test_a_flood_never_makes_it_grow():
    table = TtlMap(10, 100)
    for number in range(10_000):
        table.put(number, number, now=number / 1_000)
        assert len(table) <= 100


def test_what_is_left_says_how_long():
    table = TtlMap(10, 3)
    table.put("a", 1, now=0)
    table.put("b", 2, now=4)
    table.drop("c")
    assert [("b", 2, 3)] == list(table.left(11))
    table.drop("b")
    assert [] == list(table.left(11))


# -- dictionaries with a bound ---------------------------------------------------------------------


def test_a_cleared_cache_forgets_all_when_it_is_full():
    cache = ClearedCache(3)
    assert [0, 1, 4] == [cache.put(number, number**2) for number in range(3)]
    assert {0: 0, 1: 1, 2: 4} == cache
    cache.put(3, 9)
    assert {3: 9} == cache


def test_a_bounded_cache_forgets_the_oldest():
    gone = []
    cache = BoundedCache(3, gone.append)
    for number in range(5):
        assert number**2 == cache.put(number, number**2)
    assert ([2, 3, 4], [0, 1]) == (list(cache), gone)


def test_what_is_put_in_again_is_the_newest_and_evicts_nothing():
    cache = BoundedCache(2)
    for key, value in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        cache.put(key, value)
    assert {"a": 3, "c": 4} == cache


def test_what_is_used_is_the_newest():
    cache = BoundedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert (1, None) == (cache.use("a"), cache.use("c"))
    cache.put("c", 3)
    assert {"a": 1, "c": 3} == cache
