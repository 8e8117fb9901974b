"""Starts child processes: by a process that forks them, or as new interpreters.

A fork has all modules imported already, and shares their memory with its parent: it is ready in
milliseconds, where a new interpreter works for a second or two. Only a process with one thread and
no open database can be forked (sqlite.org/howtocorrupt.html, section 2.6). So a server forks a
process at its own start that opens nothing, and has that one fork whatever is wanted later: the
applier, workers, and each of them again when it has ended.

A program is a function, named ``package.module:function``. It is called with the numbers of the
handles that it was given, in its process. Each process has a name, which Linux shows in ``top``.
"""

import errno
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn, Protocol, cast

from rowcast.net.heartbeats import readable

NAME: Final = "rowcast-forks"
"""Of the process that forks others."""
REQUEST_BYTES_MAX: Final = 4096
"""One request: the names of a process and of its program."""
HANDLES_MAX: Final = 16
"""With each request; the first is where the end of the process is told."""
ANSWER_SECONDS_MAX: Final = 10.0
"""For a fork, and before the first of a program for its modules, on a busy machine."""
_STANDARD: Final = range(3)
"""Standard input, output and error."""
_OWN_NAME: Final = Path("/proc/self/comm")
"""Where a process says how it is called, in 15 characters (proc(5))."""
_ID: Final = struct.Struct("!q")
_CODE: Final = struct.Struct("!i")
_START: Final = """\
import gc, json, sys
gc.disable()
sys.path[:] = json.loads(sys.argv[1])
from rowcast.net.fork_server import run_program
run_program(*sys.argv[2:4], sys.argv[4:])
"""
"""What a new interpreter runs: with the path of modules here, whatever is in the directory."""


class Process(Protocol):
    """What a fork and ``subprocess.Popen`` have in common."""

    @property
    def pid(self) -> int:
        """Its id."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return its exit code, negative for a signal.

        Raises ``subprocess.TimeoutExpired`` if it goes on for so many seconds.
        """

    def poll(self) -> int | None:
        """Return its exit code; None while it goes on."""

    def send_signal(self, sig: int) -> None:
        """Send it a signal, unless it has ended."""

    def kill(self) -> None:
        """End it at once."""


class Processes(Protocol):
    """Starts processes."""

    def start(self, name: str, program: str, handles: Sequence[int]) -> Process:
        """Start a program; the handles stay open here, and are the caller's to close."""


class Interpreters:
    """Starts each process as a new interpreter."""

    def start(self, name: str, program: str, handles: Sequence[int]) -> Process:
        """Start a program; see ``Processes``."""
        facts = json.dumps(sys.path), name, program, *map(str, handles)
        return subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-c", _START, *facts],
            pass_fds=handles,
            stdin=subprocess.DEVNULL,
        )


class ForkServer:
    """The process that forks others; new interpreters where there can be none, or it has ended."""

    def __init__(self, seconds_max: float = ANSWER_SECONDS_MAX) -> None:
        self._lock = threading.Lock()
        self._pid = 0
        self._requests: socket.socket | None = None
        if _can_fork():
            self._begin()
            if self._requests is not None:
                self._requests.settimeout(seconds_max)

    def _begin(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        gc.freeze()  # else the first collection in a child copies all memory
        self._pid = os.fork()
        if self._pid == 0:
            # With this end open, it would not notice the end of the server.
            self._requests.close()
            _be_called(NAME)
            _serve_forks(theirs)
        theirs.close()

    @property
    def pid(self) -> int:
        """Its process id; 0 while there is none."""
        return self._pid

    def start(self, name: str, program: str, handles: Sequence[int]) -> Process:
        """Start a program; see ``Processes``."""
        ended, exit_pipe = os.pipe()
        with self._lock:
            try:
                pid = self._ask([name, program], [exit_pipe, *handles])
            finally:
                os.close(exit_pipe)
        if pid is None:
            os.close(ended)
            return Interpreters().start(name, program, handles)
        return Forked(pid, ended)

    def _ask(self, names: Sequence[str], handles: Sequence[int]) -> int | None:
        """Return the id of a new process; None if there is nobody to make it.

        0: it is not known whether there is one, as the answer did not come. A second process must
        not get the same handles, so this one counts as killed; whoever needs it starts another.
        """
        if self._requests is None:
            return None
        try:
            socket.send_fds(self._requests, [json.dumps(names).encode()], handles)
        except OSError:
            self._end()
            return None
        try:
            answer = self._requests.recv(_ID.size)
        except OSError:
            answer = b""
        if len(answer) == _ID.size:
            return int(_ID.unpack(answer)[0]) or None
        self._end()
        return 0

    def close(self) -> None:
        """End the process that forks; what it has started goes on."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._requests is not None:
            self._requests.close()
            self._requests = None
            with suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)  # it has nothing to finish
                os.waitpid(self._pid, 0)
            self._pid = 0


class Forked:
    """A process that the fork server has made, which reports here how it ended."""

    def __init__(self, pid: int, ended: int) -> None:
        self.pid = pid
        self._exit_pipe = ended
        self._code: int | None = None
        self._asking = threading.Lock()
        """Whoever asks for the exit code first has it: a server may stop while another waits."""
        self._handle: int | None = None
        """What names the process, whoever has its id later; None if it ended at once."""
        with suppress(ProcessLookupError):
            self._handle = os.pidfd_open(pid) if pid else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; see ``Process``."""
        if self._handle is not None and not readable(self._handle, timeout):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        with self._asking:
            if self._code is None:
                code = os.read(self._exit_pipe, _CODE.size)
                # Nothing comes when the fork server has ended before it: as if killed, then.
                self._code = int(_CODE.unpack(code)[0]) if code else -signal.SIGKILL
            return self._code

    def poll(self) -> int | None:
        """Return its exit code; None while it goes on."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, sig: int) -> None:
        """Send it a signal, unless it has ended."""
        if self._handle is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, sig)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def __del__(self) -> None:
        """Close the handles."""
        os.close(self._exit_pipe)
        if self._handle is not None:
            os.close(self._handle)


def _can_fork() -> bool:
    """Whether a fork is safe here: macOS has threads of its own, Windows has no fork.

    The processes are named by pidfd_open(2), which Linux has since 5.3, and some sandboxes refuse.
    """
    if sys.platform != "linux" or threading.active_count() > 1:
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True


# -- in the process that forks ---------------------------------------------------------------------


def _serve_forks(requests: socket.socket) -> NoReturn:
    """Fork what is asked for until the server has gone; in a fork, run the program and end."""
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the server says when
            signal.signal(number, signal.SIG_IGN)
        job = _fork_on_request(requests)
        if job is not None:
            _become_child(job[-1])
            run_program(*job)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - as an interpreter does with what nobody catches
        traceback.print_exc()
    finally:
        os._exit(code)


def _fork_on_request(requests: socket.socket) -> tuple[str, str, list[int]] | None:
    """Answer each request with the id of a new process; return what to run, in that process."""
    running: dict[int, tuple[int, int]] = {}
    waiting = select.poll()
    waiting.register(requests, select.POLLIN)
    while True:
        for handle, _ in waiting.poll():
            if handle != requests.fileno():
                waiting.unregister(handle)
                _report_exit(handle, *running.pop(handle))
                continue
            message, handles, *_ = socket.recv_fds(requests, REQUEST_BYTES_MAX, HANDLES_MAX)
            if not message:
                return None
            (name, program), exit_pipe = json.loads(message), handles.pop(0)
            pid = _fork(program)
            if pid == 0:
                return name, program, handles
            if pid is not None:
                child = os.pidfd_open(pid)
                running[child] = pid, exit_pipe
                waiting.register(child, select.POLLIN)
            for other in [*handles, *([exit_pipe] if pid is None else [])]:
                os.close(other)
            requests.send(_ID.pack(pid or 0))


def _fork(program: str) -> int | None:
    """Fork with the modules of the program; None where a fork is not safe, or the system refuses.

    The modules are imported here, so that the next fork has them, too. Where that fails, a new
    interpreter fails likewise, and says why.
    """
    try:
        _function(program)
    except (ImportError, AttributeError):
        return None
    if threading.active_count() > 1:
        return None
    gc.freeze()
    try:
        return os.fork()
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.ENOMEM):
            raise
        return None


def _report_exit(handle: int, pid: int, exit_pipe: int) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError):  # nobody wants to know
        os.write(exit_pipe, _CODE.pack(code))
    os.close(exit_pipe)
    os.close(handle)


# -- in a child ------------------------------------------------------------------------------------


def _become_child(handles: Sequence[int]) -> None:
    """Keep nothing but what this program was given."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    keep = {*_STANDARD, *handles}
    for name in [entry.name for entry in Path("/proc/self/fd").iterdir()]:
        if int(name) not in keep:
            with suppress(OSError):  # that of the listing itself
                os.close(int(name))


def run_program(name: str, program: str, handles: Sequence[int | str]) -> None:
    """Run a program in this process."""
    _be_called(name)
    _function(program)(*map(int, handles))


def _be_called(name: str) -> None:
    with suppress(OSError):  # elsewhere
        _OWN_NAME.write_text(name)


def _function(program: str) -> Callable[..., None]:
    module, _, name = program.partition(":")
    return cast("Callable[..., None]", getattr(importlib.import_module(module), name))
