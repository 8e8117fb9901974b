"""Moments: what a time, a while ago or a cursor is as a place in the log (E25)."""

import pytest

from build import ANN, NOW, Server, turns
from rowcast.codecs import JSON
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT, Event
from rowcast.core.moments import moment_of
from rowcast.features.history.moments import position_of


async def test_a_cursor_on_the_disk_that_is_not_announced_is_a_moment():
    """M1: a listing may tell it a moment before the bus does."""
    room = Server()
    room.kernel.submit(Event("Dog/1", PUT, b'{"name":"Rex"}', JSON, 1, True), ANN)
    await turns(2)  # one for the current record, one to store
    assert (1, 0) == (room.store.head(), room.committer.announced)
    assert 1 == await position_of(room.reader, None, moment_of(room.kernel.cursor(1), "from", NOW))
    await room.committer.settle()
    with pytest.raises(Error) as refused:
        await position_of(room.reader, None, moment_of(room.kernel.cursor(2), "from", NOW))
    assert Code.GONE is refused.value.code
