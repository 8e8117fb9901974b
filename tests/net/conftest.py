"""The loops that a server may run on: asyncio's own, and uvloop where it is installed."""

import asyncio

import pytest

try:
    import uvloop
except ImportError:
    FACTORIES = {"asyncio": asyncio.new_event_loop}
else:
    FACTORIES = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=FACTORIES)
def run(request):
    """Run a coroutine on each kind of loop; afterwards no task is left."""

    async def alone(work):
        async with asyncio.timeout(60):
            await work
        assert {asyncio.current_task()} == asyncio.all_tasks()

    def _run(work):
        with asyncio.Runner(loop_factory=FACTORIES[request.param]) as runner:
            runner.run(alone(work))

    return _run
