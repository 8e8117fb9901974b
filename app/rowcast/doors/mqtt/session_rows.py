"""Rows of ``$SYS/sessions``: the state of clients and sessions (D10, D20, M11).

A row is built on request, so that sessions have no cost for it. Payloads of wills and credentials
are not included.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import cast

from rowcast.core.errors import Code, Error
from rowcast.core.limits import (
    MQTT_KEEP_ALIVE_FACTOR,
    SYSTEM_ROW_ITEMS_LISTED_MAX,
    SYSTEM_ROW_ITEMS_MAX,
)
from rowcast.doors.mqtt.broker import Broker
from rowcast.doors.mqtt.client import Client, client_of
from rowcast.doors.mqtt.connections.traffic import Traffic
from rowcast.doors.mqtt.delivery.delivery_format import DeliveryFormat
from rowcast.doors.mqtt.delivery.sent import CompactInflight, sent_of
from rowcast.doors.mqtt.sessions.observers import SESSIONS
from rowcast.doors.mqtt.sessions.session import Session
from rowcast.doors.mqtt.sessions.wills import will_delay
from rowcast.mqtt.reasons import Reason
from rowcast.routes.system_rows import SystemRows, time_text
from rowcast.subscriptions.gaps import GapCause
from rowcast.subscriptions.subscription import SubscribedFilter

Facts = dict[str, object]


def session_rows(broker: Broker) -> type[SystemRows]:
    """Return the resource class that lists and ends the sessions of a broker."""

    class SessionRows(SystemRows):
        """One row for each session, its client connected or not."""

        path = SESSIONS
        followed = ("client_id", "event", "connected", "user", "peer", "door", "created")

        def names(self) -> Sequence[str]:
            return [session.client_id for session in broker.sessions]

        def row(self, name: str, *, whole: bool) -> Facts | None:
            session = broker.sessions.get(name)
            most = SYSTEM_ROW_ITEMS_MAX if whole else SYSTEM_ROW_ITEMS_LISTED_MAX
            return None if session is None else _row(broker, session, most)

        async def delete(self) -> None:
            """End a session; its client gets the reason (MQTT 5: 0x98)."""
            session = broker.sessions.get(self.id)
            if session is None:
                raise Error(Code.NOT_FOUND, f"there is no session of the client {self.id!r}")
            broker.expel(
                session, Reason.ADMINISTRATIVE_ACTION, "an administrator ended the session"
            )
            await self.durable()

    return SessionRows


def _row(broker: Broker, session: Session, most: int) -> Facts:
    client, window, subscriptions = client_of(session), session.window, subscriptions_of(session)
    place, ends = session.place, session.expires_at
    return {
        "client_id": session.client_id,
        "event": session.happened,
        "connected": client is not None,
        "user": session.user,
        **connection_facts(broker, client),
        "clean_start": client.clean_start if client is not None else None,
        "properties": _properties(session, client),
        "created": time_text(session.created_at),
        "takeovers": session.takeovers,
        "expires_at": None if ends == math.inf else time_text(ends),
        "position": broker.kernel.cursor(place),
        "lag": broker.kernel.committer.events_after(place),
        "skipped": sum(hole.count for hole in session.ahead),
        "queued": _queued(session),
        "subscription_count": len(subscriptions),
        "subscriptions": [subscription_facts(*item) for item in subscriptions[:most]],
        "in_flight_out_count": len(window),
        "in_flight_out": list(islice(_flights(session), most)),
        "in_flight_in_count": len(session.inbound),
        "in_flight_in": sorted(islice(session.inbound, most)),
        "next_packet_id": window.upcoming,
        "will": _will(session),
        "counters": _counters(broker, session, client),
    }


def connection_facts(broker: Broker, client: Client | None) -> Facts:
    """Return facts about the connection; empty without one."""
    if client is None or client.caller is None:
        absent = ("peer", "door", "transport", "version", "keep_alive_seconds")
        return dict.fromkeys((*absent, "connected_at", "last_activity"))
    silent_seconds = broker.clock() - client.last_seen
    return {
        "peer": client.peer,
        "door": client.caller.door,
        "transport": _transport(client),
        "version": client.connection.version,
        "keep_alive_seconds": int(client.patience.keep_alive_seconds / MQTT_KEEP_ALIVE_FACTOR),
        "connected_at": time_text(client.connected_at),
        "last_activity": time_text(broker.now() - silent_seconds),
    }


def _transport(client: Client) -> str:
    facts_of = getattr(client.transport, "get_extra_info", None)  # sockets' transports have it
    if facts_of is None:
        return "websocket"
    return "tls" if facts_of("cipher") is not None else "tcp"


def _properties(session: Session, client: Client | None) -> Facts:
    """Return the effective limits, by names of CONNECT; packet size 0: none."""
    return {
        "session_expiry_interval": session.expiry_seconds,
        "receive_maximum": session.window.receive_maximum if client is not None else None,
        "maximum_packet_size": client.packet_bytes_max if client is not None else None,
        "topic_alias_maximum": _aliases(client),
    }


def _aliases(client: Client | None) -> int | None:
    if client is None:
        return None
    return client.aliases.maximum if client.aliases is not None else 0


def _queued(session: Session) -> int:
    """Return the number of messages in memory; those in the log are shown by the lag."""
    waiting = session.subscription.waiting if session.subscription is not None else 0
    return waiting + (len(session.sharing.assigned) if session.sharing is not None else 0)


def subscriptions_of(session: Session) -> list[tuple[str, SubscribedFilter]]:
    """Return the requested filters, with their interests."""
    own = [(interest.topics.text, interest) for interest in session.interests]
    if session.sharing is None:
        return own
    return own + [(text, interest) for text, (_, interest) in session.sharing.shares.items()]


def subscription_facts(text: str, interest: SubscribedFilter) -> Facts:
    """Return the options of one filter."""
    form = cast("DeliveryFormat | None", interest.form)
    return {
        "filter": text,
        "qos": interest.qos,
        "no_local": interest.no_local,
        "retain_as_published": interest.retain_as_published,
        "identifiers": list(interest.identifiers),
        "accept": form.media_type if form is not None else None,
    }


def _flights(session: Session) -> Iterator[Facts]:
    """Yield flights; of compact ones of clean sessions only the identifier is known."""
    for packet_id, flight in session.window:
        sent, item = sent_of(flight), flight.item
        compact = isinstance(item, CompactInflight)
        yield {
            "packet_id": packet_id,
            "topic": (sent.topic or None) if sent is not None else None,
            "qos": sent.qos if sent is not None else 2 if compact else 1,
            "seq": sent.seq if sent is not None else 0 if compact else item,
            "sent_at": time_text(flight.sent_at or None),
            "retries": flight.retries,
            "released": flight.released or item is CompactInflight.RELEASED,
        }


def _will(session: Session) -> Facts | None:
    will = session.will
    if will is None:
        return None
    return {
        "topic": will.topic,
        "qos": will.qos,
        "retain": will.retain,
        "delay_seconds": will_delay(session),
        "properties": sorted(will.properties or ()),
    }


def _counters(broker: Broker, session: Session, client: Client | None) -> Facts:
    """Return the counters of this connection; ``dropped`` counts since the server's start."""
    dropped = session.gaps.losses.rows()
    expired = dropped.pop(GapCause.EXPIRED.value, 0)
    counted = broker.tally.of(client) if client is not None else Traffic()
    return {
        "received": counted.packets_in,
        "sent": counted.publishes_out,
        "refused": client.refused if client is not None else 0,
        "dropped": sum(dropped.values()),
        "expired": expired,
        "gaps": session.gaps.losses.rows(),
    }
