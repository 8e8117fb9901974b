"""What the process of a server, a node or a worker sets before anything is open."""

import _sqlite3
import asyncio
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from rowcast.program.process import bounded_end

PROGRAM = """
import asyncio, ctypes, sqlite3, sys, _sqlite3
from rowcast.program import process
from rowcast.program.config import load_config

used = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
used.restype = ctypes.c_longlong

async def serve(_config, _applier):
    kept = sqlite3.connect(":memory:")
    kept.execute("CREATE TABLE numbers (n)")
    print(used())

if sys.argv[1] == "server":
    process.run(load_config(None, {}, {}), serve)
else:  # as a worker does
    process.prepare(load_config(None, {}, {}))
    asyncio.run(serve(None, None))
"""


@pytest.mark.skipif(not hasattr(_sqlite3, "__file__"), reason="this Python has SQLite inside")
@pytest.mark.parametrize("kind", ["server", "worker"])
@pytest.mark.slow
def test_nobody_counts_the_memory_of_sqlite(tmp_path, kind):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert "0" == done.stdout.strip()


def test_a_loop_whose_task_suppresses_its_cancellation_is_left(caplog):
    """G22: nothing in asyncio bounds the end of a loop; so the process exits, with a log line."""
    left = threading.Event()

    async def stubborn():
        while not left.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)

    async def main():
        asyncio.get_running_loop().create_task(stubborn())
        await asyncio.sleep(0)

    runner = asyncio.Runner()
    runner.run(main())
    with bounded_end(seconds=0.01, late=left.set):
        runner.close()
    assert left.is_set()
    assert "tasks or threads of hooks or resources go on" in caplog.text


def test_an_end_in_time_is_left_alone():
    late = []
    with bounded_end(seconds=3600, late=lambda: late.append(True)):
        pass
    assert [] == late
    assert not [one for one in threading.enumerate() if isinstance(one, threading.Timer)]
