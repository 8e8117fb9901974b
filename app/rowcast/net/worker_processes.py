"""Child processes that run functions, so that the event loop keeps its lock and its core.

A thread of a lower priority is not enough: when it has the interpreter's lock and the scheduler
gives its core to another program, the loop waits for both. A child process has a lock of its own.

One thread for each child writes a call to a socket and waits for the answer. It starts the child
with the first call, ends it after some time without one, and replaces it when it dies: functions
must be pure, because a call whose child died is repeated once.
"""

import asyncio
import os
import pickle
import signal
import socket
import struct
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, TypeVar, cast

from rowcast.core.errors import Code, Error, stopping
from rowcast.core.fairness_limits import WORKER_CALL_SECONDS_MAX, WORKER_IDLE_SECONDS
from rowcast.net.fork_server import Interpreters, Processes

T = TypeVar("T")
Job = tuple["Future[object]", Callable[..., object], tuple[object, ...]]

WORKER_NICE: Final = 10
"""A tenth of the share of a thread of the usual value, 0, where both want the same core."""
_ATTEMPTS: Final = 2
_HEAD: Final = struct.Struct("!Q")
_DONE, _FAILED = range(2)
PROGRAM: Final = "rowcast.net.worker_processes:main"


class WorkerProcesses:
    """So many children, started on demand; each runs one call at a time.

    ``nice`` is the least nice value of a child. A call that takes longer than ``seconds_max`` ends
    its child; ``idle_seconds`` without a call do, too, which frees its memory. ``processes`` start
    a child.
    """

    def __init__(
        self,
        count: int,
        name: str,
        nice: int = WORKER_NICE,
        seconds_max: float = WORKER_CALL_SECONDS_MAX,
        idle_seconds: float = WORKER_IDLE_SECONDS,
        processes: Processes | None = None,
    ) -> None:
        self._count = count
        self._name = name
        self._nice = nice
        self._seconds_max = seconds_max
        self._idle_seconds = idle_seconds
        self._processes = processes or Interpreters()
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        """Calls that wait; None for each thread that is to end."""
        self._lock = threading.Lock()
        """Of the next three: the event loop takes it, so it is never held for long."""
        self._workers: list[Worker] = []
        self._unfinished = 0
        self._stopped = False
        self._starting = threading.Lock()
        """Of the children: held while one starts or ends."""
        self._children: set[Child] = set()

    @property
    def pids(self) -> list[int]:
        """The process ids of the children."""
        with self._starting:
            return [child.process.pid for child in self._children]

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Return what a function returns in a child; see ``submit``."""
        return await asyncio.wrap_future(self.submit(function, *arguments))

    def submit(self, function: Callable[..., T], *arguments: object) -> "Future[T]":
        """Have a child run a function, which is found by its name; arguments are pickled.

        The future raises the Error that the function raises, BUSY when a child dies of it twice or
        the server stops. Calls are run in order, as many at once as there are children.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._stopped:
                future.set_exception(stopping())
                return future
            self._unfinished += 1
            if len(self._workers) < min(self._count, self._unfinished):
                name = f"{self._name}_{len(self._workers)}"
                self._workers.append(Worker(self, name, self._idle_seconds))
                self._workers[-1].start()
        self._jobs.put((cast("Future[object]", future), function, arguments))
        return future

    def stop(self) -> None:
        """End all children; calls that run or wait are refused."""
        with self._lock:
            self._stopped = True
        with self._starting:
            for child in self._children:
                child.process.kill()
        for _ in self._workers:
            self._jobs.put(None)
        for worker in self._workers:
            worker.join()

    def begin(self, child: "Child | None") -> "Child":
        """Return a child that lives, the one given if it does; raises BUSY at the end."""
        with self._starting:
            if self._stopped:
                raise stopping()
            if child is not None and child.process.poll() is None:
                return child
            self._drop(child)
            child = Child(self._processes, self._name, self._nice, self._seconds_max)
            self._children.add(child)
            return child

    def end(self, child: "Child | None") -> None:
        """End a child, and wait until it is gone."""
        with self._starting:
            self._drop(child)

    def _drop(self, child: "Child | None") -> None:
        if child is not None:
            self._children.discard(child)
            child.end()

    def next_job(self, seconds: float | None) -> "Job | None":
        """Wait for a call; None at the end. Raises Empty when there is none for so long."""
        return self._jobs.get(timeout=seconds)

    def finish(self) -> None:
        """Count a call as done."""
        with self._lock:
            self._unfinished -= 1


class Worker(threading.Thread):
    """The thread of one child."""

    def __init__(self, pool: WorkerProcesses, name: str, idle_seconds: float) -> None:
        super().__init__(name=name, daemon=True)
        self._pool = pool
        self._idle_seconds = idle_seconds
        self._child: Child | None = None

    def run(self) -> None:
        """Run calls in the child, until the server stops."""
        while True:
            try:
                job = self._pool.next_job(None if self._child is None else self._idle_seconds)
            except Empty:
                self._end()
                continue
            if job is None:
                break
            future, function, arguments = job
            if future.cancelled():  # its client is gone
                self._pool.finish()
                continue
            try:
                result = self._call(pickle.dumps((function, arguments), pickle.HIGHEST_PROTOCOL))
            except Exception as failure:  # noqa: BLE001 - it is told to who called
                self._pool.finish()
                _settle(future, failure=failure)
            else:
                self._pool.finish()
                _settle(future, result)
        self._end()

    def _call(self, request: bytes) -> object:
        """Return the result of a call; a child that dies of it is replaced once."""
        for _ in range(_ATTEMPTS):
            self._child = self._pool.begin(self._child)
            try:
                kind, said = self._child.ask(request)
            except (OSError, EOFError):
                self._end()
                continue
            if kind == _FAILED:
                raise RuntimeError(said)
            if isinstance(said, Error):
                raise said
            return said
        raise Error(
            Code.BUSY,
            "the process that works on this has ended twice; try again in a moment",
            retry_after_seconds=1,
        )

    def _end(self) -> None:
        self._pool.end(self._child)
        self._child = None


def _settle(
    future: "Future[object]", result: object = None, failure: Exception | None = None
) -> None:
    """Tell the outcome to who waits; nobody does when its task was cancelled."""
    if future.set_running_or_notify_cancel():
        if failure is None:
            future.set_result(result)
        else:
            future.set_exception(failure)


class Child:
    """A child process, and the socket to it."""

    def __init__(self, processes: Processes, name: str, nice: int, seconds_max: float) -> None:
        self._socket, other = socket.socketpair()
        self._socket.settimeout(seconds_max)
        with other:
            self.process = processes.start(name, PROGRAM, (other.fileno(),))
        if self.process.poll() is not None:  # which the next call notices
            return
        with suppress(ProcessLookupError):
            if os.getpriority(os.PRIO_PROCESS, self.process.pid) < nice:
                os.setpriority(os.PRIO_PROCESS, self.process.pid, nice)

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


def main(number: int) -> None:
    """Be a child, on a socket of this number: run the calls that come, until there are no more.

    Ctrl-C in a terminal is sent to children, too, and so may be SIGHUP, which has the parent read
    its certificates again; this one leaves it to its parent to stop, and ends when the parent's
    side of the socket is closed.
    """
    for each in (signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    sock = socket.socket(fileno=number)
    with suppress(OSError, EOFError):
        while True:
            send(sock, _answer(receive(sock)))


def _answer(request: bytearray) -> bytes:
    try:
        function, arguments = pickle.loads(request)  # noqa: S301 - from our own process
        return pickle.dumps((_DONE, function(*arguments)), pickle.HIGHEST_PROTOCOL)
    except Error as error:
        return pickle.dumps((_DONE, error), pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001 - a bug, which the parent tells of
        return pickle.dumps((_FAILED, traceback.format_exc()), pickle.HIGHEST_PROTOCOL)
