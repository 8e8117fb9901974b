"""Programs from outside Python: where they are, and how they are run."""

import queue
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from paho.mqtt.client import Client

from serving import PATIENCE_SECONDS

MODULES = Path(__file__).parent / "node_modules"


def needs(program: str) -> pytest.MarkDecorator:
    """Return the mark that skips a test where the program is not installed."""
    return pytest.mark.skipif(not shutil.which(program), reason=f"{program} is not installed")


def library(*names: str) -> tuple[Path, pytest.MarkDecorator]:
    """Return the place of what npm installs here, and the mark that skips where it did not."""
    place = MODULES.joinpath(*names)
    reason = f"{'/'.join(names)} is not there: run npm ci in tests/interop"
    return place, pytest.mark.skipif(not place.exists(), reason=reason)


def run(*command: object, given: bytes | None = None) -> bytes:
    """Run a program to its end and return what it wrote."""
    done = subprocess.run(
        list(map(str, command)),
        input=given,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"{command[0]}: exit code {done.returncode}: {done.stderr.decode()}")
    return done.stdout


class Program:
    """A program that runs on; its lines are read as they come."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line.rstrip(b"\r\n"))
        self._lines.put(b"(the program has ended)")

    def line(self) -> bytes:
        """Return the next line."""
        return self._lines.get(timeout=PATIENCE_SECONDS)

    def end(self) -> None:
        """End it, and its reader."""
        self.process.terminate()
        self.process.wait(PATIENCE_SECONDS)
        self._reader.join()
        self.process.stdout.close()


@contextmanager
def running(*command: object) -> Iterator[Program]:
    """Run a program until the block ends; `stdbuf` makes it write each line at once."""
    process = subprocess.Popen(
        ["stdbuf", "-oL", *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    program = Program(process)
    try:
        yield program
    finally:
        program.end()


def stop_loop(client: Client) -> None:
    """End the thread of a paho client.

    As the thread ends by itself, it removes itself from the client: in version 2.1 also between
    ``loop_stop``'s question whether there is one and its ``join``.
    """
    with suppress(AttributeError):
        client.loop_stop()
