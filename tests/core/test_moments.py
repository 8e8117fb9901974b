"""Moments: a time, a while ago or a cursor, as it is written (E25)."""

import pytest

from build import NOW, code_of
from rowcast.core.cursors import Cursor
from rowcast.core.errors import Code, Error
from rowcast.core.moments import Moment, moment_of

THEN = 1_767_323_045_000_000


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2026-01-02T03:04:05Z", THEN),
        ("2026-01-02T05:04:05+02:00", THEN),
        ("2026-01-02T05:04:05 02:00", THEN),
        ("2026-01-02 03:04:05", THEN),
        ("1767323045000", THEN),
        (1767323045000, THEN),
        ("0", 0),
        ("now", int(NOW * 1_000_000)),
        ("-1h", int((NOW - 3_600) * 1_000_000)),
        ("-1h30m", int((NOW - 5_400) * 1_000_000)),
        ("-250ms", int((NOW - 0.25) * 1_000_000)),
        ("-90000w", 0),
    ],
)
def test_a_time_is_a_version(text, version):
    assert Moment(version) == moment_of(text, "from", NOW)


def test_a_cursor_is_a_position_and_does_not_move():
    moment = moment_of('"0badcafe:7"', "from", NOW)
    assert Moment(cursor=Cursor("0badcafe", 7)) == moment == moment.later(5)
    assert Moment(6_000) == Moment(1_000).later(5)


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "-1", "-1y", "-", "1h", "+1h", "0badcafe:", "1.5", None, True, [], "9" * 15],
)
def test_anything_else_is_refused(text):
    assert Code.INVALID == code_of(moment_of, text, "from", NOW)


def test_a_refusal_says_what_and_how():
    with pytest.raises(Error, match=r"^asof is a time such as .*-1h.*, not 'x'$"):
        moment_of("x", "asof", NOW)
