"""Rows of ``$SYS/guard``: current bans, slowed-down sign-ins, refusals by reason (F33, P3)."""

from typing import Final

from rowcast.doors.mqtt.broker import Broker
from rowcast.routes.figure_rows import Facts, listed_rows
from rowcast.routes.system_rows import SystemRows

GUARD: Final = "$SYS/guard"


def guard_rows(broker: Broker) -> type[SystemRows]:
    """Return the resource class of what the broker refuses, and whom."""
    return listed_rows(GUARD, lambda: _guard(broker))


def _guard(broker: Broker) -> dict[str, Facts]:
    """Return current bans, and counts of refusals by reason."""
    guard = broker.guard
    rows: dict[str, Facts] = {
        "connections": {"name": "connections", "kind": "open", "count": guard.connections},
        "bans": {"name": "bans", "kind": "ever", "count": guard.banned},
        "throttled": {"name": "throttled", "kind": "ever", "count": broker.throttled},
        "failed_logins": {
            "name": "failed_logins",
            "kind": "ever",
            "count": broker.settings.authenticator.failures,
        },
    }
    for reason, count in guard.refusals.items():
        name = reason.name.lower()
        rows[f"refused/{name}"] = {"name": name, "kind": "refused", "count": count}
    for ban in guard.bans:
        rows[f"ban/{ban.kind}/{ban.name}"] = {
            "kind": f"ban of a {ban.kind}",
            "name": ban.name,
            "why": ban.why,
            "seconds_left": round(ban.seconds_left, 3),
        }
    for lane, seconds in broker.settings.authenticator.tries.slowed:
        rows[f"slowed/{lane}"] = {
            "kind": "slowed down",
            "name": lane,
            "why": "failed logins",
            "seconds_left": round(seconds, 3),
        }
    return rows
