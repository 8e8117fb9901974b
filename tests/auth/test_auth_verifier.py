"""What is kept of a password (RFC 5802, 3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowcast.auth.verifier import make_verifier, read_verifier
from rowcast.core.errors import Code, Error

PENCIL = make_verifier("pencil", b"salt of the earth", 4096)
KEY = "A" * 43 + "="


def test_only_the_password_matches():
    assert PENCIL.matches("pencil")
    assert not PENCIL.matches("Pencil")


def test_it_does_not_hold_the_password():
    assert "pencil" not in repr(PENCIL)


def test_it_is_read_as_it_was_written():
    assert PENCIL == read_verifier(str(PENCIL))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is not SCRAM"),
        ("SCRAM-SHA-1" + str(PENCIL)[13:], "is not SCRAM"),
        (f"SCRAM-SHA-256$4096:c2FsdA==${KEY}:{KEY}\n", "is not SCRAM"),
        (f"SCRAM-SHA-256$4096:c2Fsd===${KEY}:{KEY}", "is not SCRAM"),
        (f"SCRAM-SHA-256$4095:c2FsdA==${KEY}:{KEY}", "4095 iterations"),
        (f"SCRAM-SHA-256$999999999:c2FsdA==${KEY}:{KEY}", "999999999 iterations"),
        (f"SCRAM-SHA-256$4096:c2FsdA==$c2FsdA==:{KEY}", "32 bytes"),
        (f"SCRAM-SHA-256$4096:c2FsdA==${KEY}:c2FsdA==", "32 bytes"),
    ],
)
def test_anything_else_is_refused(text, told):
    with pytest.raises(Error, match=told) as caught:
        read_verifier(text)
    assert Code.INVALID is caught.value.code


@pytest.mark.heavy
@given(st.text() | st.from_regex(r"SCRAM-SHA-256\$\d+:[A-Za-z/+=]*\$[A-Z=]*:[A-Z=]*"))
def test_no_text_breaks_the_reader(text):
    try:
        assert text == str(read_verifier(text))
    except Error as error:
        assert Code.INVALID is error.code
