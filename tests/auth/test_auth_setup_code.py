"""The setup code: shown to who starts the server, and to nobody else (P3)."""

import re

import pytest

from rowcast.auth.setup_code import SetupCode
from rowcast.core.errors import Code, Error

CODE = SetupCode(bytes)


def test_it_can_be_typed():
    assert re.fullmatch("([a-z2-7]{6}-){3}[a-z2-7]{6}", str(SetupCode()))
    assert str(SetupCode()) != str(SetupCode())


@pytest.mark.parametrize(
    "shown", ["aaaaaa-aaaaaa-aaaaaa-aaaaaa", "A" * 24, " aaaaaa aaaaaa aaaaaa aaaaaa\n"]
)
def test_it_is_known_in_any_spelling(shown):
    CODE.check(shown)


@pytest.mark.parametrize("shown", [None, "", "aaaaaa", "b" * 24, "a" * 25, 7, ["a" * 24], "\u00e4"])
def test_p3_nothing_else_is(shown):
    with pytest.raises(Error, match="rowcast user add") as caught:
        CODE.check(shown)
    assert Code.DENIED is caught.value.code
