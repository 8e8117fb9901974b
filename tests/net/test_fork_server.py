"""Child processes: forked by a process that is forked at the start, or new interpreters."""

import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lone_process import has_ended, run
from rowcast.net.fork_server import Forked, ForkServer, Interpreters
from serving import wait_until

ECHO = "fork_programs:echo"
"""Writes what it reads, and how many handles it has; ends with 3 when there is no more to read."""

HEAD = """
import os, signal, subprocess, sys
from pathlib import Path
from rowcast.net.fork_server import Forked, ForkServer

ECHO = "fork_programs:echo"

def echo(processes):
    (child_read, write), (read, child_write) = os.pipe(), os.pipe()
    process = processes.start("test-echo", ECHO, (child_read, child_write))
    os.close(child_read)
    os.close(child_write)
    return process, read, write

def kind(process):
    return "forked" if isinstance(process, Forked) else "started"

processes = ForkServer()
"""


def told_by(program: str) -> list[str]:
    """Return the lines of a program that begins with HEAD."""
    return run(HEAD + program)


def test_processes_have_their_handles_alone_and_tell_how_they_end():
    told = told_by("""
one, two = echo(processes), echo(processes)
for process, read, write in (one, two):
    os.write(write, b"x")
    told = os.read(read, 99).decode()
    print(kind(process), told, Path("/proc", str(process.pid), "comm").read_text().strip())
os.close(one[2])
print(one[0].wait(30), one[0].wait(0))
two[0].send_signal(signal.SIGTERM)
print(two[0].wait(30))
two[0].kill()
try:
    os.write(two[2], b"x")
except BrokenPipeError:
    print("nobody has the other end")
processes.close()
""")
    # Three of its own, two pipes, and that of the directory it lists.
    assert [
        "forked x6 test-echo",
        "forked x6 test-echo",
        "3 3",
        "-15",
        "nobody has the other end",
    ] == told


def test_who_waits_is_told_that_a_process_goes_on():
    told = told_by("""
process, read, write = echo(processes)
try:
    process.wait(0)
except subprocess.TimeoutExpired:
    print("it goes on")
os.close(write)
print(process.wait())
processes.close()
""")
    assert ["it goes on", "3"] == told


def test_new_interpreters_do_the_same_when_the_process_that_forks_has_ended():
    told = told_by("""
before = echo(processes)
os.write(before[2], b"x")
os.read(before[1], 99)  # it is at work, and has closed what it has inherited
os.kill(processes.pid, signal.SIGKILL)
os.waitpid(processes.pid, 0)
process, read, write = echo(processes)
os.write(write, b"x")
print(kind(process), os.read(read, 1).decode(), processes.pid)
os.close(write)
print(process.wait())
os.write(before[2], b"y")
print(os.read(before[1], 1).decode())  # what it has started goes on
os.close(before[2])
print(before[0].wait(30))  # nobody knows how
processes.close()
""")
    assert ["started x 0", "3", "y", "-9"] == told


def test_a_process_of_which_no_answer_came_counts_as_killed_and_the_next_one_is_started():
    told = told_by("""
processes.close()
processes = ForkServer(seconds_max=0.2)
os.kill(processes.pid, signal.SIGSTOP)
process, read, write = echo(processes)
print(kind(process), process.wait(30), process.poll(), os.read(read, 1), processes.pid)
process.kill()
process, read, write = echo(processes)
print(kind(process))
os.close(write)
print(process.wait())
""")
    assert ["forked -9 -9 b'' 0", "started", "3"] == told


def test_it_ends_with_its_server_even_when_that_is_killed():
    [pid] = told_by("print(processes.pid, flush=True); os._exit(0)")
    wait_until(lambda: has_ended(pid), "the end of the process that forks")


def test_ctrl_c_in_a_terminal_does_not_end_it():
    told = told_by("""
processes.start("x", "sys:exit", ()).wait()  # it is at work
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    os.kill(processes.pid, number)
process, read, write = echo(processes)
print(kind(process))
os.close(write)
print(process.wait())
processes.close()
""")
    assert ["forked", "3"] == told


def test_a_program_that_cannot_be_imported_ends_with_an_error():
    told = told_by("""
process = processes.start("x", "no_such_module:main", ())
print(process.wait(30))
process, read, write = echo(processes)
print(kind(process))
os.close(write)
processes.close()
""")
    assert ["1", "forked"] == told


def test_a_sandbox_that_refuses_handles_of_processes_gets_new_interpreters():
    told = told_by("""
processes.close()
def refuse(pid):
    raise PermissionError
os.pidfd_open = refuse
processes = ForkServer()
process, read, write = echo(processes)
print(kind(process), processes.pid)
os.close(write)
print(process.wait())
""")
    assert ["started 0", "3"] == told


def test_a_process_with_threads_is_not_forked():
    leave = threading.Event()
    thread = threading.Thread(target=leave.wait)
    thread.start()
    try:
        processes = ForkServer()
    finally:
        leave.set()
        thread.join()
    assert processes.pid == 0
    process = processes.start("x", "sys:exit", ())
    assert isinstance(process, subprocess.Popen)
    assert 0 == process.wait(60)


def test_two_threads_may_wait_for_the_end_of_a_fork():
    """The one that starts it again, and the one that stops the server."""
    for _ in range(20):
        ended, tells = os.pipe()
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 3"], os.environ)
        forked = Forked(pid, ended)
        with ThreadPoolExecutor(4) as threads:
            waiting = [threads.submit(forked.wait, 60) for _ in range(4)]
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.write(tells, code.to_bytes(4, "big", signed=True))
        os.close(tells)
        assert [3] * 4 == [one.result() for one in waiting]


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL])
def test_an_interpreter_is_ended_by_signals(sig):
    process = Interpreters().start("x", "signal:pause", ())
    process.send_signal(sig)
    assert -sig == process.wait(60)
