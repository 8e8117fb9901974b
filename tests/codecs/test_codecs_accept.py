"""B3: proactive negotiation, RFC 9110, 12.5.1."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import amount
from rowcast import codecs
from rowcast.codecs import media_range
from rowcast.codecs.accept import _rank
from rowcast.core.errors import Code, Error

RFC_9110 = (
    "text/*;q=0.3, text/plain;q=0.7, text/plain;format=flowed,"
    " text/plain;format=fixed;q=0.4, */*;q=0.5"
)


@pytest.mark.parametrize(
    ("offer", "quality"),
    [
        ("text/plain;format=flowed", 1),
        ("text/plain", 0.7),
        ("text/html", 0.3),
        ("image/jpeg", 0.5),
        ("text/plain;format=fixed", 0.4),
    ],
)
def test_b3_the_table_of_rfc_9110(offer, quality):
    assert quality == _rank(media_range.parse(RFC_9110, "Accept"), offer)[0]


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, codecs.JSON),
        ("", codecs.JSON),
        (" ", codecs.JSON),
        (" , ,", codecs.JSON),
        ("*/*", codecs.JSON),
        ("*/*;q=0.1", codecs.JSON),
        ("application/*", codecs.JSON),
        ("application/json", codecs.JSON),
        ("APPLICATION/CBOR", codecs.CBOR),
        ("application/cbor", codecs.CBOR),
        ("application/x-msgpack", codecs.MSGPACK),
        ("application/msgpack", codecs.MSGPACK),
        ("application/vnd.msgpack;q=0.5", codecs.MSGPACK),
        ("application/problem+json", codecs.JSON),
        ("application/problem+cbor, application/json;q=0.9", codecs.CBOR),
        ("application/json;q=0.5, application/cbor;q=0.8", codecs.CBOR),
        ("application/json; q=0.5 , application/cbor ; q=0.49", codecs.JSON),
        ("application/json;q=0, */*", codecs.CBOR),
        ("*/*, application/json;q=0, application/cbor;q=0.000", codecs.MSGPACK),
        ("application/*;q=0.2, application/cbor;q=0.1", codecs.JSON),
        ("text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8", codecs.JSON),
        ("text/html, application/cbor;q=0.1", codecs.CBOR),
        ("application/cbor, */*", codecs.CBOR),
        ("*/*, application/cbor", codecs.CBOR),
        ("application/cbor, application/json", codecs.CBOR),
        ("application/json, application/cbor", codecs.JSON),
        ("application/json;charset=utf-8", codecs.JSON),
        ('application/json;charset="UTF-8"', codecs.JSON),
        ("application/json;version=2, application/cbor;q=0.1", codecs.CBOR),
        ("application/json;q=1.000;ext=1, application/cbor;q=0.9", codecs.CBOR),
        ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", codecs.JSON),
        ("application/json;;q=0.1;,application/cbor;q=0.2", codecs.CBOR),
        ('text/plain;note="a, b; q=1", application/cbor', codecs.CBOR),
        ('text/plain;note="\\"", application/cbor', codecs.CBOR),
        ("application/cbor;Q=0.1, application/x-msgpack;q=0.2", codecs.MSGPACK),
    ],
)
def test_b3_negotiate(accept, expected):
    assert expected == codecs.negotiate(accept)


@pytest.mark.parametrize(
    "accept",
    [
        "text/html",
        "image/*",
        "application/json;q=0",
        "*/*;q=0",
        "application/json;version=2",
        "application/xml, text/*",
    ],
)
def test_b3_nothing_acceptable_names_what_is_offered(accept):
    with pytest.raises(
        Error, match="application/json, application/cbor, application/x-msg"
    ) as refusal:
        codecs.negotiate(accept)
    assert Code.NOT_ACCEPTABLE == refusal.value.code


@pytest.mark.parametrize(
    ("accept", "where"),
    [
        ("json", "character 1, at 'json'"),
        ("application/json text/html", "character 17"),
        ("application/json, text", "character 19"),
        ("application/json;q=2", "character 20, at '2'"),
        ("application/json;q=0.1234", "character 20"),
        ("application/json;q=1.1", "character 20"),
        ("application/json;q=-1", "character 20"),
        ("application/json;q=", "character 18, at 'q='"),
        ('application/json;q="1"', "character 20"),
        ("*/json", "character 1"),
        ("/json", "character 1"),
        ("application/", "character 1"),
        ("a/b/c", "character 4"),
        ('a/b;x="y', "character 5"),
        ("a/b\x00", "character 4"),
        ("*x", "character 2"),
        ("é/b", "character 1"),
    ],
)
def test_b3_a_malformed_header_is_invalid_and_says_where(accept, where):
    with pytest.raises(Error) as refusal:
        codecs.negotiate(accept)
    assert (Code.INVALID, True) == (
        refusal.value.code,
        f"malformed at {where}" in refusal.value.message,
    )


def test_b3_a_header_too_long_is_invalid():
    with pytest.raises(Error, match="Accept has 5000 characters"):
        codecs.negotiate("a" * 5000)


def test_b3_the_offers_may_be_others():
    offers = ["text/event-stream", codecs.JSON]
    assert ["text/event-stream", codecs.JSON] == [
        codecs.negotiate("text/*, application/json;q=0.5", offers),
        codecs.negotiate("application/json", offers),
    ]


@pytest.mark.heavy
@settings(max_examples=amount(long=500, short=125), deadline=None)
@given(st.text() | st.text(alphabet='ab/*;,=q01.+" \\-'))
def test_bad_input_random_text_gives_a_choice_or_an_error(accept):
    try:
        assert codecs.negotiate(accept) in {codecs.JSON, codecs.CBOR, codecs.MSGPACK}
    except Error as refusal:
        assert refusal.code in {Code.INVALID, Code.NOT_ACCEPTABLE}
