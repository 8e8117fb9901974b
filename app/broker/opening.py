"""CONNECT and CONNACK: who it is, what is offered, and the session that begins.

Durable sessions, QoS 2, shared subscriptions and extended authentication are not offered; CONNACK
says so in the words that MQTT 5 has for it, and MQTT 3 is answered as far as it can be.
"""

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from app.broker.forms import DOOR, Form, media_type_wanted
from app.broker.messages import user_properties
from app.broker.session import Session
from app.core.errors import Error
from app.core.limits import MQTT_TOPIC_ALIAS_MAXIMUM
from app.engine.subscription import Subscription
from app.mqtt.packets import MQTT_5, Connack, Connect
from app.mqtt.reasons import Reason
from app.mqtt.violations import Violation
from app.mqtt.window import PACKET_ID_MAX, Window

if TYPE_CHECKING:
    from app.broker.client import Client


def on_connect(client: "Client", packet: Connect) -> None:
    """Answer CONNECT: a session and CONNACK, or a refusal."""
    broker = client.broker
    asked = packet.properties or {}
    client.problems = asked.get("request_problem_information", 1) == 1
    client.packet_bytes_max = _number(asked.get("maximum_packet_size"), 0)
    try:
        _check(packet)
        form = _form(client, packet)
    except Violation as problem:
        client.reject(problem.reason, problem.message)
        return
    caller = broker.settings.anonymous(client.peer, DOOR)
    if not caller.grants.read and not caller.grants.write:
        client.reject(
            Reason.NOT_AUTHORIZED, "anonymous clients are accepted from this machine only"
        )
        return
    v5 = packet.version == MQTT_5
    client_id = packet.client_id or uuid4().hex  # MQTT-3.1.3-6, MQTT-3.1.3-7
    client.caller = replace(caller, client_id=client_id)
    client.form = form
    client.will = packet.will
    client.quota = broker.settings.receive_maximum if v5 else PACKET_ID_MAX
    client.tells_seq = v5 and client.problems  # MQTT-3.1.2-29
    client.keeps_session = _number(asked.get("session_expiry_interval"), 0) > 0
    client.session = _session(client, client_id, _number(asked.get("receive_maximum"), 0))
    client.connection.topic_alias_maximum = MQTT_TOPIC_ALIAS_MAXIMUM if v5 else 0
    client.connected(packet.keep_alive_seconds)
    client.send(Connack(properties=_offer(client, packet) if v5 else None))
    client.connection.accept()


def _number(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise


def _check(packet: Connect) -> None:
    """Raise what a CONNECT is refused with, if it is not acceptable."""
    if packet.properties and "authentication_method" in packet.properties:  # MQTT-4.12.0-1
        raise Violation(Reason.BAD_AUTHENTICATION_METHOD, "no authentication method is offered")
    if packet.will is not None and packet.will.qos == 2 and packet.version == MQTT_5:
        raise Violation(  # MQTT-3.2.2-12
            Reason.QOS_NOT_SUPPORTED, "QoS 2 is not offered for a will; use QoS 0 or 1"
        )


def _form(client: "Client", packet: Connect) -> Form:
    """Return how the client wants its messages: by CONNECT, else as its WebSocket asked."""
    users = user_properties(packet.properties)
    media_type = client.form.media_type if client.form is not None else None
    if "accept" in users:
        try:
            media_type = media_type_wanted(users["accept"])
        except Error as error:
            raise Violation(Reason.IMPLEMENTATION_SPECIFIC_ERROR, error.message) from None
    return client.broker.forms.form(packet.version, media_type, tells_seq="seq" in users)


def _session(client: "Client", client_id: str, receive_maximum: int) -> Session:
    """Make the session; another connection of the same client id is ended (MQTT-3.1.4-3)."""
    broker = client.broker
    old = broker.sessions.get(client_id)
    if old is not None and old.client is not None:
        broker.takeovers += 1
        old.client.disconnect(
            Reason.SESSION_TAKEN_OVER, "another connection uses this client identifier"
        )
    subscription = Subscription(broker.engine.reader, client_id, client.ready, client.overflow)
    window = Window(receive_maximum or PACKET_ID_MAX)
    session = broker.sessions.create(client_id, subscription, window)  # MQTT-3.1.4-4
    session.client = client
    return session


def _offer(client: "Client", packet: Connect) -> dict[str, object]:
    """Return the properties of CONNACK: what is offered and what is not (MQTT 5, 3.2.2.3)."""
    settings = client.broker.settings
    offer: dict[str, object] = {
        "receive_maximum": settings.receive_maximum,
        "maximum_qos": 1,  # MQTT-3.2.2-9
        "maximum_packet_size": settings.packet_bytes_max,
        "topic_alias_maximum": MQTT_TOPIC_ALIAS_MAXIMUM,
        "shared_subscription_available": 0,
        "user_property": (("seq", client.broker.engine.head),),  # M1
    }
    if client.keeps_session:
        offer["session_expiry_interval"] = 0  # it ends with the connection: MQTT 5, 3.2.2.3.2
    if not packet.client_id:
        offer["assigned_client_identifier"] = client.name  # MQTT-3.2.2-16
    return offer
