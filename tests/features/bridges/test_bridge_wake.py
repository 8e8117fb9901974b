"""What wakes a bridge, and that what is written together is sent together (H3)."""

import asyncio

import pytest

from rowcast.features.bridges.debounced_event import DebouncedEvent
from serving import PATIENCE_SECONDS


async def woken(wake):
    """Tell whether it is woken within a few turns."""
    task = asyncio.create_task(wake.wait(None))
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,))
    return not task.cancelled()


@pytest.fixture
async def wake():
    return DebouncedEvent(gather_seconds=3_600)


async def test_single_news_wake_at_once_and_more_are_gathered(wake):
    """H3."""
    wake._last = -1e9  # it was long ago
    assert not await woken(wake)
    wake.soon()
    assert await woken(wake)
    for _ in range(3):
        wake.soon()
    assert not await woken(wake)
    wake.now()
    assert await woken(wake)


async def test_gathered_news_wake_in_time(monkeypatch):
    """H3: also when nothing else happens."""
    wake = DebouncedEvent()
    for _ in range(3):
        wake.soon()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await wake.wait(None)


async def test_it_wakes_when_the_time_is_over(wake):
    async with asyncio.timeout(PATIENCE_SECONDS):
        await wake.wait(0.001)
