"""Loading of sessions and wills from stored facts, when the server starts.

An unreadable fact, such as a filter, a flight or a will, is skipped and logged. It stays on disk,
for inspection, until the session ends. Only a session's user and expiry are required. An unreadable
position becomes the beginning of the log: messages are repeated, and none is lost.
"""

import logging
from collections.abc import Iterable
from itertools import groupby
from typing import Any, cast

from rowcast.codecs import CBOR, MSGPACK, decode
from rowcast.core.topics import TopicFilter
from rowcast.doors.mqtt.delivery.delivery_format import DeliveryFormat
from rowcast.doors.mqtt.delivery.outgoing import Deliveries
from rowcast.doors.mqtt.delivery.sent import Sent, note_rows
from rowcast.doors.mqtt.packets.exclusive import Exclusives
from rowcast.doors.mqtt.sessions import wills
from rowcast.doors.mqtt.sessions.loss_accounts import gaps_of
from rowcast.doors.mqtt.sessions.session import Session
from rowcast.doors.mqtt.sessions.sharing import Sharing
from rowcast.features.shared_subscriptions.group_table import Groups
from rowcast.mqtt.window import Flight, Window
from rowcast.store.store import Change
from rowcast.subscriptions.skipped_ranges import SkippedRange
from rowcast.subscriptions.subscription import SubscribedFilter

log = logging.getLogger("rowcast.mqtt")

OWNER = "session/"
"""The prefix of owners of session facts."""
FILTER, EXCLUSIVE, SHARE, OUT, IN = "filter/", "exclusive/", "share/", "out/", "in/"
"""Prefixes of the names of a session's facts."""
FLIGHT = ("seq", "topic", "qos", "retain", "ids", "media", "tells", "meta",
          "order", "at", "retries", "released", "share", "told")  # fmt: skip
"""What a flight's value has, in this order; the last one only where the log has no payload."""
_CBOR_MAP = 5
"""The major type of a map (RFC 8949, 3.1), which a flight's value was once."""

Facts = Iterable[tuple[str, str, bytes]]


def read_sessions(deliveries: Deliveries, exclusives: Exclusives, facts: Facts) -> list[Session]:
    """Return the sessions of facts, sorted by client id."""
    sessions = []
    for owner, some in groupby(facts, key=lambda fact: fact[0]):
        client_id = owner.removeprefix(OWNER)
        about = {name: value for _, name, value in some}
        try:
            recall = _Recall(deliveries, exclusives, client_id, about.pop("session", b"\xa0"))
        except Exception:  # its facts stay on disk, and the server starts
            log.exception("the session of %r is left out: it cannot be read", client_id)
            continue
        for name, value in about.items():
            recall.take(name, value)
        sessions.append(recall.done())
    return sessions


def read_wills(facts: Facts) -> list[wills.DueWill]:
    """Return the wills of facts, the oldest first."""
    found = []
    for owner, name, value in facts:
        client_id = owner.removeprefix(wills.WILLS)
        try:
            found.append(wills.restored(client_id, int(name), _decoded(value)))
        except Exception:
            log.exception("a will of %r is left out: it cannot be read", client_id)
    return sorted(found, key=lambda due: due.number)


class _Recall:
    """Loads one session from its facts."""

    def __init__(
        self, deliveries: Deliveries, exclusives: Exclusives, client_id: str, value: bytes
    ) -> None:
        self._deliveries, self._exclusives = deliveries, exclusives
        about = _decoded(value)
        created_at = about.get("created", deliveries.now())
        self._session = session = Session(client_id, Window(), created_at)
        session.life = about.get("life", 0)
        session.expiry_seconds = about.get("expiry", 0)
        session.expires_at, session.left_at = about.get("expires"), about.get("left")
        session.user = about.get("user", session.user)
        session.will_number = about.get("will", 0)
        session.gaps.unreported = gaps_of(about.get("gaps", {}))
        self._flights: list[tuple[int, int, Flight]] = []
        self._shares: dict[str, SubscribedFilter] = {}
        self._shared: list[tuple[int, str, Sent]] = []

    def take(self, name: str, value: bytes) -> None:
        """Apply one fact; skips an unreadable one."""
        kind, _, rest = name.partition("/")
        try:
            self._take(kind + "/" * bool(rest), rest, value)
        except Exception:
            client_id = self._session.client_id
            log.exception("%r of the session of %r is left out: it cannot be read", name, client_id)

    def _take(self, kind: str, name: str, value: bytes) -> None:
        session = self._session
        if kind == "place":
            place: Any = decode(value, CBOR)
            position, *skipped = place if isinstance(place, list) else [place]
            session.position = int(position)
            session.skipped = tuple(SkippedRange(*item) for item in skipped)
            session.saved_place = place
        elif kind == FILTER:
            interest = self._interest(TopicFilter(name), _decoded(value))
            session.filters.append(interest)
            if interest.current is not None or interest.since is not None:
                session.owing[name] = interest.current, interest.since
        elif kind == EXCLUSIVE:
            self._exclusives.take(name, session.client_id)
        elif kind == SHARE:
            about = _decoded(value)
            self._shares[name] = self._interest(TopicFilter(about["topics"]), about)
        elif kind == IN and value and decode(value, CBOR) != session.life:
            # Of an earlier session: a new message with this identifier is no repeat of that one.
            session.unsaved.append(Change(OWNER + session.client_id, f"{IN}{name}", None))
        elif kind == IN:
            session.inbound[int(name)] = None
        elif kind == OUT:
            packet_id = int(name)
            session.saved[packet_id] = None  # the next flight overwrites it
            self._take_flight(packet_id, _flight_facts(value))

    def _take_flight(self, packet_id: int, about: dict[str, Any]) -> None:
        flight, sent = self._flight(about)
        self._flights.append((sent.order, packet_id, flight))
        if about.get("share") and not flight.released:
            self._shared.append((packet_id, about["share"], sent))

    def done(self) -> Session:
        """Return the session."""
        session = self._session
        session.kept = True
        for order, packet_id, flight in sorted(self._flights, key=lambda item: item[:2]):
            session.window.restore(packet_id, flight)
            note_rows(session.filters, flight, session.position)
            session.orders = order
        session.reliable = sum(1 for interest in session.filters if interest.qos)
        if self._shares and self._deliveries.kernel.service(Groups) is None:
            log.warning("the shared subscriptions of %r are left out", session.client_id)
        elif self._shares:
            session.sharing = Sharing(
                self._deliveries.kernel,
                session,
                self._deliveries.touch,
                self._deliveries.flush_events,
            )
            shared = sorted(self._shared, key=lambda item: item[2].order)
            session.sharing.restore(self._shares, shared)
        return session

    def _form(self, facts: dict[str, Any]) -> DeliveryFormat:
        """Return a format; the next connection sets its version."""
        return self._deliveries.forms.restored(5, facts)

    def _interest(self, topics: TopicFilter, facts: dict[str, Any]) -> SubscribedFilter:
        form = self._form(facts)
        interest = SubscribedFilter(
            topics,
            facts["qos"],
            facts["no_local"],
            facts["as_published"],
            tuple(facts["ids"]),
            marks=form.tells_seq,
            form=form,
        )
        interest.floor = facts["floor"]
        interest.current, interest.since = facts["current"], facts["since"]
        interest.asked = facts.get("asked", "")
        interest.gaps = facts.get("gaps", form.tells_seq)
        interest.commits = facts.get("commits", False)
        interest.conflate = facts.get("conflate", 0.0)
        interest.doubt, interest.local_floor = facts["doubt"], facts["local_floor"]
        interest.plain = facts.get("plain", 0)
        return interest

    def _flight(self, facts: dict[str, Any]) -> tuple[Flight, Sent]:
        sent = Sent(
            None,
            self._form(facts),
            facts["qos"],
            facts["retain"],
            tuple(facts["ids"]),
            facts["order"],
            facts["seq"],
            facts["topic"],
        )
        sent.payload = facts.get("told", b"")
        flight = Flight(sent, facts["at"])
        flight.released = facts["released"]
        flight.retries = facts["retries"]
        return flight, sent


def _flight_facts(value: bytes) -> dict[str, Any]:
    if value and value[0] >> 5 == _CBOR_MAP:
        return _decoded(value)
    return dict(zip(FLIGHT, cast("list[Any]", decode(value, MSGPACK)), strict=False))


def _decoded(value: bytes) -> dict[str, Any]:
    return cast("dict[str, Any]", decode(value, CBOR))
