"""A hangup (SIGHUP) has the certificates read again, also while the server starts.

By default it ends a process, and a hook that renews certificates may send one at any time.
"""

import asyncio
import os
import signal
from types import SimpleNamespace

import pytest

from rowcast.program import main
from rowcast.program.config import load_config

TURNS = 50


async def test_l4_a_hangup_while_the_server_starts_ends_nothing(tmp_path, monkeypatch):
    """L4: the files are looked at when it goes on."""
    looks = []

    class Starting:
        def __init__(self, *_, **__):
            certificates = SimpleNamespace(look_now=lambda: looks.append(1))
            self.doors = SimpleNamespace(certificates=certificates)

        async def start(self):
            os.kill(os.getpid(), signal.SIGHUP)
            for _ in range(TURNS):
                await asyncio.sleep(0)
            raise LookupError("it has got this far")

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # these tests do not end, either
    monkeypatch.setattr(main, "Application", Starting)
    try:
        with pytest.raises(LookupError, match="this far"):
            await main._serve(load_config(None, {"ROWCAST_DATA": str(tmp_path)}, {}), None)
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
        signal.signal(signal.SIGHUP, before)
    assert [1] == looks
