"""What the process of a server, a node or a worker sets before anything is open."""

import _sqlite3
import subprocess
import sys

import pytest

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
