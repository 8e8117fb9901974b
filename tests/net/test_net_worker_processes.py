"""Child processes: they run functions, are replaced when they die, and end with the server."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import wait
from pathlib import Path

import pytest

from rowcast.core.errors import Code, Error
from rowcast.net.worker_processes import WorkerProcesses
from worker_calls import hang_once, refuse, slowly

UNTIL_SECONDS = 30
NICE_MAX = 19
"""The tests themselves may run at it: then nothing gives way any further."""


@pytest.fixture
def workers():
    made = []

    def make(count=1, **options):
        made.append(WorkerProcesses(count, "test-worker", **options))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def call(workers, function, *arguments):
    return workers.submit(function, *arguments).result(UNTIL_SECONDS)


def until(condition):
    limit = time.monotonic() + UNTIL_SECONDS
    while not condition():
        assert time.monotonic() < limit
        threading.Event().wait(0.01)


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_call_runs_in_a_process_that_the_first_one_starts(workers):
    pool = workers()
    assert [] == pool.pids
    first = call(pool, os.getpid)
    assert [first] == pool.pids
    assert os.getpid() != first == call(pool, os.getpid)


@pytest.mark.heavy
def test_it_gives_way_to_the_server(workers):
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    less = min(mine + 3, NICE_MAX)
    assert less == call(workers(nice=mine + 3), os.getpriority, os.PRIO_PROCESS, 0)
    assert mine == call(workers(nice=mine - 5), os.getpriority, os.PRIO_PROCESS, 0)


def test_large_arguments_and_results_pass(workers):
    data = os.urandom(3_000_000)
    assert data == call(workers(), bytes.join, b"", [data])


def test_its_error_is_the_callers(workers):
    with pytest.raises(Error) as caught:
        call(workers(), refuse, "no", "a/b")
    error = caught.value
    assert (Code.TOO_LARGE, "no", {"allow": ["GET"]}, "a/b") == (
        error.code,
        error.message,
        error.detail,
        error.place,
    )


def test_a_bug_of_a_function_is_raised_with_its_place_and_the_child_goes_on(workers):
    pool = workers()
    child = call(pool, os.getpid)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        call(pool, divmod, 1, 0)
    assert child == call(pool, os.getpid)


@pytest.mark.heavy
def test_a_child_killed_in_the_middle_of_a_call_is_replaced_and_the_call_repeated(
    workers, tmp_path
):
    pool, mark = workers(), tmp_path / "first"
    answer = pool.submit(hang_once, str(mark))
    until(mark.exists)
    killed = int(mark.read_text())
    os.kill(killed, signal.SIGKILL)
    assert killed != answer.result(UNTIL_SECONDS)
    assert is_gone(killed)


@pytest.mark.slow
def test_a_call_that_kills_its_child_twice_is_refused_and_the_next_one_runs(workers):
    pool = workers()
    with pytest.raises(Error, match="ended twice") as caught:
        call(pool, os._exit, 1)
    assert Code.BUSY is caught.value.code
    assert 3 == call(pool, abs, -3)


def test_a_call_that_takes_too_long_ends_its_child(workers):
    pool = workers(seconds_max=0.3)
    with pytest.raises(Error, match="ended twice"):
        call(pool, time.sleep, UNTIL_SECONDS)
    assert [] == pool.pids


@pytest.mark.heavy
def test_a_child_without_calls_ends_and_the_next_call_starts_another(workers):
    pool = workers(idle_seconds=0.05)
    first = call(pool, os.getpid)
    until(lambda: not pool.pids)
    assert is_gone(first)
    assert first != call(pool, os.getpid)


def state_of(pid):
    """Return the state of a process by the kernel: Z for one that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return None


def test_one_child_is_enough_for_one_call_after_the_other(workers):
    pool = workers(2)
    assert 1 == len({call(pool, os.getpid) for _ in range(5)})


async def test_who_no_longer_waits_is_told_nothing_and_the_next_one_is(workers):
    pool = workers()
    task = asyncio.create_task(pool.run(slowly))
    await asyncio.sleep(0)
    task.cancel()
    assert 3 == await pool.run(abs, -3)
    assert task.cancelled()


@pytest.mark.heavy
def test_as_many_run_at_once_as_there_are_children(workers):
    pool = workers(2)
    until(lambda: 2 == len({call.result() for call in [pool.submit(slowly) for _ in range(4)]}))
    assert 2 == len(pool.pids)


def test_stop_ends_the_children_and_refuses_what_runs_and_what_waits(workers, tmp_path):
    pool, mark = workers(), tmp_path / "first"
    running = pool.submit(hang_once, str(mark))
    waiting = pool.submit(abs, -3)
    until(mark.exists)
    (child,) = pool.pids
    pool.stop()
    done, _ = wait([running, waiting], UNTIL_SECONDS)
    assert 2 == len(done)
    assert [Code.BUSY, Code.BUSY] == [one.exception().code for one in (running, waiting)]
    assert is_gone(child)


def test_a_child_ends_when_its_parent_is_killed(tmp_path):
    program = (
        "import os\n"
        "from rowcast.net.worker_processes import WorkerProcesses\n"
        "pool = WorkerProcesses(1, 'x')\n"
        "print(pool.submit(os.getpid).result(), flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    until(lambda: state_of(int(said.stdout)) in {"Z", None})
