"""B4, B5: which codec a Content-Type or a suffix names."""

import pytest

from rowcast import codecs
from rowcast.codecs import media_range, registry
from rowcast.core.errors import Code, Error


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        (None, codecs.JSON),
        ("", codecs.JSON),
        (" ", codecs.JSON),
        ("application/json", codecs.JSON),
        ("Application/JSON; charset=UTF-8", codecs.JSON),
        ('application/json;charset="utf-8"', codecs.JSON),
        ("application/json ; ;", codecs.JSON),
        ("application/merge-patch+json", codecs.JSON),
        ("application/problem+json", codecs.JSON),
        ("application/senml+cbor", codecs.CBOR),
        ("application/senml-exi+cbor-seq", codecs.CBOR_SEQ),
        ("application/cbor", codecs.CBOR),
        ("application/msgpack", codecs.MSGPACK),
        ("application/x-msgpack", codecs.MSGPACK),
        ("application/vnd.msgpack", codecs.MSGPACK),
        ("text/csv; header=present", codecs.CSV),
        ("application/x-ndjson", codecs.NDJSON),
        ("application/ndjson", codecs.NDJSON),
        ("application/jsonl", codecs.NDJSON),
        ("application/cbor-seq", codecs.CBOR_SEQ),
        ("application/octet-stream; charset=latin1", codecs.RAW),
    ],
)
def test_b4_codec_for(content_type, expected):
    assert expected == codecs.codec_for(content_type).media_type


@pytest.mark.parametrize(
    "content_type",
    [
        "text/html",
        "json",
        "application/",
        "*/*",
        "*",
        "application/*",
        "application/json, text/html",
        "application/json; charset=latin1",
        "application/json; charset",
        ",",
        "é/json",
        "a" * 5000,
    ],
    ids=lambda value: value[:20],
)
def test_b4_what_is_not_spoken_is_unsupported(content_type):
    with pytest.raises(Error) as refusal:
        codecs.decode(b"1", content_type)
    assert (Code.UNSUPPORTED, False) == (refusal.value.code, codecs.is_structured(content_type))


def test_b4_the_refusal_names_what_is_spoken():
    with pytest.raises(Error, match="application/json, application/cbor, application/x-msgpack, "):
        codecs.codec_for("text/html")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("json", codecs.JSON),
        ("cbor", codecs.CBOR),
        ("msgpack", codecs.MSGPACK),
        ("csv", codecs.CSV),
        ("ndjson", codecs.NDJSON),
    ],
)
def test_b5_by_suffix(name, expected):
    assert expected == codecs.by_suffix(name).media_type


@pytest.mark.parametrize("name", ["", "html", "JSON", ".json"])
def test_b5_other_suffixes_name_nothing(name):
    assert codecs.by_suffix(name) is None


def test_is_structured():
    assert [True, True, False] == [
        codecs.is_structured(each) for each in (None, "text/csv", "application/octet-stream")
    ]


def test_text_formats_go_in_text_frames():
    binary = {name for name, codec in codecs.CODECS.items() if codec.binary}
    assert {codecs.JSON, codecs.CSV, codecs.NDJSON} == {
        codec.media_type for name, codec in codecs.CODECS.items() if name not in binary
    }


def test_every_codec_is_found_by_its_own_media_type():
    assert all(codecs.CODECS[codec.media_type] is codec for codec in codecs.CODECS.values())


@pytest.mark.parametrize(
    ("media_type", "expected"),
    [(codecs.JSON, "application/json"), (codecs.CSV, "text/csv; charset=utf-8")],
)
def test_content_type_header(media_type, expected):
    assert expected == codecs.content_type_header(media_type)


def test_raw_bytes_go_through_unchanged():
    assert b"\x00\xff" == codecs.decode(codecs.encode(b"\x00\xff", codecs.RAW), codecs.RAW)


def test_raw_carries_bytes_only():
    with pytest.raises(Error, match="carries bytes alone"):
        codecs.encode("text", codecs.RAW)


def test_bad_input_oversized():
    with pytest.raises(Error, match="has 4 bytes; at most 3") as refusal:
        codecs.decode(b"1234", None, 3)
    assert Code.TOO_LARGE == refusal.value.code


@pytest.mark.parametrize("value", [[1, {"a": b"b"}], [], [[1]]], ids=repr)
@pytest.mark.parametrize("media_type", [codecs.NDJSON, codecs.CBOR_SEQ])
def test_a_sequence_of_values_comes_back_as_a_list(media_type, value):
    assert value == codecs.decode(codecs.encode(value, media_type), media_type)


@pytest.mark.parametrize("media_type", [codecs.NDJSON, codecs.CBOR_SEQ])
def test_one_value_comes_back_as_a_list_of_one(media_type):
    assert [{"a": 1}] == codecs.decode(codecs.encode({"a": 1}, media_type), media_type)


def test_bad_input_a_header_costs_what_its_length_costs():
    header = 'a/b;x="' + "\\a" * 1000
    with pytest.raises(Error, match="Accept is malformed at character 5"):
        media_range.parse(header, "Accept")


def test_find_knows_no_structure_without_a_plus():
    assert registry.find("application/html") is None
