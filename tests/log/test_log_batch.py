"""The format of a batch: golden bytes, round trips, and bytes that no encoder has made."""

import random
import struct
from pathlib import Path

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_cases import EVENTS, FULL, fields, table_of
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, Event
from rowcast.core.facts import Change
from rowcast.log.batch import BODY_BYTES_MAX, HEADER_BYTES, Batch, size_at
from rowcast.log.batch_content import KINDS, Content, Operation, Origin, decode_content

GOLDEN = Path(__file__).with_name("golden") / "batch-1.bin"
"""A batch as version 1 of the format writes it; a log of any later version can be read."""
BATCH = Batch.make(3, 2, 6, FULL, 1_700_000_000_000_000)
numbers = st.integers(0, 2**63 - 1)
properties = st.none() | st.dictionaries(
    st.text(max_size=8), st.integers(-(2**63), 2**63 - 1) | st.text() | st.binary(), max_size=3
)
events = st.builds(
    Event,
    topic=st.text(max_size=20),
    kind=st.sampled_from(KINDS),
    payload=st.binary(max_size=50),
    content_type=st.none() | st.text(max_size=10),
    qos=st.integers(0, 2),
    retain=st.booleans(),
    client=st.text(max_size=10),
    properties=properties,
    expires_at=st.floats(0, 1e12),
    version=numbers,
)
contents = st.builds(
    Content,
    st.lists(events, max_size=5),
    st.lists(st.builds(Change, st.text(), st.text(), st.none() | st.binary()), max_size=3),
    st.lists(
        st.builds(
            Operation, st.text(), st.lists(st.none() | st.text() | numbers, max_size=3).map(tuple)
        ),
        max_size=3,
    ),
    st.lists(
        st.builds(
            Origin,
            node=st.text(),
            number=numbers,
            units=numbers,
            first=numbers,
            existed=st.binary(max_size=5),
        ),
        max_size=2,
    ),
)


def refused(call, *arguments):
    """Return the sentence with which a call refuses its argument."""
    with pytest.raises(Error) as caught:
        call(*arguments)
    assert caught.value.code is Code.INVALID
    return caught.value.message


def test_the_format_is_that_of_the_golden_file():
    assert GOLDEN.read_bytes() == BATCH.data


def test_a_golden_batch_is_read_whole():
    batch = Batch.read(GOLDEN.read_bytes())
    assert (batch.number, batch.term, batch.first, batch.last, batch.count) == (3, 2, 7, 12, 5)
    assert batch.made_at == 1_700_000_000_000_000
    assert fields(batch.content(table_of)) == fields(FULL)


def test_a_batch_without_events_keeps_the_position():
    batch = Batch.make(4, 2, 12, Content(changes=FULL.changes), 1)
    assert (batch.first, batch.last, batch.count) == (13, 12, 0)
    assert list(batch.content(table_of).changes) == list(FULL.changes)


def test_a_table_that_is_not_declared_any_more_is_none():
    found = BATCH.content(lambda _: None)
    assert {event.table for event in found.events} == {None}


@pytest.mark.heavy
@given(contents, numbers, st.integers(0, 2**62))
def test_every_content_comes_back(content, term, before):
    for index, event in enumerate(content.events):
        event.seq = before + 1 + 2 * index
    batch = Batch.make(1, term, before, content, 5)
    again = Batch.read(batch.data)
    assert again == batch
    assert fields(again.content(table_of)) == fields(content)


def test_batches_are_found_one_behind_the_other():
    data = BATCH.data + Batch.make(4, 2, 12, Content(), 1).data
    second = Batch.read(data, size_at(data, 0))
    assert (second.number, second.last) == (4, 12)


# -- bytes that no encoder has made ----------------------------------------------------------------


def test_every_changed_byte_is_noticed():
    for place in range(len(BATCH.data)):
        changed = bytearray(BATCH.data)
        changed[place] ^= 0x10
        refused(Batch.read, bytes(changed))


def test_every_part_of_a_batch_is_refused():
    for size in range(len(BATCH.data)):
        refused(Batch.read, BATCH.data[:size])


def test_a_length_beyond_every_batch_is_refused_before_it_is_read():
    header = b"RCB1" + struct.pack("!I", BODY_BYTES_MAX + 1) + bytes(HEADER_BYTES - 8)
    assert "cannot have" in refused(size_at, header, 0)


def body_with(*, event=None, change=None, operation=None):
    """Return the body of a content with one part that may be wrong."""
    parts = [[part] if part is not None else [] for part in (event, change, operation)]
    return msgpack.packb(parts)


GOOD = ["t", 0, b"", None, 0, None, "", None, 0.0, 0, 1]


def with_part(index, value):
    """Return an event's array with another part."""
    return [*GOOD[:index], value, *GOOD[index + 1 :]]


def test_the_array_that_the_bad_ones_are_made_of_is_good():
    assert decode_content(body_with(event=GOOD), 1, table_of).events[0].topic == "t"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x93",
        msgpack.packb(5),
        msgpack.packb([[], []]),
        msgpack.packb([5, [], []]),
        msgpack.packb({"a": 1}),
        body_with(event=5),
        body_with(event="12345678901"),
        body_with(event=GOOD[:-1]),
        body_with(event=[*GOOD, 1]),
        *(body_with(event=with_part(index, [])) for index in range(len(GOOD))),
        body_with(event=with_part(1, 4)),
        body_with(event=with_part(1, -1)),
        body_with(event=with_part(1, True)),
        body_with(event=with_part(4, 3)),
        body_with(event=with_part(4, 8)),
        body_with(change=["a", "b"]),
        body_with(change=["a", "b", "text"]),
        body_with(operation=["trim"]),
        body_with(operation=["trim", [b"x"]]),
        body_with(operation=["trim", [[]]]),
        msgpack.packb([[], [], []]) + b"\x00",
        b"\x91" * 100_000,
    ],
)
def test_another_content_is_refused(body):
    assert "cannot be decoded" in refused(decode_content, body, 1, table_of)


def test_any_bytes_are_a_content_or_an_error():
    """Whatever comes, the decoder ends with a content or with INVALID."""
    chance = random.Random(0)
    good = BATCH.data[HEADER_BYTES:]
    for _ in range(3_000):
        body = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(body))
            body[place : place + chance.randint(0, 2)] = chance.randbytes(chance.randint(0, 3))
        try:
            content = decode_content(bytes(body), 1, table_of)
        except Error as error:
            assert error.code is Code.INVALID
        else:
            assert all(type(event.topic) is str for event in content.events)


def test_kinds_keep_their_places():
    """A batch has the index of a kind: another order would change what old logs say."""
    assert KINDS == ("put", "patch", "delete", "message")
    assert {event.kind for event in EVENTS} == set(KINDS) | {MESSAGE}
