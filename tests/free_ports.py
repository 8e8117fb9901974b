"""Ports for servers of tests that must be known before they listen.

They are below those that the system gives to clients and to who asks for any port (ip(7),
``ip_local_port_range``: 32768 and more on Linux), so none is taken between the look and the start.
Each process has a range of its own, whichever test run it is of: it holds the first port of it.
"""

import os
import socket
from contextlib import suppress
from itertools import count, cycle
from typing import Final

FIRST: Final = 12_000
EACH: Final = 1_000
PROCESSES: Final = 16
"""Twice as many as those of scripts/test: what tests start may look for ports, too."""


def own_range(processes: int = PROCESSES) -> range:
    """Return the first range that no process holds, and hold it until this one ends.

    If there is none it is shared, so each process begins at another place.
    """
    for number in range(processes):
        first = FIRST + number * EACH
        with socket.socket() as held, suppress(OSError):
            held.bind(("127.0.0.1", first))
            held.detach()
            return range(first + 2, first + EACH, 2)
    return range(FIRST + 2, FIRST + EACH, 2)


OWN: Final = own_range()
_next = cycle(OWN)
for _ in range(os.getpid() % len(OWN)):
    next(_next)


def free_ports(number: int) -> list[int]:
    """Return the first of two ports each that nobody has now."""
    found: list[int] = []
    for attempt in count():
        if len(found) == number:
            return found
        if attempt > len(OWN):
            break
        port = next(_next)
        with socket.socket() as one, socket.socket() as next_one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            next_one.bind(("127.0.0.1", port + 1))
            found.append(port)
    raise AssertionError(f"no {number} free ports in {OWN}")


def free_port() -> int:
    """Return a port that nobody has now."""
    return free_ports(1)[0]
