"""Child processes that run functions, so that the event loop keeps its lock and its core.

A thread of a lower priority is not enough: when it has the interpreter's lock and the scheduler
gives its core to another program, the loop waits for both. A child process has a lock of its own.

One thread for each child writes a call to a socket and waits for the answer. A child is started by
the first call, ends after some idle time, and is replaced when it dies: functions must be pure,
because a call whose child died is repeated once.
"""

import json
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar, cast

from rowcast.core.errors import Code, Error, stopping
from rowcast.core.fairness_limits import WORKER_CALL_SECONDS_MAX, WORKER_IDLE_SECONDS

T = TypeVar("T")

WORKER_NICE: Final = 10
"""A tenth of the share of a thread of the usual value, 0, where both want the same core."""
_ATTEMPTS: Final = 2
_HEAD: Final = struct.Struct("!Q")
_DONE, _FAILED = range(2)
_PROGRAM: Final = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from rowcast.net.worker_processes import main
main(*sys.argv[2:])
"""
"""The child's: with the parent's path for modules, whatever is in the working directory."""


class WorkerProcesses:
    """So many children, started on demand; each runs one call at a time.

    ``nice`` is the least nice value of a child. A call that takes longer than ``seconds_max`` ends
    its child; ``idle_seconds`` without a call do, too, which frees its memory.
    """

    def __init__(
        self,
        count: int,
        name: str,
        nice: int = WORKER_NICE,
        seconds_max: float = WORKER_CALL_SECONDS_MAX,
        idle_seconds: float = WORKER_IDLE_SECONDS,
    ) -> None:
        self.threads = ThreadPoolExecutor(count, thread_name_prefix=name)
        """They wait for the children; whoever calls ``call`` does it on one of them."""
        self._nice = nice
        self._seconds_max = seconds_max
        self._idle_seconds = idle_seconds
        self._own = threading.local()
        self._lock = threading.Lock()
        self._children: set[Child] = set()
        self._stopped = False

    @property
    def pids(self) -> list[int]:
        """The process ids of the children that were not seen to end."""
        with self._lock:
            return [child.process.pid for child in self._children]

    def call(self, function: Callable[..., T], *arguments: object) -> T:
        """Return what a function returns in a child; blocks, so only on one of ``threads``.

        The function is found by its name, arguments and result are pickled. Raises the Error that
        it raises, BUSY when the child dies of it twice or the server stops.
        """
        request = pickle.dumps((function, arguments), pickle.HIGHEST_PROTOCOL)
        for _ in range(_ATTEMPTS):
            child = self._child()
            try:
                kind, said = child.ask(request)
            except (OSError, EOFError):
                self._end(child)
                continue
            if kind == _FAILED:
                raise RuntimeError(said)
            if isinstance(said, Error):
                raise said
            return cast("T", said)
        raise Error(
            Code.BUSY,
            "the process that works on this has ended twice; try again in a moment",
            retry_after_seconds=1,
        )

    def _child(self) -> "Child":
        """Return the child of this thread; a new one when there is none."""
        child: Child | None = getattr(self._own, "child", None)
        with self._lock:
            if self._stopped:
                raise stopping()
            if child is None or child not in self._children or child.process.poll() is not None:
                if child is not None:
                    self._children.discard(child)
                    child.end()
                child = self._own.child = Child(self._nice, self._seconds_max, self._idle_seconds)
                self._children.add(child)
        return child

    def _end(self, child: "Child") -> None:
        with self._lock:
            self._children.discard(child)
            child.end()

    def stop(self) -> None:
        """End all children; calls that run or wait are refused."""
        with self._lock:
            self._stopped = True
            for child in self._children:
                child.process.kill()
        self.threads.shutdown()
        for child in self._children:
            child.end()
        self._children.clear()


class Child:
    """A child process, and the socket to it."""

    def __init__(self, nice: int, seconds_max: float, idle_seconds: float) -> None:
        self._socket, other = socket.socketpair()
        self._socket.settimeout(seconds_max)
        with other:
            facts = [str(value) for value in (other.fileno(), nice, idle_seconds)]
            self.process = subprocess.Popen(  # noqa: S603 - the program above
                [sys.executable, "-P", "-c", _PROGRAM, json.dumps(sys.path), *facts],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(other.fileno(),),
            )

    def ask(self, request: bytes) -> tuple[int, object]:
        """Return the kind of the answer and what it holds; raises OSError, EOFError."""
        send(self._socket, request)
        kind, said = pickle.loads(receive(self._socket))  # noqa: S301 - from our own process
        return kind, said

    def end(self) -> None:
        """End it, and wait until it is gone."""
        self._socket.close()
        self.process.kill()
        self.process.wait()


def send(sock: socket.socket, data: bytes) -> None:
    """Send bytes and, before them, how many."""
    sock.sendall(_HEAD.pack(len(data)))
    sock.sendall(data)


def receive(sock: socket.socket) -> bytearray:
    """Return the bytes of one ``send``; raises EOFError when the other side is gone."""
    (size,) = _HEAD.unpack(_read(sock, _HEAD.size))
    return _read(sock, size)


def _read(sock: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = sock.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]
    return data


def main(number: str, nice: str, idle_seconds: str) -> None:
    """Be a child, on a socket of this number.

    Ctrl-C in a terminal is sent to children, too; this one leaves it to its parent to stop, and
    ends when the parent's side of the socket is closed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(socket.socket(fileno=int(number)), int(nice), float(idle_seconds))


def serve(sock: socket.socket, nice: int, idle_seconds: float) -> None:
    """Run the calls that come; the child's side. Returns when no more are to come."""
    lower = nice - os.getpriority(os.PRIO_PROCESS, 0)
    if lower > 0:
        os.nice(lower)
    while True:
        sock.settimeout(idle_seconds)
        try:
            head = sock.recv(1, socket.MSG_PEEK)
            sock.settimeout(None)
            request = receive(sock)
        except (OSError, EOFError):
            return
        if not head:
            return
        answer = _answer(request)
        del request
        with suppress(OSError):
            send(sock, answer)


def _answer(request: bytearray) -> bytes:
    try:
        function, arguments = pickle.loads(request)  # noqa: S301 - from our own process
        return pickle.dumps((_DONE, function(*arguments)), pickle.HIGHEST_PROTOCOL)
    except Error as error:
        return pickle.dumps((_DONE, error), pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001 - a bug, which the parent tells of
        return pickle.dumps((_FAILED, traceback.format_exc()), pickle.HIGHEST_PROTOCOL)
