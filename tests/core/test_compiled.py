"""Whether modules are compiled: of the standard library, of a dependency and of our own."""

import subprocess
import sys

import pytest

from rowcast.core.compiled import CODE, code_of
from test_compiling import LISTED

IMPORT_EACH_FIRST = """
import os, sys
from importlib import import_module
import asyncio, http, logging, orjson, pydantic, sqlite3  # once for all, which is a third quicker
for name in sys.argv[1:]:
    if not (child := os.fork()):
        import_module(name)
        os._exit(0)
    if ended := os.waitpid(child, 0)[1]:
        print(name, os.waitstatus_to_exitcode(ended))
"""


@pytest.mark.parametrize(
    ("module", "expected"),
    [("json.decoder", "interpreted"), ("orjson.orjson", "compiled"), ("no_such", "interpreted")],
)
def test_how_a_module_runs(module, expected):
    assert expected == code_of(module)


def test_what_is_told_is_how_events_run():
    assert code_of("rowcast.core.events") == CODE


@pytest.mark.skipif(CODE == "interpreted", reason="it is about the types of compiled modules")
def test_any_compiled_module_may_be_the_first():
    """One that needs the type of another before it is made would end the process by a signal.

    Each is imported by a process of its own, forked from one that has imported none.
    """
    names = [name.removesuffix(".py").replace("/", ".") for name in LISTED]
    command = [sys.executable, "-c", IMPORT_EACH_FIRST, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
