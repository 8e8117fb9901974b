"""Ports that tests know before a server listens: no two processes look in the same range."""

import subprocess
import sys
from pathlib import Path

import free_ports
from free_ports import EACH, FIRST, OWN

PROGRAM = """
from free_ports import own_range
found = own_range(), own_range(), own_range(0)
print(*(port for each in found for port in (each[0], each[-1])))
"""


def test_what_another_process_holds_is_left_to_it():
    """Also beside a second test run; more processes than there are ranges share the first."""
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=Path(free_ports.__file__).parent, capture_output=True, text=True, check=True,
    )  # fmt: skip
    first, last, next_first, next_last, shared, shared_last = map(int, told.stdout.split())
    assert first <= last < next_first <= next_last
    assert OWN[-1] < first or OWN[0] > next_last
    assert (FIRST + 2, FIRST + EACH - 2) == (shared, shared_last)
