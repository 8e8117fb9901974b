"""Background tasks of features: they end with the server, and a failure is told."""

import asyncio

from build import turns
from rowcast.kernel.feature import Background


async def sweep(fails):
    if fails:
        raise ValueError("no such table")
    await asyncio.Event().wait()


async def test_a_task_that_fails_is_told_at_once_with_its_reason(caplog):
    background = Background()
    for fails in (False, True):
        background.run(sweep(fails))
    await turns(3)
    (told,) = caplog.records
    assert "sweep has ended" in told.getMessage()
    assert "no such table" in str(told.exc_info[1])
    await background.stop()


async def test_a_task_that_is_cancelled_at_the_end_is_not_told(caplog):
    background = Background()
    background.run(sweep(fails=False))
    await turns(3)
    await background.stop()
    assert [] == caplog.records
