"""The process that forks servers for tests (tests/starter.py)."""

import os
import resource
from contextlib import ExitStack

import pytest

from rowcast import __version__
from serving import PATIENCE_SECONDS, ROWCAST, environment
from starter import DESCRIPTORS_MAX, Starter

ENOUGH = 2 * DESCRIPTORS_MAX


@pytest.mark.slow
def test_it_starts_programs_for_a_process_with_many_descriptors(tmp_path):
    """Libraries for object stores keep hundreds of connections until they are collected."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < ENOUGH:
        pytest.skip("this user may not open so many files")
    starter = Starter()
    with ExitStack() as stack:
        if soft < ENOUGH:
            stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
            resource.setrlimit(resource.RLIMIT_NOFILE, (ENOUGH, hard))
        out = stack.enter_context((tmp_path / "out").open("w+"))
        last = 0
        while last < DESCRIPTORS_MAX:
            last = os.dup(out.fileno())
            stack.callback(os.close, last)
        try:
            command = [str(ROWCAST), "--version"]
            process = starter.start(command, tmp_path, environment(), (out, out, out))
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            starter.end()
        out.seek(0)
        assert __version__ in out.read()
