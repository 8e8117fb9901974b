"""JSON: the spelling of what it lacks, and bad input."""

import json
import math
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from codec_values import SAMPLE, nested, same, values
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import amount
from rowcast.codecs import json_text, model
from rowcast.core.errors import Code, Error

SPELLINGS = [
    (b"a", b'{"$bytes":"YQ=="}'),
    (
        datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
        b'{"$date":"2026-01-02T03:04:05.678901Z"}',
    ),
    (Decimal("1.10"), b'{"$decimal":"1.10"}'),
    (math.nan, b'{"$float":"NaN"}'),
    (math.inf, b'{"$float":"Infinity"}'),
    (-math.inf, b'{"$float":"-Infinity"}'),
    ({"$date": 5}, b'{"$map":{"$date":5}}'),
    ({"$map": {}}, b'{"$map":{"$map":{}}}'),
    ({"$ref": "x"}, b'{"$ref":"x"}'),
    ({"$date": 5, "a": 1}, b'{"$date":5,"a":1}'),
    ({"a": "$date"}, b'{"a":"$date"}'),
    ([{"a": "5", "b": {"$map": 1}}], b'[{"a":"5","b":{"$map":{"$map":1}}}]'),
]


@pytest.mark.parametrize(("value", "text"), SPELLINGS, ids=repr)
def test_a19_encode_spells(value, text):
    assert text == json_text.encode(value)


@pytest.mark.parametrize(("value", "text"), SPELLINGS, ids=repr)
def test_a19_decode_reads_the_spelling(value, text):
    assert same(value, json_text.decode(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"\\u0024bytes":"YQ=="}', b"a"),
        (b'{ "$bytes" : "YQ==" }', b"a"),
        (b'{"a":1,"b":{"\\u0024float":"NaN"}}', {"a": 1, "b": math.nan}),
        (b'{"a": "at 12:30", "b": "{"}', {"a": "at 12:30", "b": "{"}),
        (b'{"a": "at 12:30", "b": "c"}', {"a": "at 12:30", "b": "c"}),
        (b'{"a" : "\\":", "b": "c"}', {"a": '":', "b": "c"}),
        (b'{"a":{},"b":{}}', {"a": {}, "b": {}}),
        (b'{"a":{"x":1},"b":{"x":1}}', {"a": {"x": 1}, "b": {"x": 1}}),
        (
            b'["1234567890123456789012",0.1234567890123456789]',
            ["1234567890123456789012", 0.12345678901234568],
        ),
        (
            b'{"a":1760000000000000000,"b":9223372036854775807}',
            {"a": 1760000000000000000, "b": 2**63 - 1},
        ),
        (b"[-9223372036854775808]", [-(2**63)]),
        (b"123456789012345678901234567890e0", 1.2345678901234568e29),
        (b"-0", 0),
        (b" \n7\t", 7),
        (b'"a:b"', "a:b"),
        (b'{"a":"\\\\","b":":"}', {"a": "\\", "b": ":"}),
    ],
)
def test_decode(text, value):
    assert same(value, json_text.decode(text))


@pytest.mark.parametrize(
    ("payload", "code", "reason"),
    [
        (b"", Code.INVALID, "empty"),
        (b" \n", Code.INVALID, "empty"),
        (b"{", Code.INVALID, "line 1, column "),
        (b'{\n "\xc3\xa9": tru}', Code.INVALID, "line 2, column 7"),
        (b'["a",\n "\xff"]', Code.INVALID, "line 2, column 3: a byte is not UTF-8"),
        (b"\xef\xbb\xbf1", Code.INVALID, "byte order mark"),
        ("1".encode("utf-16"), Code.INVALID, "UTF-8"),
        (b"1 2", Code.INVALID, "line 1, column 3"),
        (b"NaN", Code.INVALID, "line 1, column 1"),
        (b"Infinity", Code.INVALID, "line 1, column 1"),
        (b"1e999", Code.INVALID, "beyond 1.8E+308; send it as text"),
        (b'"\\ud800"', Code.INVALID, "surrogate"),
        (b'"\xed\xa0\x80"', Code.INVALID, "UTF-8"),
        (b'"\x01"', Code.INVALID, "control character"),
        (b"[1,]", Code.INVALID, "line 1, column 3"),
        (b"// x\n1", Code.INVALID, "column 1"),
        (b"9223372036854775808", Code.INVALID, "64 bits"),
        (b'{"a":1,\n"b":-9223372036854775809}', Code.INVALID, "line 2, column 5"),
        (b"[" + b"9" * 100 + b"]", Code.INVALID, "64 bits"),
        (b'{"a":1,"a":2}', Code.INVALID, 'twice in one object: "a"'),
        (b'{"a" :1,"a":2}', Code.INVALID, '"a"'),
        (b'{"a":1,"a"\n:2}', Code.INVALID, '"a"'),
        (b'{"a":{"b":1},"a":2}', Code.INVALID, '"a"'),
        (b'[{"b":":","b":{"x":5}}]', Code.INVALID, '"b"'),
        (b'{"a":"\\":","a":1}', Code.INVALID, '"a"'),
        (b'{"$date":1,"$date":2}', Code.INVALID, '"$date"'),
        (b'{"$date":5}', Code.INVALID, '{"$map": {"$date": ...}}'),
        (b'{"$map":5}', Code.INVALID, "$map holds a map"),
        (b'{"a":[{"$bytes":"YQ"}]}', Code.INVALID, "at a[0]: $bytes"),
        (b'{"$bytes":"\xc3\xa9"}', Code.INVALID, "base64"),
        (b'{"$bytes":"Y-_="}', Code.INVALID, "base64"),
        (b'{"$date":"2026-01-02"}', Code.INVALID, "offset"),
        (b'{"$date":"2026-13-02T00:00:00Z"}', Code.INVALID, "2026-01-02T03:04:05.678901Z"),
        (b'{"$date":"0001-01-01T00:00:00+01:00"}', Code.INVALID, "years 1 to 9999"),
        (b'{"$decimal":"1,5"}', Code.INVALID, "1.10"),
        (b'{"$decimal":"1E+6145"}', Code.INVALID, "6144"),
        (b'{"$float":"1.5"}', Code.INVALID, "-Infinity"),
        (b"[" * 65 + b"]" * 65, Code.TOO_LARGE, "64 deep"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, Code.TOO_LARGE, "64 deep"),
        (b'[{"$map":{"a":1}},' + b"[" * 64 + b"]" * 65, Code.TOO_LARGE, "64 deep"),
        (b"[" * 100_000, Code.TOO_LARGE, "64 deep"),
        (b"[" * 1500 + b"]" * 1500, Code.TOO_LARGE, "64 deep"),
        (b'{"$map":' * 1000 + b"1" + b"}" * 1000, Code.TOO_LARGE, "64 deep"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_bad_input_is_refused_with_its_place_and_reason(payload, code, reason):
    with pytest.raises(Error) as refusal:
        json_text.decode(payload)
    assert (code, True) == (refusal.value.code, reason in refusal.value.message)


def test_a19_escapes_at_full_depth_come_back():
    value = 1
    for _ in range(64):
        value = {"$map": value}
    assert value == json_text.decode(json_text.encode(value))


def test_l11_depth_is_exact():
    assert nested(64) == json_text.decode(b"[" * 64 + b"null" + b"]" * 64)


def test_bad_input_truncated_at_every_byte():
    payload = json_text.encode(SAMPLE)
    for end in range(len(payload)):
        with pytest.raises(Error):
            json_text.decode(payload[:end])


@pytest.mark.slow
@settings(max_examples=amount(long=300, short=75), deadline=None)
@given(values)
def test_what_was_read_is_written_again_as_any_value(value):
    """Also where a payload has spellings, and with another member."""
    payload = json_text.encode(value)
    read = json_text.decode(payload)
    assert json_text.encode(read) == json_text.encode_again(read, payload)
    if isinstance(read, dict):
        keyed = {"id": "7", **read}
        assert json_text.encode(keyed) == json_text.encode_again(keyed, payload)


@pytest.mark.slow
@settings(max_examples=amount(long=300, short=75), deadline=None)
@given(values)
def test_what_was_taken_before_is_read_again_as_at_first(value):
    payload = json_text.encode(value)
    assert same(json_text.decode(payload), json_text.decode_again(payload))


def test_bad_input_is_refused_also_where_it_should_have_been_taken_before():
    with pytest.raises(Error, match="JSON"):
        json_text.decode_again(b'{"a":')


def test_an_escaped_spelling_is_seen_when_it_is_written_again():
    payload = b'{"a":{"\\u0024date":"2026-01-02T03:04:05Z"}}'
    read = json_text.decode(payload)
    assert json_text.encode(read) == json_text.encode_again(read, payload)


def is_of_the_model(value):
    model.validate(value)
    return True


@pytest.mark.heavy
@settings(max_examples=amount(long=500, short=125), deadline=None)
@given(st.binary() | st.text(alphabet='{}[]",:$datemp0123456789.eE-+ \n\\u').map(str.encode))
def test_bad_input_random_bytes_give_a_value_or_an_error(payload):
    try:
        assert is_of_the_model(json_text.decode(payload))
        assert json_text.may_be_json(payload)
    except Error as refusal:
        assert refusal.code in {Code.INVALID, Code.TOO_LARGE}


@pytest.mark.parametrize("payload", [b"", b" ", b"x", b"01", b"-", b"-a", b"+1", b"12ab", b"\xff"])
def test_what_is_no_json_is_seen_at_its_beginning(payload):
    """Plain bytes are the usual content of some topics: no error is made of each."""
    assert not json_text.may_be_json(payload)


@pytest.mark.slow
@settings(max_examples=amount(long=300, short=75), deadline=None)
@given(values, st.data())
def test_bad_input_one_byte_changed(value, data):
    payload = bytearray(json_text.encode(value))
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert is_of_the_model(json_text.decode(bytes(payload)))
    except Error as refusal:
        assert refusal.code in {Code.INVALID, Code.TOO_LARGE}


members = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c:", 'd"', "$date"]),
        st.sampled_from(["1", '"x:"', "{}", '{"a":1}', '"\\":"']),
    ),
    min_size=2,
    max_size=5,
)


@pytest.mark.slow
@settings(max_examples=amount(long=500, short=125), deadline=None)
@given(members, st.sampled_from([":", " :", ": ", "\t:\n"]))
def test_a_key_that_occurs_twice_is_always_found(pairs, colon):
    """The cheap looks err towards suspicion only."""
    text = "{" + ",".join(json.dumps(key) + colon + item for key, item in pairs) + "}"
    twice = len({key for key, _ in pairs}) < len(pairs)
    if twice:
        with pytest.raises(Error, match="twice"):
            json_text.decode(text.encode())
    else:
        assert {key for key, _ in pairs} == set(json_text.decode(text.encode()))


class RefusedError(Exception):
    """What ``decode`` must refuse."""


def strictly(payload):
    """Read a flat object with Python's own reader, which sees each member and all digits."""

    def members(pairs):
        if len({name for name, _ in pairs}) < len(pairs):
            raise RefusedError
        return dict(pairs)

    def integer(text):
        if not model.INT_MIN <= int(text) <= model.INT_MAX:
            raise RefusedError
        return int(text)

    return json.loads(payload, object_pairs_hook=members, parse_int=integer)


NAMES = st.sampled_from(['"a"', '"b"', '"\\u0061"', '"a:"', '"a\\":"', '" :"', '"\\u003a"', '""'])
SCALARS = NAMES | st.sampled_from(
    [
        "1", "-0", "1.5", "true", "null", "1e5", "9223372036854775807", "9223372036854775808",
        "-9223372036854775808", "-9223372036854775809", "18446744073709551616", "1" * 25,
        "9223372036854775807.5", "1e300", "-1e19", "1.0e18",
    ]
)  # fmt: skip
SPACE = st.sampled_from(["", "", " ", "\n", "\t"])
MEMBERS = st.tuples(NAMES, SPACE, st.just(":"), SPACE, SCALARS, SPACE).map("".join)


@pytest.mark.slow
@settings(max_examples=amount(long=1000, short=250), deadline=None)
@given(st.lists(MEMBERS, max_size=3).map(lambda some: "{" + ",".join(some) + "}"))
def test_equal_names_and_wide_integers_are_seen_in_flat_objects(text):
    try:
        expected = strictly(text)
    except RefusedError:
        with pytest.raises(Error):
            json_text.decode(text.encode())
    else:
        found = json_text.decode(text.encode())
        assert (expected, list(map(type, expected.values()))) == (
            found, list(map(type, found.values()))
        )  # fmt: skip
