"""Statistics of components, as rows below ``$SYS``: clients, hooks, guard, listeners (F33).

The components provide numbers and know no rows; this module maps numbers to rows.
"""

from typing import Final

from rowcast.doors.mqtt.broker import Broker
from rowcast.doors.mqtt.client import client_of
from rowcast.doors.mqtt.session_rows import connection_facts
from rowcast.features.hooks.hooks import Hooks
from rowcast.kernel.kernel import Kernel
from rowcast.program.doors import Doors
from rowcast.routes.figure_rows import Facts, figure_rows, listed_rows
from rowcast.routes.system_rows import time_text
from rowcast.schema.schema import Schema

CLIENTS: Final = "$SYS/clients"
GUARD: Final = "$SYS/guard"
HOOKS: Final = "$SYS/hooks"
LISTENERS: Final = "$SYS/listeners"
SCHEMA: Final = "$SYS/schema"


def add_figures(kernel: Kernel, broker: Broker, doors: Doors, schema: Schema) -> None:
    """Register all rows at their paths."""
    add = kernel.registry.add
    add(
        CLIENTS,
        figure_rows(
            CLIENTS,
            lambda: [session.client_id for session in broker.sessions],
            lambda name: _client(broker, name),
        ),
    )
    add(GUARD, listed_rows(GUARD, lambda: _guard(broker)))
    add(HOOKS, listed_rows(HOOKS, lambda: _hooks(kernel)))
    add(LISTENERS, listed_rows(LISTENERS, lambda: _listeners(doors)))
    declared = {str(facts["name"]): facts for facts in schema.declared}
    add(SCHEMA, listed_rows(SCHEMA, lambda: declared))


def _client(broker: Broker, client_id: str) -> Facts | None:
    """Return a client's identity, address, traffic and queues.

    For a disconnected client only its session is known. It reveals no more than ``$SYS/sessions``
    does, and has the same rights.
    """
    session = broker.sessions.get(client_id)
    if session is None:
        return None
    client, missed = client_of(session), session.gaps.losses.rows()
    facts: Facts = {
        "client_id": client_id,
        "connected": client is not None,
        "user": session.user,
        "created": time_text(session.created_at),
        "disconnected_at": time_text(session.left_at),
        "session_expiry_interval": session.expiry_seconds,
        "subscription_count": session.subscription_count,
    }
    if client is not None:
        passed = broker.tally.of(client)
        facts |= connection_facts(broker, client)
        facts["last_seen"] = facts.pop("last_activity")
        facts |= {
            "clean_start": client.clean_start,
            "messages_in": passed.publishes_in,
            "messages_out": passed.publishes_out,
            "payload_bytes_in": passed.payload_in,
            "payload_bytes_out": passed.payload_out,
            "packets_in": passed.packets_in,
            "packets_out": passed.packets_out,
            "bytes_in": passed.bytes_in,
            "bytes_out": passed.bytes_out,
            "refused": client.refused,
            "unwritten_bytes": client.transport.get_write_buffer_size(),
        }
    return facts | {
        "dropped": sum(missed.values()),
        "queued": session.pending - len(session.window),
        "in_flight": len(session.window),
        "lag": max(0, broker.kernel.committer.announced - session.place),
    }


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


def _hooks(kernel: Kernel) -> dict[str, Facts]:
    """Return the cost of each hook; hooks of one name are numbered."""
    hooks = kernel.service(Hooks)
    return {
        f"{place}-{figures.id}": {
            "id": figures.id,
            "calls": figures.calls,
            "failures": figures.failures,
            "slow": figures.slow,
            "total_seconds": round(figures.total_seconds, 6),
            "max_seconds": round(figures.max_seconds, 6),
        }
        for place, figures in enumerate(hooks.figures() if hooks is not None else (), 1)
    }


def _listeners(doors: Doors) -> dict[str, Facts]:
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
