"""A real Mosquitto to be bridged to: started, stopped and killed by the tests."""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

import pytest

from free_ports import free_port
from serving import PATIENCE_SECONDS

BINARY = shutil.which("mosquitto", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
NEEDS_MOSQUITTO = [
    pytest.mark.interop,
    pytest.mark.skipif(not BINARY, reason="mosquitto is not installed"),
]
"""What a test, or a module of tests, is marked with that starts a ``RemoteBroker``."""


class RemoteBroker:
    """Mosquitto on one port, which it keeps over restarts."""

    def __init__(self, directory: Path, more: str = "") -> None:
        self.port = free_port()
        self.folder = directory
        self._config = directory / "mosquitto.conf"
        self._config.write_text(
            # As root it would become another user, who cannot read the files of a test.
            f"user {getpass.getuser()}\nlistener {self.port} 127.0.0.1\n"
            f"allow_anonymous true\n{more}\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except OSError:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = (BINARY, "-c", str(self._config))
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                if time.monotonic() > until:
                    raise
            else:
                return

    def reload(self) -> None:
        """Let it read its access list again."""
        self.signal(signal.SIGHUP)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, such as SIGSTOP."""
        if self._process is not None:
            self._process.send_signal(number)

    def stop(self) -> None:
        """Ask it to end, which lets it save its sessions."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENCE_SECONDS)
            self._process = None

    def kill(self) -> None:
        """End it without a word."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_SECONDS)
            self._process = None
