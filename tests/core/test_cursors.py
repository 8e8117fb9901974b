"""A cursor is the token epoch:seq (M1)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowcast.core.cursors import Cursor, parse_cursor
from rowcast.core.errors import Code, Error


@given(st.from_regex("[0-9a-f]{8}", fullmatch=True), st.integers(0, 10**18))
def test_a_cursor_survives_its_text(epoch, seq):
    cursor = Cursor(epoch, seq)
    assert cursor == parse_cursor(str(cursor))


@pytest.mark.parametrize("text", [' "3f9a1c2e:7" ', "3f9a1c2e:7"])
def test_an_entity_tag_is_a_cursor(text):
    assert Cursor("3f9a1c2e", 7) == parse_cursor(text)


@pytest.mark.parametrize(
    "text",
    ["", "7", "3f9a1c2e:", "3f9a1c2e:07", "3F9A1C2E:7", "3f9a1c2e:-1", "3f9a1c2e:" + "9" * 20],
)
def test_anything_else_is_refused(text):
    with pytest.raises(Error, match="is not a cursor") as caught:
        parse_cursor(text)
    assert caught.value.code is Code.INVALID


def test_cursors_of_one_log_are_ordered():
    assert Cursor("3f9a1c2e", 9) < Cursor("3f9a1c2e", 10)
