"""The process of the applier, as the server holds it: forked before anything is open, or started.

A fork has all modules imported already, and shares their memory with the server: it is ready at
once, where a new interpreter works for a second. Only a process with one thread and no open
database can be forked (sqlite.org/howtocorrupt.html, section 2.6), so only the first applier of a
server is; one that is started again is a new interpreter.
"""

import gc
import os
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, Protocol

from rowcast.journal import applier_main
from rowcast.journal.pipes import SharedNumber

_PACKAGES: Final = str(Path(__file__).parents[2])
_START: Final = (
    "import gc; gc.disable(); import sys; sys.path.insert(0, sys.argv[1]); "
    "from rowcast.journal.applier_main import main; main(*map(int, sys.argv[2:]))"
)
"""The process runs the code that this one runs, wherever that was imported from."""


class Process(Protocol):
    """What ``subprocess.Popen`` and a fork have in common."""

    @property
    def pid(self) -> int:
        """Its id."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return its exit code, negative for a signal.

        Raises ``subprocess.TimeoutExpired`` if it goes on for so many seconds.
        """

    def kill(self) -> None:
        """End it at once."""


class Forked:
    """A child made by ``os.fork``."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._ended = os.pidfd_open(pid)
        self._code: int | None = None
        self._asking = threading.Lock()
        """Whoever asks for the exit code first has it: a server may stop while another waits."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; see ``Process``."""
        if self._code is None and not select.select([self._ended], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("the applier", timeout or 0)
        with self._asking:
            if self._code is None:
                self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            return self._code

    def __del__(self) -> None:
        """Close the handle of its end."""
        os.close(self._ended)

    def kill(self) -> None:
        """End it at once."""
        if self._code is None:  # else another process may have its id by now
            os.kill(self.pid, signal.SIGKILL)


@dataclass(frozen=True)
class Child:
    """A process that waits for its first message, or works."""

    process: Process
    read: int
    """The handle of its reports."""
    write: int
    """The handle of what it is told."""
    wanted: SharedNumber
    """The number of the last batch that it is to apply."""

    def close(self) -> None:
        """Close the handles, which ends a process that was never told anything."""
        os.close(self.read)
        os.close(self.write)
        self.wanted.close()


Spawn = Callable[[], Child]
"""Starts an applier."""


def spawn_applier() -> Child:
    """Start an applier in a new interpreter."""
    (child_read, write), (read, child_write) = os.pipe(), os.pipe()
    wanted = SharedNumber()
    handles = (child_read, child_write, wanted.handle)
    try:
        process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-c", _START, _PACKAGES, *map(str, handles)],
            pass_fds=handles,
            stdin=subprocess.DEVNULL,
        )
    finally:
        os.close(child_read)
        os.close(child_write)
    return Child(process, read, write, wanted)


class ForkedApplier:
    """An applier that is forked now, for the first call; each call after it starts a new one."""

    def __init__(self) -> None:
        self._child: Child | None = _fork() if _can_fork() else None

    def __call__(self) -> Child:
        """Return the process that was forked, once; then new ones."""
        child, self._child = self._child, None
        return child or spawn_applier()

    def close(self) -> None:
        """End the process if nobody has asked for it."""
        child, self._child = self._child, None
        if child is not None:
            child.close()
            child.process.wait()


def _can_fork() -> bool:
    """Whether a fork is safe here: macOS has threads of its own, Windows has no fork."""
    return sys.platform == "linux" and threading.active_count() == 1


def _fork() -> Child:
    (child_read, write), (read, child_write) = os.pipe(), os.pipe()
    wanted = SharedNumber()
    gc.freeze()  # else the first collection in the child copies all memory
    pid = os.fork()
    if pid == 0:
        # The server's ends are closed: with them open, the child would not notice the server's end.
        os.close(read)
        os.close(write)
        _be_applier(child_read, child_write, wanted.handle)
    os.close(child_read)
    os.close(child_write)
    return Child(Forked(pid), read, write, wanted)


def _be_applier(read: int, write: int, wanted: int) -> NoReturn:
    """Work, and end without what the server would do at its own end."""
    code = 1
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        applier_main.main(read, write, wanted)
        code = 0
    except BaseException:  # noqa: BLE001 - as an interpreter does with what nobody catches
        traceback.print_exc()
    finally:
        os._exit(code)
