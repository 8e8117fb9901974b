"""B20: collections in constant memory, and batches in."""

import csv
import io
import math
import tracemalloc
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from codec_values import SAMPLE, same, values
from hypothesis import given
from hypothesis import strategies as st

from rowcast import codecs
from rowcast.core.errors import Code, Error

ROWS = [{"id": 1, "at": datetime(2026, 1, 2, tzinfo=UTC)}, SAMPLE, [], None, "é"]


def written(writer, rows):
    return writer.begin() + b"".join(writer.row(row) for row in rows) + writer.end()


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], []], ids=len)
@pytest.mark.parametrize("count_known", [True, False])
@pytest.mark.parametrize(
    "media_type", [codecs.JSON, codecs.CBOR, codecs.MSGPACK, codecs.NDJSON, codecs.CBOR_SEQ]
)
def test_b20_what_is_streamed_decodes_to_the_rows(media_type, rows, count_known):
    writer = codecs.rows_encoder(media_type, count=len(rows) if count_known else None)
    payload = written(writer, rows)
    assert same(rows, codecs.decode(payload, media_type))
    assert same(rows, list(codecs.decode_rows(payload, media_type)))


@pytest.mark.parametrize(
    ("media_type", "pieces"),
    [
        (codecs.JSON, [b"[", b"1", b",2", b"]"]),
        (codecs.NDJSON, [b"", b"1\n", b"2\n", b""]),
        (codecs.CBOR, [b"\x9f", b"\x01", b"\x02", b"\xff"]),
        (codecs.CBOR_SEQ, [b"", b"\x01", b"\x02", b""]),
        (codecs.MSGPACK, [b"", b"", b"", b"\x92\x01\x02"]),
    ],
)
def test_b20_pieces(media_type, pieces):
    writer = codecs.rows_encoder(media_type)
    assert pieces == [writer.begin(), writer.row(1), writer.row(2), writer.end()]


@pytest.mark.parametrize(("count", "by"), [(1, r"\+1"), (3, "-1")])
def test_b20_a_messagepack_count_that_was_wrong_is_told(count, by):
    writer = codecs.rows_encoder(codecs.MSGPACK, count=count)
    with pytest.raises(Error, match=f"changed by {by} rows"):
        written(writer, [1, 2])


def test_b20_messagepack_without_a_count_is_held_back_to_a_bound():
    writer = codecs.rows_encoder(codecs.MSGPACK, held_bytes_max=10)
    with pytest.raises(Error, match="ask for application/cbor-seq") as refusal:
        written(writer, ["a" * 5, "b" * 5])
    assert Code.TOO_LARGE == refusal.value.code


def test_b20_a_collection_of_raw_bytes_has_no_form():
    with pytest.raises(Error) as refusal:
        codecs.rows_encoder(codecs.RAW)
    assert Code.UNSUPPORTED == refusal.value.code


@pytest.mark.slow
@pytest.mark.parametrize("media_type", [codecs.NDJSON, codecs.CBOR_SEQ, codecs.JSON, codecs.CBOR])
def test_b20_a_writer_keeps_nothing(media_type):
    writer = codecs.rows_encoder(media_type)
    writer.row(SAMPLE)
    tracemalloc.start()
    for _ in range(3_000):
        writer.row(SAMPLE)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 50_000


CELLS = [
    (None, ""),
    ("", ""),
    (True, "true"),
    (False, "false"),
    (7, "7"),
    (1.5, "1.5"),
    (math.nan, "NaN"),
    (-math.inf, "-Infinity"),
    ('a "b", c\r\nd', 'a "b", c\r\nd'),
    ("=1+1", "=1+1"),
    (b"a", "YQ=="),
    (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
    (Decimal("1.10"), "1.10"),
    ([1, {"a": b"a"}], '[1,{"a":"YQ=="}]'),
    ({"a": None}, '{"a":null}'),
]


@pytest.mark.parametrize(("value", "text"), CELLS, ids=repr)
def test_b5_csv_cells(value, text):
    lines = codecs.encode([{"x": 1, "cell": value}], codecs.CSV).decode()
    assert [["x", "cell"], ["1", text]] == list(csv.reader(io.StringIO(lines, newline="")))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([{"a": 1, "b": 2}, {"b": 3, "c": 4}], b"a,b,c\r\n1,2,\r\n,3,4\r\n"),
        ({"a": 1}, b"a\r\n1\r\n"),
        ([1, "b"], b"value\r\n1\r\nb\r\n"),
        ("x", b"value\r\nx\r\n"),
        ([], b""),
        ([{}], b""),
    ],
    ids=repr,
)
def test_b5_csv(value, expected):
    assert expected == codecs.encode(value, codecs.CSV)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["b", "a"], b"b,a\r\n,1\r\n2,3\r\n"),
        ([], b"a\r\n1\r\n3\r\n"),
    ],
)
def test_b20_csv_has_the_columns_given_or_the_first_rows(columns, expected):
    writer = codecs.rows_encoder(codecs.CSV, columns)
    assert expected == written(writer, [{"a": 1}, {"b": 2, "a": 3}])


def test_b20_csv_of_no_rows_still_has_its_header():
    assert b"a,b\r\n" == written(codecs.rows_encoder("text/csv", ["a", "b"]), [])


@pytest.mark.parametrize("value", [{"a": "\ud800"}, {"a": {1}}, {"a": 2**63}], ids=repr)
def test_csv_refuses_what_is_no_value(value):
    with pytest.raises(Error):
        codecs.encode(value, codecs.CSV)


def test_csv_is_not_read():
    with pytest.raises(Error) as refusal:
        codecs.decode_rows(b"a\r\n1\r\n", codecs.CSV)
    assert Code.UNSUPPORTED == refusal.value.code


@pytest.mark.parametrize(
    ("payload", "content_type", "rows"),
    [
        (b'{"a":1}\n\n  \r\n{"a":2}\r\n[3]', codecs.NDJSON, [{"a": 1}, {"a": 2}, [3]]),
        (b"", codecs.NDJSON, []),
        (b"", codecs.CBOR_SEQ, []),
        (b"[1,[2]]", None, [1, [2]]),
        (b'{"a":1}', codecs.JSON, [{"a": 1}]),
        (b"\x81\x01", codecs.CBOR, [1]),
        (b"\x91\x01", "application/msgpack", [1]),
        (b"abc", codecs.RAW, [b"abc"]),
    ],
)
def test_decode_rows(payload, content_type, rows):
    assert rows == list(codecs.decode_rows(payload, content_type))


def test_bad_input_a_bad_line_is_met_when_it_is_reached():
    rows = codecs.decode_rows(b'{"a":1}\n\n{"a":}\n', codecs.NDJSON)
    assert {"a": 1} == next(rows)
    with pytest.raises(Error, match=r"On line 3 of the NDJSON: .*column 6"):
        next(rows)


@pytest.mark.parametrize(
    ("payload", "code"),
    [(b"[1,", Code.INVALID), (b"[" * 70 + b"]" * 70, Code.TOO_LARGE)],
)
def test_bad_input_of_a_line_keeps_its_code(payload, code):
    with pytest.raises(Error) as refusal:
        codecs.decode(b"1\n" + payload, codecs.NDJSON)
    assert code == refusal.value.code


@pytest.mark.slow
@given(st.lists(values, max_size=20))
def test_the_bytes_of_each_row_are_those_of_the_row_alone(rows):
    payload = codecs.encode(rows, codecs.MSGPACK)
    found, parts = codecs.decode_items(payload, codecs.MSGPACK)
    assert same(rows, list(found))
    assert [codecs.encode(row, codecs.MSGPACK) for row in rows] == list(parts)
    assert payload.endswith(b"".join(parts))


@pytest.mark.parametrize(
    ("value", "media_type"),
    [
        ({"id": "1"}, codecs.MSGPACK),
        (["a"], codecs.JSON),
        (["a"], codecs.CBOR),
        (7, codecs.MSGPACK),
    ],
)
def test_other_rows_have_no_bytes_of_their_own(value, media_type):
    assert () == codecs.decode_items(codecs.encode(value, media_type), media_type)[1]


def test_long_arrays_are_divided_too():
    """MessagePack's arrays have three kinds of heads."""
    for count in (15, 16, 65_535, 65_536):
        payload = codecs.encode([0] * count, codecs.MSGPACK)
        assert count == len(codecs.decode_items(payload, codecs.MSGPACK)[1])


TWICE = b"\x82\xa1a\x01\xa1a\x02"
"""A map with the key ``a`` twice."""
BAD = {
    "twice": b"\x92\x81\xa1b\x01" + TWICE,
    "twice, with a head of 16 bits": b"\x91\xde\x00\x02" + TWICE[1:],
    "twice, with a head of 32 bits": b"\x91\xdf\x00\x00\x00\x02" + TWICE[1:],
    "twice inside": b"\x91\x81\xa1m" + TWICE,
    "twice in a list": b"\x91\x91" + TWICE,
    "too wide": b"\x91\x81\xa1a\xcf" + b"\xff" * 8,
    "ends early": b"\x92\x01",
    "goes on": b"\x91\x01\x02",
    "extension": b"\x91\xd4\x07\x00",
    "no text": b"\x91\x81\x01\x01",
}


@pytest.mark.parametrize("payload", BAD.values(), ids=BAD)
def test_a_batch_is_refused_as_its_value_is(payload):
    """Rows are made in a faster way where they are maps of scalars; what is refused is the same."""
    with pytest.raises(Error) as alone:
        codecs.decode(payload, codecs.MSGPACK)
    with pytest.raises(Error) as together:
        codecs.decode_items(payload, codecs.MSGPACK)
    assert (alone.value.code, alone.value.full) == (together.value.code, together.value.full)
