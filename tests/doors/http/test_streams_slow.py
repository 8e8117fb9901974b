"""O7: readers of SSE and WebSocket are timed until what they get is written to their socket."""

import asyncio
import time

import pytest

from http_server import HttpServer, hear
from rowcast.doors.http.streams.stream_writer import Flusher, StreamWriter
from rowcast.features.slow_subscribers.slow_subscribers import (
    Measure,
    SlowSettings,
    SlowSubscriptions,
)

AHEAD_SECONDS = 10
"""How far the clock of the list is ahead: so late is all that has just arrived."""


@pytest.fixture(params=[Measure.WHOLE, Measure.RESPONSE])
async def doors(request):
    async with HttpServer() as running:
        running.slow = slow = SlowSubscriptions(
            SlowSettings(request.param),
            lambda: time.time() + AHEAD_SECONDS,
            asyncio.get_running_loop(),
            running.kernel.live.changed,
        )
        slow.listen(running.kernel.reader)
        yield running


def late(doors, door):
    """Return the topics at which the reader at a door was late."""
    slow = doors.slow
    assert all(slow.entry(name).seconds >= AHEAD_SECONDS for name in slow.names())
    return [name.removeprefix(f"{door}/anonymous/") for name in slow.names()]


def expected(doors):
    """Return where it is late: nothing here acknowledges, so there are no responses."""
    return [] if doors.slow.settings.measure is Measure.RESPONSE else ["Dog/1"]


async def test_an_event_stream(doors):
    """O7: the record that is there already is not late; the event is."""
    await doors.write("Dog/2")
    async with doors.sse("/Dog/") as stream:
        await stream.next(2)
        await doors.write("Dog/1")
        await stream.next()
    assert expected(doors) == late(doors, "sse")


async def test_a_websocket(doors):
    await doors.write("Dog/2")
    async with doors.ws("/Dog/") as socket:
        await hear(socket, 2)
        await doors.write("Dog/1")
        await hear(socket)
    assert expected(doors) == late(doors, "ws")


def test_from_when_on_a_reader_could_take_nothing():
    """O7: what nobody keeps counts from when the peer did not take what was before it."""
    held = []
    writer = StreamWriter(Flusher(), list, bool, lambda: held.append(True))
    writer.busy_since = 1.0
    writer.flush()
    assert [True] == held


async def test_the_lag_of_one_delivery_in_seventeen_is_counted(doors):
    """Of what arrived while the reader was there; the record that was there before is not late."""
    await doors.write("Dog/2")
    async with doors.ws("/Dog/") as socket:
        await hear(socket, 2)
        for _ in range(35):
            await doors.write("Dog/1")
            await hear(socket)
    counts = {door: sum(lag.counts) for door, lag in doors.slow.lags.items()}
    assert counts == ({} if doors.slow.settings.measure is Measure.RESPONSE else {"ws": 2})
    assert all(lag.total >= 2 * AHEAD_SECONDS for lag in doors.slow.lags.values())
