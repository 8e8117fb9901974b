"""Processes: ports, start, ready check, CPU time and memory from /proc, and a sure end."""

import ctypes
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

PROCESS_CPU_CLOCK = 2
"""What clock_getcpuclockid(3) adds to a process: its time on a processor, of all its threads."""
PAGE_BYTES = os.sysconf("SC_PAGESIZE")
SERVER_PORTS = range(20_000, 32_768)
READY_TIMEOUT_SECONDS = 30.0
STOP_TIMEOUT_SECONDS = 5.0
POLL_SECONDS = 0.05
LOG_TAIL_CHARACTERS = 1500
PR_SET_PDEATHSIG = 1
NEW_LINE = "\n"
LIBC = ctypes.CDLL(None, use_errno=True)


class BenchError(Exception):
    """A server, peer or generator could not do its part; the sentence says why."""


_given: set[int] = set()
"""Ports that were given out: a server may not listen yet on its own."""


def free_port() -> int:
    """Return a port of the loopback interface that is free now, each only once.

    It is none of those that the system gives to clients: one of them may have it before its server.
    Programs that have set the same seed of ``random`` do not choose the same.
    """
    while True:
        port = random.SystemRandom().choice(SERVER_PORTS)
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its children, with all threads, to the nanosecond.

    /proc tells it in hundredths of a second: 2% of a short round.
    """
    return sum(map(_own_cpu_seconds, [pid, *descendants(pid)]))


def _own_cpu_seconds(pid: int) -> float:
    with suppress(OSError):  # it has ended meanwhile
        return time.clock_gettime((~pid << 3) | PROCESS_CPU_CLOCK)
    return 0.0


def descendants(pid: int) -> list[int]:
    """Return the child processes of a process (proc(5), children), and theirs."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, task.read_text().split())
    return [*found, *(one for child in found for one in descendants(child))]


def rss_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES


def peak_rss_bytes(pid: int) -> int:
    """Return the most memory that a process ever had resident."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024


@dataclass(frozen=True, slots=True)
class Placement:
    """Which cores servers and the generator run on; empty sets leave it to the scheduler."""

    servers: frozenset[int] = frozenset()
    generator: frozenset[int] = frozenset()


def apart() -> Placement:
    """Keep the generator on the last core; servers may use all: one may be two processes."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return Placement()
    return Placement(frozenset(cores), frozenset(cores[-1:]))


def child_setup(cores: frozenset[int]) -> Callable[[], None]:
    """Return what a child does first: stay on its cores, and end when the harness is gone."""

    def setup() -> None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if cores:
            os.sched_setaffinity(0, cores)

    return setup


class Process:
    """A child in a process group of its own, its output in a file."""

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        cores: frozenset[int] = frozenset(),
        env: dict[str, str] | None = None,
    ) -> None:
        self.log = log
        with log.open("wb") as out:
            self.child = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                env={**os.environ, **(env or {})},
                start_new_session=True,
                preexec_fn=child_setup(cores),  # noqa: PLW1509 - the harness has no threads
            )
        self.pid = self.child.pid

    def wait_ready(self, ports: Sequence[int], seconds: float = READY_TIMEOUT_SECONDS) -> None:
        """Return when all ports take connections."""
        limit = time.monotonic() + seconds
        waiting = list(ports)
        while waiting:
            if self.child.poll() is not None:
                raise BenchError(f"ended with {self.child.returncode} at its start: {self.said()}")
            if time.monotonic() > limit:
                raise BenchError(f"not ready within {seconds:.0f} s: {self.said()}")
            waiting = [port for port in waiting if not accepts(port)]
            if waiting:
                time.sleep(POLL_SECONDS)

    def said(self) -> str:
        """Return the last line of the output, and below it what came before."""
        return f"{self.tail().rpartition(NEW_LINE)[2]}{NEW_LINE}{self.tail()}"

    def tail(self) -> str:
        """Return the end of the output."""
        return self.log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:].strip()

    def stop(self) -> None:
        """End the process group and wait for it."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)
            try:
                self.child.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            return


def accepts(port: int) -> bool:
    """Say whether a TCP connection to the port is taken."""
    try:
        with closing(socket.create_connection(("127.0.0.1", port), timeout=1)):
            return True
    except OSError:
        return False
