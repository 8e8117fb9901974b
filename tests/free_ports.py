"""Ports for servers of tests that must be known before they listen.

They are below those that the system gives to clients and to who asks for any port (ip(7),
``ip_local_port_range``: 32768 and more on Linux), so none is taken between the look and the start.
Each process of the test run has a range of its own.
"""

import os
import socket
from contextlib import suppress
from itertools import count, cycle
from typing import Final

FIRST: Final = 12_000
EACH: Final = 2_000
PROCESSES: Final = 8
_number = int("0" + os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")) % PROCESSES
_range = range(FIRST + _number * EACH, FIRST + (_number + 1) * EACH, 2)
_next = cycle(_range)
for _ in range(os.getpid() % len(_range)):  # two runs beside one another begin apart
    next(_next)


def free_ports(number: int) -> list[int]:
    """Return the first of two ports each that nobody has now."""
    found: list[int] = []
    for attempt in count():
        if len(found) == number:
            return found
        if attempt > len(_range):
            break
        port = next(_next)
        with socket.socket() as one, socket.socket() as next_one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            next_one.bind(("127.0.0.1", port + 1))
            found.append(port)
    raise AssertionError(f"no {number} free ports in {_range}")


def free_port() -> int:
    """Return a port that nobody has now."""
    return free_ports(1)[0]
