"""Settings of SQLite for a whole process, each tried in a process of its own."""

import _sqlite3
import subprocess
import sys

import pytest

needs_library = pytest.mark.skipif(
    not hasattr(_sqlite3, "__file__"), reason="this Python has SQLite inside itself"
)
PROGRAM = """
import ctypes, sqlite3, _sqlite3
from rowcast.store.sqlite_process import stop_counting_memory

used = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
used.restype = ctypes.c_longlong

def filled():
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE numbers (n)")
    connection.execute("INSERT INTO numbers VALUES (1), (2)")
    return connection

def total(connection):
    return connection.execute("SELECT sum(n) FROM numbers").fetchone()[0]
"""


def told(program):
    """Return what a program prints."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + program], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@needs_library
def test_memory_is_not_counted():
    program = "print(stop_counting_memory()); kept = filled(); print(used(), total(kept))"
    assert told(program) == ["True", "0", "3"]


@needs_library
def test_an_open_connection_is_left_alone():
    program = (
        "kept = filled(); print(stop_counting_memory(), used() > 0, total(kept));"
        "kept.close(); print(stop_counting_memory(), total(filled()))"
    )
    assert told(program) == ["False", "True", "3", "True", "3"]


@needs_library
def test_sqlite_is_not_shut_down_a_second_time_under_an_open_connection():
    """A connection that was counted by nobody would not be seen."""
    program = (
        "print(stop_counting_memory()); kept = filled(); ctypes.CDLL = None;"
        "print(stop_counting_memory(), total(kept))"
    )
    assert told(program) == ["True", "True", "3"]


def test_a_python_with_sqlite_inside(monkeypatch):
    from rowcast.store.sqlite_process import stop_counting_memory

    monkeypatch.delattr(_sqlite3, "__file__", raising=False)
    assert not stop_counting_memory()
