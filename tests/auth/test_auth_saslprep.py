"""One spelling of names and passwords (RFC 4013)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowcast.auth.saslprep import saslprep
from rowcast.core.errors import Code, Error


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        pytest.param("I\u00adX", "IX", id="RFC 4013, 3, 1: soft hyphen"),
        pytest.param("user", "user", id="RFC 4013, 3, 2"),
        pytest.param("USER", "USER", id="RFC 4013, 3, 3"),
        pytest.param("\u00aa", "a", id="RFC 4013, 3, 4: NFKC"),
        pytest.param("\u2168", "IX", id="RFC 4013, 3, 5: NFKC"),
        pytest.param("a\u00a0b", "a b", id="another space"),
        pytest.param("Zoe\u0308", "Zo\u00eb", id="composed"),
        pytest.param("\u0416\u0430\u043d\u043d\u0430", "\u0416\u0430\u043d\u043d\u0430", id="kept"),
        pytest.param("\u0627\u0031\u0628", "\u0627\u0031\u0628", id="right to left"),
        pytest.param("", "", id="empty"),
    ],
)
def test_text_is_prepared(text, prepared):
    assert prepared == saslprep(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("\u0007", "U+0007", id="RFC 4013, 3, 6: prohibited"),
        pytest.param("a\0b", "U+0000", id="NUL"),
        pytest.param("\u0627\u0031", "right to left", id="RFC 4013, 3, 7: directions"),
        pytest.param("\u0627a\u0628", "left to right", id="mixed"),
        pytest.param("\ud800", "U+D800", id="half a character"),
        pytest.param("\U0001f600", "U+1F600", id="unassigned in Unicode 3.2"),
    ],
)
def test_what_has_no_form_is_refused(text, told):
    with pytest.raises(Error, match=told.replace("+", r"\+")) as caught:
        saslprep(text)
    assert Code.INVALID is caught.value.code


@given(st.text())
def test_a_prepared_text_is_prepared(text):
    try:
        prepared = saslprep(text)
    except Error:
        return
    assert prepared == saslprep(prepared)
