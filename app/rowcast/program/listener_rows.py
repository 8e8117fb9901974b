"""Rows of ``$SYS/listeners``: the open ports, and how their TLS handshakes ended (F33)."""

from typing import Final

from rowcast.program.doors import Doors
from rowcast.routes.figure_rows import Facts, listed_rows
from rowcast.routes.system_rows import SystemRows

LISTENERS: Final = "$SYS/listeners"


def listener_rows(doors: Doors) -> type[SystemRows]:
    """Return the resource class of one row for each open port."""
    return listed_rows(LISTENERS, lambda: listener_facts(doors))


def listener_facts(doors: Doors) -> dict[str, Facts]:
    """Return the open ports, and how their TLS handshakes ended."""
    rows: dict[str, Facts] = {}
    for door, (host, port) in doors.open.items():
        rows[door] = {"host": host, "port": port, "tls": door in doors.handshakes}
        shaking = doors.handshakes.get(door)
        if shaking is not None:
            rows[door] |= {
                "handshakes_done": shaking.done,
                "handshakes_failed": shaking.failed,
                "handshakes_refused": shaking.refused,
                "handshakes_under_way": len(shaking.under_way),
            }
    return rows
