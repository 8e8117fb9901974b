"""The applier's process: forked when a server starts, a new interpreter when it starts again."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rowcast.journal.applier_child import Forked, ForkedApplier, spawn_applier
from serving import wait_until

SCHEMA = "type Dog @table @export { id: ID @primaryKey  name: String }"

APPLY = f"""
import os, signal, sys, time
from pathlib import Path
from rowcast.core.events import PUT
from rowcast.journal.applier_child import Forked, ForkedApplier
from rowcast.journal.opening import open_journal
from rowcast.schema import parse_schema
from store_cases import Writer

applier, schema = ForkedApplier(), {SCHEMA!r}
store = open_journal(Path(sys.argv[1]), time.time, schema, applier=applier)
store.open(parse_schema(schema).tables)
process, writer = store._applying._child.process, Writer()
print("forked" if isinstance(process, Forked) else "started")
store.commit([writer.event("u/1", PUT, b"x")])
store.caught_up()
process.kill()
store.commit([writer.event("u/2", PUT, b"y")])
store.caught_up()
print(store._applying.restarts, *[event.payload.decode() for event in store.read(0, 9)])
print("forked" if isinstance(store._applying._child.process, Forked) else "started")
store.close()
applier.close()
"""

LEAVE = """
import os
from rowcast.journal.applier_child import ForkedApplier

child = ForkedApplier()()
print(child.process.pid, flush=True)
os._exit(0)
"""


def run(program: str, *arguments: object) -> list[str]:
    """Run a program that has one thread, unlike this one, and return its lines."""
    path = {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=os.environ | path,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.splitlines()


def ended(pid: str) -> bool:
    """Whether a process has ended, even if nobody has asked how."""
    try:
        return ") Z " in Path("/proc", pid, "stat").read_text()
    except OSError:
        return True


@pytest.mark.slow
def test_the_first_applier_is_a_fork_and_each_later_one_a_new_interpreter(tmp_path):
    told = run(APPLY, tmp_path / "rowcast.db")
    assert ["forked", "1 x y", "started"] == told


def test_a_forked_applier_ends_with_its_server():
    [pid] = run(LEAVE)
    wait_until(lambda: ended(pid), "the end of the applier")


def test_a_forked_applier_that_nobody_wanted_ends():
    program = LEAVE.replace("child = ForkedApplier()()", "it = ForkedApplier(); child = it._child")
    [pid] = run(program.replace("os._exit(0)", "it.close(); os._exit(child.process.wait())"))
    assert ended(pid)


def test_a_process_with_threads_is_not_forked():
    leave = threading.Event()
    thread = threading.Thread(target=leave.wait)
    thread.start()
    try:
        child = ForkedApplier()()
    finally:
        leave.set()
        thread.join()
    child.close()
    assert isinstance(child.process, subprocess.Popen)
    assert 0 == child.process.wait(60)


def test_two_threads_may_wait_for_the_end_of_a_fork():
    """The one that starts it again, and the one that stops the server."""
    for _ in range(20):
        forked = Forked(os.posix_spawn("/bin/sh", ["sh", "-c", "exit 3"], os.environ))
        with ThreadPoolExecutor(4) as threads:
            waiting = [threads.submit(forked.wait, 60) for _ in range(4)]
        assert [3] * 4 == [one.result() for one in waiting]


def test_both_kinds_tell_that_they_go_on_and_how_they_ended():
    child = spawn_applier()
    for process in (child.process, Forked(child.process.pid)):
        try:
            process.wait(0)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError("it has not been told to end")
    forked = Forked(child.process.pid)
    forked.kill()
    assert -9 == forked.wait(60) == forked.wait(0)
    child.process.wait()  # so that nobody asks again how it has ended
    child.close()
