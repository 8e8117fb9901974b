"""Moments: what a time, a while ago or a cursor is as a place in the log (E25)."""

import asyncio

import pytest

from build import ANN, NOW, Server, code_of
from rowcast.codecs import JSON
from rowcast.core.cursors import Cursor
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT, Event
from rowcast.features.history.moments import Moment, moment_of, position_of

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


async def test_a_cursor_on_the_disk_that_is_not_announced_is_a_moment():
    """M1: a listing may tell it a moment before the bus does."""
    room = Server()
    room.kernel.submit(Event("Dog/1", PUT, b'{"name":"Rex"}', JSON, 1, True), ANN)
    await asyncio.sleep(0)
    assert (1, 0) == (room.store.head(), room.committer.announced)
    assert 1 == await position_of(room.reader, None, moment_of(room.kernel.cursor(1), "from", NOW))
    await room.committer.settle()
    with pytest.raises(Error) as refused:
        await position_of(room.reader, None, moment_of(room.kernel.cursor(2), "from", NOW))
    assert Code.GONE is refused.value.code
