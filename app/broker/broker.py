"""The broker: admits clients, knows who is connected, and shares what clients share.

It holds no message and no filter: those are the engine's. What it adds to a connection is a session, a
caller and a form.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import cast
from uuid import uuid4

from app.broker.client import Client
from app.broker.forms import Form, Forms
from app.broker.session import Session, Sessions
from app.broker.settings import BrokerSettings
from app.codecs import CBOR, JSON, MSGPACK, encode, negotiate
from app.core.errors import Code, Error
from app.core.events import DELETE, MESSAGE, PUT, Event
from app.core.limits import MQTT_TOPIC_ALIAS_MAXIMUM
from app.engine.engine import Engine
from app.engine.subscription import Subscription
from app.engine.write import Outcome
from app.mqtt.encode import publish_head_tail
from app.mqtt.packets import MQTT_5, Connack, Connect
from app.mqtt.reasons import Reason
from app.mqtt.violations import Violation
from app.mqtt.window import PACKET_ID_MAX, Window

log = logging.getLogger("rowcast.mqtt")


class Broker:
    """Clients, their sessions, and the forms of their messages."""

    def __init__(
        self, engine: Engine, settings: BrokerSettings, now: Callable[[], float]
    ) -> None:
        self.engine = engine
        self.settings = settings
        self.now = now
        self.loop = asyncio.get_running_loop()
        self.forms = Forms(engine.contents, engine.cursor)
        self.sessions = Sessions(now)
        self.topics: dict[bytes, str] = {}
        """Topics by their bytes, shared by all connections."""
        self.clients: set[Client] = set()
        self.connections = 0
        """Connections ever."""
        self.refusals = 0
        """Publishes that were refused."""
        self.dropped_large = 0
        """Messages over a client's Maximum Packet Size."""

    # -- connections -----------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Whether no further connection is taken (FEATURES D6)."""
        most = self.settings.connections_max
        return bool(most) and len(self.clients) >= most

    def admit(self, client: Client) -> None:
        """Note a new connection, before its CONNECT."""
        self.clients.add(client)
        self.connections += 1

    def gone(self, client: Client) -> None:
        """Release what a closed connection held; publish its will (MQTT-3.1.2-8)."""
        self.clients.discard(client)
        session = client.session
        if session is None:
            return
        client.session = None
        self.engine.close(session.subscription)
        if session.client is client:
            self.sessions.leave(session, expiry_seconds=0)
            self.sessions.clean_expired()
        self._publish_will(client)

    def _publish_will(self, client: Client) -> None:
        will, caller = client.will, client.caller
        if will is None or caller is None:
            return
        client.will = None
        kind = MESSAGE if not will.retain else PUT if will.payload else DELETE
        properties = dict(will.properties or {})
        properties.pop("will_delay_interval", None)  # the session ended: MQTT 5, 3.1.3.2.2
        content_type = properties.pop("content_type", None)
        event = Event(
            will.topic,
            kind,
            will.payload,
            str(content_type) if content_type else None,
            will.qos,
            will.retain,
            None,
            caller.client_id,
            properties or None,
        )
        self.engine.submit(event, caller, self.refused)

    async def stop(self) -> None:
        """Tell every client that the server goes down, and close it."""
        for client in list(self.clients):
            client.will = None
            client.disconnect(Reason.SERVER_SHUTTING_DOWN, "the server is shutting down")

    # -- CONNECT ---------------------------------------------------------------------------------------

    def connect(self, client: Client, packet: Connect) -> None:
        """Answer CONNECT: a session and CONNACK, or a refusal."""
        v5 = packet.version == MQTT_5
        asked = packet.properties or {}
        client.problems = asked.get("request_problem_information", 1) == 1
        problem = self._problem(packet)
        if problem is not None:
            client.reject(problem.reason, problem.message)
            return
        client_id = packet.client_id or uuid4().hex
        caller = self.settings.anonymous(client.peer, "mqtt")
        if not caller.grants.read and not caller.grants.write:
            client.reject(
                Reason.NOT_AUTHORIZED, "anonymous clients are accepted from this machine only"
            )
            return
        client.caller = replace(caller, client_id=client_id)
        client.will = packet.will
        client.form = self._form(client, packet)
        most = asked.get("maximum_packet_size")
        client.packet_bytes_max = most if isinstance(most, int) else 0
        client.session = self._session(client, client_id, asked)
        client.connection.topic_alias_maximum = MQTT_TOPIC_ALIAS_MAXIMUM if v5 else 0
        client.connected(packet.keep_alive_seconds)
        client.send(Connack(properties=self._offer(packet, client_id) if v5 else None))
        client.connection.accept()

    def _problem(self, packet: Connect) -> Violation | None:
        """Return why a CONNECT is not accepted, if it is not."""
        if packet.properties and "authentication_method" in packet.properties:
            return Violation(
                Reason.BAD_AUTHENTICATION_METHOD, "no authentication method is offered"
            )
        if not packet.client_id and not packet.clean_start and packet.version != MQTT_5:
            return Violation(  # MQTT-3.1.3-8 of 3.1.1
                Reason.CLIENT_IDENTIFIER_NOT_VALID, "an empty client id needs a clean session"
            )
        if packet.will is not None and packet.will.qos == 2 and packet.version == MQTT_5:
            return Violation(Reason.QOS_NOT_SUPPORTED, "QoS 2 is not offered for a will")
        return None

    def _session(self, client: Client, client_id: str, asked: dict[str, object]) -> Session:
        """Make the session; another connection of the same client id is ended (MQTT-3.1.4-3)."""
        old = self.sessions.get(client_id)
        if old is not None and old.client is not None:
            old.client.disconnect(
                Reason.SESSION_TAKEN_OVER, "another connection uses this client id"
            )
        maximum = asked.get("receive_maximum")
        window = Window(maximum if isinstance(maximum, int) else PACKET_ID_MAX)
        subscription = Subscription(
            self.engine.reader, client_id, client.ready, client.overflow
        )
        session = self.sessions.create(client_id, subscription, window)
        session.client = client
        return session

    def _form(self, client: Client, packet: Connect) -> Form:
        """Return how the client wants its messages: by CONNECT, else as its WebSocket asked."""
        given = (packet.properties or {}).get("user_property", ())
        users = dict(cast("tuple[tuple[str, str], ...]", given))
        known = client.form
        media_type = known.media_type if known is not None else None
        if "accept" in users:
            media_type = negotiate(users["accept"], (JSON, CBOR, MSGPACK))
        return self.forms.form(packet.version, media_type, tells_seq="seq" in users)

    def form_of(self, client: Client, users: dict[str, str]) -> Form:
        """Return the form of one subscription: its own user properties win over CONNECT's."""
        form = client.form
        if form is None:
            raise Error(Code.INTERNAL, "a client subscribed before CONNECT")
        if not users:
            return form
        media_type = form.media_type
        if "accept" in users:
            media_type = negotiate(users["accept"], (JSON, CBOR, MSGPACK))
        tells = form.tells_seq or "seq" in users or "since" in users
        return self.forms.form(form.version, media_type, tells_seq=tells)

    def _offer(self, packet: Connect, client_id: str) -> dict[str, object]:
        """Return the properties of CONNACK: what is offered and what is not (MQTT 5, 3.2.2.3)."""
        offer: dict[str, object] = {
            "receive_maximum": self.settings.receive_maximum,
            "maximum_qos": 1,
            "maximum_packet_size": self.settings.packet_bytes_max,
            "topic_alias_maximum": MQTT_TOPIC_ALIAS_MAXIMUM,
            "shared_subscription_available": 0,
            "user_property": (("seq", self.engine.head),),
        }
        if (packet.properties or {}).get("session_expiry_interval"):
            offer["session_expiry_interval"] = 0
        if not packet.client_id:
            offer["assigned_client_identifier"] = client_id  # MQTT-3.1.3-6, MQTT-3.2.2-16
        return offer

    # -- shared ----------------------------------------------------------------------------------------

    def refused(self, outcome: Outcome) -> None:
        """Count a publish that was refused and that nobody can be told of."""
        if isinstance(outcome, Error):
            self.refusals += 1
            log.debug("a publish was refused: %s", outcome.message)

    def mark(self, form: Form, topic: str, seq: int, facts: dict[str, object]) -> bytes:
        """Return a message of the server's own about a subscription (FEATURES C12, M4)."""
        payload = encode({"cursor": self.engine.cursor(seq), **facts}, form.media_type or JSON)
        properties: dict[str, object] | None = None
        if form.version == MQTT_5:
            properties = {"user_property": (("seq", self.engine.cursor(seq)),)}
        head, tail = publish_head_tail(form.version, topic, payload, 0, False, False, properties)
        return head + tail
