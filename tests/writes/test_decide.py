"""Decisions against the current record: conditions, patches, times (A5, A16, B11)."""

import pytest

from build import ANN, DOG, LEASE, NOW, code_of
from rowcast.codecs import CBOR, JSON, RAW, decode, encode
from rowcast.core.clock import version_of
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event
from rowcast.rows.compiled_table import CompiledTable
from rowcast.rows.transcoder import PLAIN
from rowcast.writes.decide import decide, value_of_record
from rowcast.writes.write import A_RECORD, FIRE_AND_FORGET, Condition, Current, Receipt, Write


def record(payload=b'{"a":1}', content_type=JSON, seq=7, **facts):
    return Event("u/1", PUT, payload, content_type, seq=seq, version=70, **facts)


def run(*writes, current=None):
    """Decide a unit; return its outcomes, the accepted events and the current records after."""
    current, known = Current(), current
    current.update(known or {})
    events, numbers = [], iter(range(100, 200))
    outcomes = decide(list(writes), current, events, [], lambda: next(numbers))
    return outcomes, events, current


def write(event, condition=None, shape=None, patch=None, *, logged=True):
    return Write(event, ANN, FIRE_AND_FORGET, condition, shape, patch, logged=logged)


def patch(value, topic="u/1", shape=None, content_type=None):
    event = Event(topic, PATCH, b"?", content_type, version=version_of(int(NOW * 1000)))
    event.table = shape.table if shape else None
    return write(event, shape=shape, patch=value)


# -- conditions ------------------------------------------------------------------------------------

RECORD = record()


@pytest.mark.parametrize(
    ("condition", "current", "expected"),
    [
        (Condition(), None, None),
        (Condition(), RECORD, None),
        (Condition(exists=False), None, None),
        (Condition(exists=False), RECORD, Code.PRECONDITION),
        (Condition(exists=True), None, Code.PRECONDITION),
        (Condition(exists=True), RECORD, None),
        (Condition(exists=True, strict=True), None, Code.NOT_FOUND),
        (Condition(seqs=frozenset({7, 8})), RECORD, None),
        (Condition(seqs=frozenset({8})), RECORD, Code.PRECONDITION),
        (Condition(seqs=frozenset({8})), None, Code.PRECONDITION),
        (Condition(not_seqs=frozenset({8})), RECORD, None),
        (Condition(not_seqs=frozenset({7})), RECORD, Code.PRECONDITION),
        (Condition(not_seqs=frozenset({7})), None, None),
    ],
)
def test_a16_conditions(condition, current, expected):
    assert expected == code_of(condition.check, current, "u/1")


def test_a16_the_loser_is_told_the_current_version():
    with pytest.raises(Error) as raised:
        Condition(exists=False).check(RECORD, "u/1")
    assert {"seq": 7, "version": 70} == raised.value.detail


def test_a_condition_of_a_message_counts_though_nobody_stores_it():
    event = Event("u/1", MESSAGE, b"1")
    outcomes, _, _ = run(write(event, Condition(exists=True), logged=False), current={"u/1": None})
    assert [Code.PRECONDITION] == [outcome.code for outcome in outcomes]


# -- units -----------------------------------------------------------------------------------------


def test_what_is_accepted_gets_a_number_and_what_is_not_logged_gets_none():
    logged, unlogged = Event("u/1", PUT, b"1"), Event("u/2", MESSAGE, b"1")
    outcomes, events, _ = run(write(logged), write(unlogged, logged=False))
    assert ([logged], 100, 0) == (events, logged.seq, unlogged.seq)
    assert [Receipt(logged), Receipt(unlogged)] == outcomes


@pytest.mark.parametrize(("logged", "seq"), [(True, 100), (False, 0)])
def test_a_lone_write_that_depends_on_nothing_is_accepted_at_once(logged, seq):
    event = Event("u/1", PUT, b"1")
    outcomes, events, current = run(write(event, logged=logged), current={"u/1": RECORD})
    assert ([Receipt(event)], [event] if logged else [], seq) == (outcomes, events, event.seq)
    assert current["u/1"] is event


def test_current_is_brought_up_to_date_where_it_is_known():
    put, delete, other = (
        Event("u/1", PUT, b"1"), Event("u/2", DELETE, b""), Event("u/3", PUT, b"1"),
    )  # fmt: skip
    known = {"u/1": None, "u/2": RECORD}
    _, _, current = run(write(put), write(delete), write(other), current=known)
    assert {"u/1": put, "u/2": None} == current


def test_a_refused_unit_leaves_current_as_it_was():
    put = Event("u/1", PUT, b"1")
    never = write(Event("u/2", PUT, b"1"), Condition(exists=True))
    outcomes, events, current = run(write(put), never, current={"u/1": RECORD, "u/2": None})
    assert ({"u/1": RECORD, "u/2": None}, []) == (current, events)
    assert ["nothing was written", "there is no record"] == [
        outcome.message.split(",")[0].split(" at")[0] for outcome in outcomes
    ]


# -- patches ---------------------------------------------------------------------------------------


def test_a_patch_carries_the_whole_record_after_it():
    current = {"u/1": record(b'{"a":1,"b":2}')}
    (receipt,), _, after = run(patch({"b": None, "c": 3}), current=current)
    assert {"a": 1, "c": 3} == decode(receipt.event.payload, receipt.event.content_type)
    assert after["u/1"] is receipt.event


def test_a_patch_of_nothing_makes_a_record():
    (receipt,), _, _ = run(patch({"a": 1}), current={"u/1": None})
    assert b'{"a":1}' == receipt.event.payload


@pytest.mark.parametrize(
    ("said", "expected"), [(None, JSON), (CBOR, CBOR), ("application/merge-patch+json", JSON)]
)
def test_a_patched_record_is_in_the_media_type_of_the_patch(said, expected):
    (receipt,), _, _ = run(patch({"a": 1}, content_type=said), current={"u/1": None})
    assert expected == receipt.event.content_type
    assert {"a": 1} == decode(receipt.event.payload, expected)


def test_a_patch_is_of_its_tables_types_and_key():
    shape = CompiledTable(DOG)
    (receipt,), _, _ = run(patch({"age": 3}, "Dog/1", shape), current={"Dog/1": None})
    assert {"id": "1", "age": 3}.items() <= receipt.event.decoded.items()
    (error,), _, _ = run(patch({"age": "old"}, "Dog/1", shape), current={"Dog/1": None})
    assert Code.UNPROCESSABLE == error.code


def test_a6_a_patched_record_lives_from_its_patch():
    (receipt,), _, _ = run(patch({"name": "x"}, "Lease/1", CompiledTable(LEASE)), current={})
    assert NOW + LEASE.expiration_seconds == receipt.event.expires_at


@pytest.mark.parametrize(
    "current",
    [
        record(b"\xff\x00", RAW),
        record(b"\xff\x00", RAW, decoded=PLAIN),
        record(b"not json", None),
        record(b"not json", JSON),
        record(b"text", "text/plain"),
        record(b"?", "image/png"),
    ],
    ids=["raw", "raw and read", "no type", "no json", "text", "image"],
)
def test_plain_bytes_cannot_be_patched(current):
    """Whether somebody has read them before or not."""
    known = current.decoded
    (error,), _, _ = run(patch({"a": 1}), current={"u/1": current})
    assert (Code.CONFLICT, known) == (error.code, current.decoded)


def test_what_is_decoded_for_a_patch_is_not_left_on_the_shared_record():
    current = record(encode({"a": 1}, CBOR), CBOR)
    before = current.decoded
    assert {"a": 1} == value_of_record(current)
    assert before is current.decoded


def test_a_value_that_is_known_is_not_decoded_again():
    assert {"b": 2} == value_of_record(record(b"?", JSON, decoded={"b": 2}))


# -- times -----------------------------------------------------------------------------------------


def put_dog(value, milliseconds):
    event = Event("Dog/1", PUT, b"?", JSON, table=DOG, version=version_of(milliseconds))
    event.decoded = value
    return write(event, shape=CompiledTable(DOG))


def test_a5_times_are_the_servers():
    (receipt,), _, _ = run(put_dog({"id": "1", "updated": 5}, 2_000), current={"Dog/1": None})
    value = receipt.event.decoded
    assert (2.0, 2_000) == (value["created"].timestamp(), value["updated"])
    assert b'"updated":2000' in receipt.event.payload


def test_a5_the_time_of_creation_outlives_a_replacement():
    (first,), _, current = run(put_dog({"id": "1"}, 2_000), current={"Dog/1": None})
    (second,), _, _ = run(put_dog({"id": "1"}, 9_000), current=current)
    assert first.event.decoded["created"] == second.event.decoded["created"]
    assert 9_000 == second.event.decoded["updated"]


def test_a_record_that_is_no_object_has_no_time_to_keep():
    (receipt,), _, _ = run(put_dog({}, 3_000), current={"Dog/1": record(b"5", decoded=5)})
    assert 3_000 == receipt.event.decoded["updated"]


def test_a_delete_and_a_message_have_no_times():
    for kind in (DELETE, MESSAGE):
        event = Event("Dog/1", kind, b"", table=DOG)
        run(write(event, shape=CompiledTable(DOG)), current={"Dog/1": None})
        assert b"" == event.payload


def test_a_retry_decides_the_same():
    """After a surprise of the store a batch is decided again, write by write."""
    again = patch({"a": {"b": 1}})
    payloads = []
    for _ in range(2):
        run(again, current={"u/1": record(b'{"x":1}')})
        payloads.append(again.event.payload)
    assert payloads[0] == payloads[1]


# -- what a refused unit leaves behind -------------------------------------------------------------


def test_a_refused_unit_leaves_records_and_deletions_as_they_were():
    """B11: also the stamps of deletions, by which late writes are judged."""
    known = record()
    current = Current("0badcafe")
    current.update({"u/1": known, "u/2": None})
    current.tombstones["u/2"] = (5, "there")
    gone = Event("u/1", DELETE, b"", version=90)
    again = Event("u/2", PUT, b"1", version=91)
    over = Event("u/2", DELETE, b"", version=92)
    unit = [write(gone), write(again), write(over), write(Event("u/1", PUT, b"2"), A_RECORD)]
    outcomes = decide(unit, current, [], [], iter(range(100, 200)).__next__)
    assert [Code.NOT_FOUND] * 4 == [outcome.code for outcome in outcomes]
    assert {"u/1": known, "u/2": None} == current
    assert {"u/2": (5, "there")} == current.tombstones
