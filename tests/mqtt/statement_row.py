"""One row of the table of statements: what the specification demands, and what proves it.

A row names its tests, or the reason why none can exist. ``where`` in a test's name is the module
without ``test_``, ``room.thing``: ``broker.opening.a_name`` is ``test_a_name`` of
tests/doors/mqtt/test_broker_opening.py. ``breach: NAME`` and ``packet: NAME`` are rows of the
tables in ``breaches`` and ``packets``, which several tests go through.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Statement:
    """One normative statement, in words of our own."""

    name: str
    says: str
    tests: tuple[str, ...] = ()
    reason: str = ""
    """Why no test can exist; empty when there are tests."""
    server: bool = True
    """Whether it demands anything of a server."""


def row(name: str, says: str, *tests: str) -> Statement:
    """Return a statement that a server obeys, and its tests."""
    return Statement(f"MQTT-{name}", says, tests)


def moot(name: str, says: str, reason: str) -> Statement:
    """Return a statement about servers that no test of this one can show, and why."""
    return Statement(f"MQTT-{name}", says, reason=reason)


def client(name: str, says: str) -> Statement:
    """Return a statement that demands something of clients only."""
    return Statement(f"MQTT-{name}", says, reason="It binds clients only.", server=False)
