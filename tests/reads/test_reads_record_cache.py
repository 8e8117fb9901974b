"""The record cache: never a value older than what was announced, never more than its bounds."""

import pytest

from build import DOG
from rowcast.codecs import JSON
from rowcast.core.events import DELETE, MISSING, PATCH, PUT, Event
from rowcast.core.memory_limits import RECORD_BYTES, VALUE_PART_BYTES
from rowcast.reads.held_bytes import held_bytes
from rowcast.reads.record_cache import UNKNOWN, RecordCache


def cached(**bounds):
    """Return a cache that counts payloads alone."""
    return RecordCache(weigh=lambda record: len(record.payload), **bounds)


def record(topic="u/1", payload=b"1", kind=PUT, table=None):
    return Event(topic, kind, payload, table=table)


def put(cache, topic, event):
    """Put in what was committed at a topic; None: a deletion."""
    if event is None:
        event = record(topic, kind=DELETE)
    cache.put_all([event if event.topic == topic else event.changed(topic=topic)])


def test_what_was_never_seen_is_unknown_and_what_was_deleted_is_known_to_be_absent():
    cache = cached()
    put(cache, "u/1", None)
    assert (UNKNOWN, None) == (cache.get("u/0"), cache.get("u/1"))


def test_the_writer_replaces_and_counts_bytes():
    cache = cached()
    put(cache, "u/1", record(payload=b"12345"))
    put(cache, "u/1", record(payload=b"12"))
    assert (1, 2) == (len(cache), cache._bytes)
    put(cache, "u/1", None)
    assert (1, 0) == (len(cache), cache._bytes)


def test_the_oldest_written_goes_first():
    cache = cached(records_max=2)
    for topic in ("u/1", "u/2", "u/1", "u/3"):
        put(cache, topic, record(topic))
    assert [True, False, True] == [cache.get(f"u/{i}") is not UNKNOWN for i in (1, 2, 3)]


def test_bytes_are_bounded_also_by_one_record_that_is_too_large():
    cache = cached(bytes_max=4)
    put(cache, "u/1", record(payload=b"123"))
    put(cache, "u/2", record(payload=b"12345"))
    assert (0, 0, 2) == (len(cache), cache._bytes, cache.evictions)


def test_a_reader_fills_what_is_unknown():
    cache, read = cached(), record()
    cache.fill("u/1", read, cache.evictions)
    cache.fill("u/2", None, cache.evictions)
    assert (read, None) == (cache.get("u/1"), cache.get("u/2"))


def test_a_reader_never_replaces_what_the_writer_wrote():
    cache, written = cached(), record(payload=b"new")
    put(cache, "u/1", written)
    cache.fill("u/1", record(payload=b"old"), cache.evictions)
    assert (written, 3) == (cache.get("u/1"), cache._bytes)


def test_the_same_record_filled_twice_is_counted_once():
    cache, read = cached(), record(payload=b"123")
    cache.fill("u/1", read, cache.evictions)
    cache.fill("u/1", read, cache.evictions)
    assert 3 == cache._bytes


def test_a_reader_does_not_fill_when_something_was_evicted_meanwhile():
    """What was evicted may be the newer value of the same topic."""
    cache = cached(records_max=1)
    seen = cache.evictions
    put(cache, "u/1", record(payload=b"new"))
    put(cache, "u/2", record("u/2"))
    put(cache, "u/2", None)
    cache.fill("u/1", record(payload=b"old"), seen)
    assert cache.get("u/1") is UNKNOWN


@pytest.mark.parametrize(
    "cache", [cached(records_max=1), cached(bytes_max=4)], ids=["records", "bytes"]
)
def test_a_reader_evicts_nothing(cache):
    put(cache, "u/1", record(payload=b"123"))
    cache.fill("u/2", record("u/2", b"45"), cache.evictions)
    assert (UNKNOWN, 0) == (cache.get("u/2"), cache.evictions)


@pytest.mark.parametrize(
    ("kind", "table", "expected"),
    [(PUT, None, False), (PATCH, None, True), (PUT, DOG, True)],
    ids=["put", "patch", "typed"],
)
def test_it_knows_which_records_may_differ_from_the_stores(kind, table, expected):
    cache = cached()
    put(cache, "u/1", record(kind=kind, table=table))
    assert expected == cache.as_written("u/1")
    put(cache, "u/1", None)
    assert not cache.as_written("u/1")


def test_the_stores_form_takes_the_place_of_the_event():
    cache, written, stored = cached(), record(kind=PATCH), record(payload=b"123")
    put(cache, "u/1", written)
    cache.settle("u/1", written, stored)
    assert (stored, 3, False) == (cache.get("u/1"), cache._bytes, cache.as_written("u/1"))


def test_the_stores_form_of_an_old_event_replaces_nothing():
    cache, old, new = cached(), record(kind=PATCH), record(kind=PATCH, payload=b"123")
    put(cache, "u/1", old)
    put(cache, "u/1", new)
    cache.settle("u/1", old, record(payload=b"old"))
    assert (new, 3, True) == (cache.get("u/1"), cache._bytes, cache.as_written("u/1"))


def test_records_are_counted_with_what_is_decoded_of_them():
    """P2: ninety thousand members are ten megabytes, whatever their bytes."""
    members = b"{" + b",".join(b'"k%d":%d' % (n, n) for n in range(1_000)) + b"}"
    cache = RecordCache()
    put(cache, "u/1", record(payload=members))
    assert len(members) + 100_000 < cache._bytes
    put(cache, "u/1", None)
    assert 0 == cache._bytes


def test_of_a_large_record_only_its_bytes_are_kept():
    """P2: what a reader makes of it goes with the reader."""
    cache = cached(payload_max=3)
    cache.fill("u/1", record(payload=b"[1,2]"), cache.evictions)
    read = cache.get("u/1")
    read.decoded, read.encodings = [1, 2], {"x": b""}
    again = cache.get("u/1")
    assert (MISSING, None, read.fields) == (again.decoded, again.encodings, again.fields)
    assert UNKNOWN is cache.whole("u/1")


def test_a_large_record_that_the_store_may_give_another_form_is_asked_of_the_store():
    """P2."""
    cache = cached(payload_max=3)
    seen = cache.evictions
    put(cache, "Dog/1", record("Dog/1", payload=b"12345", table=DOG))
    assert UNKNOWN is cache.get("Dog/1")
    cache.fill("Dog/1", record("Dog/1", payload=b"older", table=DOG), seen)
    assert UNKNOWN is cache.get("Dog/1")


def test_a_cleared_cache_holds_nothing_and_takes_no_older_value():
    """P2: memory is short."""
    cache = cached()
    put(cache, "u/1", record())
    seen = cache.evictions
    cache.clear()
    cache.fill("u/1", record(payload=b"old"), seen)
    assert (0, 0, UNKNOWN) == (len(cache), cache._bytes, cache.get("u/1"))


def test_a_load_learns_what_is_here_and_nothing_older_is_filled_in_any_more():
    cache = cached()
    put(cache, "u/1", record())
    seen = cache.evictions
    assert {"u/1"} == cache.known([record("u/1"), record("u/2")])
    cache.fill("u/2", record("u/2"), seen)
    assert UNKNOWN is cache.get("u/2")
    cache.fill("u/2", record("u/2"), cache.evictions)
    assert UNKNOWN is not cache.get("u/2")


@pytest.mark.parametrize(
    ("decoded", "parts"),
    [({"a": "1,2,[{"}, 1), ({"a": [1, 2]}, 3), (MISSING, 3), ({"a": 1, "b": None}, 2)],
)
def test_the_size_of_a_record_is_that_of_its_parts(decoded, parts):
    """Those of a flat map that is decoded are its members, whatever is in their texts."""
    payload = b'{"a":[1,2]}' if parts == 3 else b'{"a":"1,2,[{"}'
    event = Event("u/1", PUT, payload, JSON, decoded=decoded)
    assert RECORD_BYTES + len(payload) + parts * VALUE_PART_BYTES == held_bytes(event)
