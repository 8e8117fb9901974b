"""Rows of ``$SYS/clients``: the identity, address, traffic and queues of clients (F33).

Rows are built on request, and none are stored: their number, which clients determine, is bounded by
the request.
"""

from typing import Final

from rowcast.doors.mqtt.broker import Broker
from rowcast.doors.mqtt.client import client_of
from rowcast.doors.mqtt.session_rows import connection_facts
from rowcast.routes.figure_rows import Facts, figure_rows
from rowcast.routes.system_rows import SystemRows, time_text

CLIENTS: Final = "$SYS/clients"


def client_rows(broker: Broker) -> type[SystemRows]:
    """Return the resource class of one row for each client whose session is known."""
    return figure_rows(
        CLIENTS,
        lambda: [session.client_id for session in broker.sessions],
        lambda name: _client(broker, name),
    )


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
        "lag": broker.kernel.committer.events_after(session.place),
    }
