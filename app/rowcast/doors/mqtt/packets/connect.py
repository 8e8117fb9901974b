"""CONNECT and CONNACK: authentication, a new or resumed session, and the server's limits.

CONNECT may wait for authentication, for hooks and for the disk, so it is a task; packets received
meanwhile are buffered. CONNACK is sent after the session is on disk. A client that shows nothing
and begins a session that leaves nothing waits for none of these, and is answered at once.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast
from uuid import uuid4

from rowcast.core.callers import Caller
from rowcast.core.errors import Error
from rowcast.core.limits import MQTT_TOPIC_ALIAS_MAXIMUM, SESSIONS_MAX
from rowcast.core.topics import DELAYED_PREFIX, split_delayed
from rowcast.doors.mqtt.delivery.delivery_format import DeliveryFormat, facts_of, media_type_wanted
from rowcast.doors.mqtt.delivery.inflight import begin_again, read_again
from rowcast.doors.mqtt.delivery.sent import sent_of
from rowcast.doors.mqtt.packets.authentication import authenticate, known_at_once
from rowcast.doors.mqtt.packets.error_reasons import CONNACK_REASONS
from rowcast.doors.mqtt.packets.hook_checks import ask_connect, ask_subscriptions, reason_of
from rowcast.doors.mqtt.packets.messages import user_properties
from rowcast.doors.mqtt.packets.rewrite import one_by_one, rewritten_submit
from rowcast.doors.mqtt.packets.subscribe import auto_subscribe
from rowcast.doors.mqtt.packets.will_checks import check_will
from rowcast.doors.mqtt.sessions import loss_accounts as accounts
from rowcast.doors.mqtt.sessions import wills
from rowcast.doors.mqtt.sessions.session import ANONYMOUS, NEVER, Session
from rowcast.doors.mqtt.sessions.sharing import Sharing
from rowcast.features.shared_subscriptions.group_table import Groups
from rowcast.kernel.watching import AuthorisedAhead
from rowcast.mqtt.aliases import Aliases
from rowcast.mqtt.packets import MQTT_5, Connack, Connect, Will
from rowcast.mqtt.reasons import PacketType, Reason
from rowcast.mqtt.violations import Violation
from rowcast.mqtt.window import PACKET_ID_MAX
from rowcast.subscriptions.backlog import Backlog, BacklogLimit
from rowcast.subscriptions.subscription import Subscription

if TYPE_CHECKING:
    from rowcast.doors.mqtt.client import Client

log = logging.getLogger("rowcast.mqtt")


def on_connect(client: "Client", packet: Connect) -> None:
    """Answer CONNECT at once if nothing of that waits, else start to."""
    client.broker.connects += 1
    known = None if _expiry(client, packet) else known_at_once(client, packet)
    answering = _open(client, packet, known)
    if known is None:
        client.opening = asyncio.get_running_loop().create_task(answering)
        return
    with suppress(StopIteration):  # what is certain: nothing in it waits
        answering.send(None)


async def _open(client: "Client", packet: Connect, known: Caller | None) -> None:
    """Answer CONNECT: a session and CONNACK, or a refusal; then process buffered packets."""
    try:
        await _accept(client, packet, known)
    except Violation as problem:
        _fail(client, packet, problem.reason, problem.message)
    except Error as error:
        usual = CONNACK_REASONS.get(error.code, Reason.UNSPECIFIED_ERROR)
        _fail(client, packet, reason_of(error, PacketType.CONNACK, usual), error.message)
    except Exception:
        log.exception("the opening of %s from %s failed", packet.client_id, client.peer)
        words = "the server failed; its log has the reason"
        _fail(client, packet, Reason.UNSPECIFIED_ERROR, words)
    client.opened()


def _fail(client: "Client", packet: Connect, reason: Reason, message: str) -> None:
    """Refuse a CONNECT; an accepted one is disconnected (MQTT-3.2.0-2: one CONNACK)."""
    if client.session is not None and not client.accepted:
        wills.forget(client.session)  # MQTT-3.1.2-8: only for an accepted connection
    if not client.accepted:
        client.broker.observer.refused(client.peer, packet, reason, message)
    (client.disconnect if client.accepted else client.reject)(reason, message)


async def _accept(client: "Client", packet: Connect, known: Caller | None) -> None:
    """Answer CONNECT with success, unless the client is lost meanwhile. Raises what refuses it."""
    broker = client.broker
    _take_options(client, packet)
    client_id = packet.client_id or uuid4().hex  # MQTT-3.1.3-6, MQTT-3.1.3-7
    caller, proof = (known, {}) if known else await _identified(client, packet, client_id)
    if client.closing:
        return
    client.caller = caller
    if broker.settings.rewriting is not None:
        named = broker.kernel.registry.named
        client.submit = rewritten_submit(broker.settings.rewriting, client.submit, named)
        client.submit_run = one_by_one(client.submit)
    session, present = _session(client, packet, client_id)
    if session.unsaved:  # the end of a previous session must be on disk, too
        await _keep(client, session, present=present)
    judged = await _go_on(client, session, caller) if present else None
    if client.closing or session.client is not client:  # lost, or taken over, meanwhile
        return
    _welcome(client, packet, proof, present=present)
    caller = client.caller or caller
    _watch(client, session, caller, judged)
    if not present:
        await auto_subscribe(client, session, caller)
    if session.client is client:
        client.entered = True
        broker.observer.entered(session, caller, present=present)


def _take_options(client: "Client", packet: Connect) -> None:
    """Note what CONNECT says of the connection. Raises a Violation for a form that is not made."""
    asked, v5 = packet.properties or {}, packet.version == MQTT_5
    client.problems = asked.get("request_problem_information", 1) == 1
    client.packet_bytes_max = _number(asked.get("maximum_packet_size"), 0)
    if asked.get("topic_alias_maximum"):
        client.aliases = Aliases(_number(asked["topic_alias_maximum"], 0))
    client.clean_start = packet.clean_start
    client.quota = client.broker.settings.receive_maximum if v5 else PACKET_ID_MAX
    client.tells_gaps = user_properties(packet.properties).get("gaps") == "true"
    client.tells_seq = v5 and client.problems  # MQTT-3.1.2-29
    client.form = _form(client, packet)


async def _identified(
    client: "Client", packet: Connect, client_id: str
) -> tuple[Caller, dict[str, object]]:
    """Return who a CONNECT comes from, and what CONNACK says of it. Raises what refuses it."""
    caller, proof = await authenticate(client, packet, client_id)
    refusal = client.broker.guard.identify(client.peer, client_id, caller.user)
    if refusal is not None:  # D56
        raise Violation(*refusal)
    await ask_connect(client, packet, caller)
    return caller, proof


async def _go_on(client: "Client", session: Session, caller: Caller) -> AuthorisedAhead | None:
    """Prepare a session that exists for its new connection; return what was judged ahead."""
    await read_again(client, session)
    await ask_subscriptions(client, session, caller)
    return await client.broker.kernel.authorise_ahead(session.filters, caller)


async def _keep(client: "Client", session: Session, *, present: bool) -> None:
    """Wait until a session is on disk; a connection that is refused for that leaves nothing."""
    try:
        await _saved(client, session)
    except Error:
        if client.session is session:  # else another connection has it, or it waits for one
            wills.forget(session)
            if not present:
                client.broker.end(session)
        raise


def _welcome(client: "Client", packet: Connect, proof: dict[str, object], *, present: bool) -> None:
    """Send CONNACK, if the caller that was believed some time ago still may be here."""
    access, v5 = client.broker.kernel.reauthorization, packet.version == MQTT_5
    client.connection.topic_alias_maximum = MQTT_TOPIC_ALIAS_MAXIMUM if v5 else 0
    if client.caller is not None and client.opening is not None:
        client.caller = access.current(client.caller)
        access.expect(client.caller)
    client.connected(_keep_alive(client, packet))
    client.send(Connack(present, properties=_offer(client, packet) | proof if v5 else None))
    client.connection.accept()


def _keep_alive(client: "Client", packet: Connect) -> int:
    """Return the effective Keep Alive; before MQTT 5 the server cannot change it."""
    most, asked = client.broker.settings.keep_alive_seconds_max, packet.keep_alive_seconds
    return most if most and packet.version == MQTT_5 and not 0 < asked <= most else asked


def _number(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise


async def _saved(client: "Client", session: Session) -> None:
    """Wait until a session is on disk; raises BUSY when the disk refuses."""
    future: asyncio.Future[Error | None] = asyncio.get_running_loop().create_future()

    def done(error: Error | None) -> None:
        if not future.done():
            future.set_result(error)

    client.broker.keeper.save(session, done)
    error = await future
    if error is not None:
        raise error


def _form(client: "Client", packet: Connect) -> DeliveryFormat:
    """Return the client's delivery format: from CONNECT, its WebSocket, or the setting."""
    users = user_properties(packet.properties)
    media_type = client.media_type or client.broker.settings.media_type
    if "accept" in users:
        try:
            media_type = media_type_wanted(users["accept"])
        except Error as error:
            raise Violation(Reason.IMPLEMENTATION_SPECIFIC_ERROR, error.message) from None
    forms, tells, meta = client.deliveries.forms, "seq" in users, users.get("meta") == "true"
    return forms.form(packet.version, media_type, tells_seq=tells, tells_meta=meta)


def _expiry(client: "Client", packet: Connect) -> int:
    """Return the session expiry interval in seconds (X12).

    Before MQTT 5 that is the Clean Session flag (MQTT-3.1.2-4 to -6 of 3.1.1).
    """
    if packet.version == MQTT_5:
        asked = _number((packet.properties or {}).get("session_expiry_interval"), 0)
    else:
        asked = 0 if packet.clean_start else NEVER
    most = client.broker.settings.session_expiry_seconds_max
    return min(asked, most) if most else asked


def _take_over(client: "Client", old: Session, user: str) -> None:
    """End another connection of the same client id (MQTT-3.1.4-3): its will waits or goes out.

    Raises a Violation if the session is another user's.
    """
    if old.user not in {user, ANONYMOUS}:
        raise Violation(
            Reason.CLIENT_IDENTIFIER_NOT_VALID,
            "the session of this client identifier is another user's; choose another identifier",
        )
    other, broker = old.client, client.broker
    if other is None:
        return
    broker.takeovers += 1
    old.takeovers += 1
    broker.observer.session_changed(old, "taken_over")
    if other.caller is not None:
        broker.kernel.listeners.notify("taken_over", other.caller, by=client.peer)
    other.disconnect(Reason.SESSION_TAKEN_OVER, "another connection uses this client identifier")
    other.leave()


def _session(client: "Client", packet: Connect, client_id: str) -> tuple[Session, bool]:
    """Create or resume a session; return it, and whether it existed (MQTT-3.2.2-2, -3).

    A session that begins anew ends the one before (MQTT-3.1.2-4).
    """
    broker, will = client.broker, _will(client, packet.will)
    broker.end_expired()  # a changed clock may be ahead of the timer (MQTT-4.1.0-2)
    user = client.caller.user if client.caller is not None else ANONYMOUS
    old = broker.sessions.get(client_id)
    if old is not None:
        _take_over(client, old, user)
    old = broker.sessions.get(client_id)
    if old is not None and packet.clean_start:
        broker.end(old)
    elif old is None and len(broker.sessions) >= SESSIONS_MAX:
        raise Violation(Reason.QUOTA_EXCEEDED, "the server holds as many sessions as it may")
    session, present = broker.sessions.get_or_create(client_id)
    wills.disarm(session)  # MQTT-3.1.3-9
    session.client, client.session, session.user = client, session, user
    asked = packet.properties or {}
    taken = _number(asked.get("receive_maximum"), PACKET_ID_MAX)
    session.window.receive_maximum = min(taken, broker.settings.inflight_max)
    session.expiry_seconds = _expiry(client, packet)
    if session.kept and not session.durable:  # ends with this connection
        broker.withdraw(session)
    wills.forget(session)
    session.will, session.will_caller = will, client.caller
    if session.durable or session.will is not None or broker.keeper.lingers(client_id):
        broker.keeper.begin(session)
    return session, present


def _will(client: "Client", will: Will | None) -> Will | None:
    """Return a will with its rewritten topic (D54).

    Raises Violation for one that would be refused when it is published, and for a command to the
    server, which would be stored and may contain a password.
    """
    rewriting, caller = client.broker.settings.rewriting, client.caller
    named = client.broker.kernel.registry.named
    if will is None:
        return None
    try:
        if rewriting is not None and caller is not None:
            topic = rewriting.topic(will.topic, caller.client_id, caller.user, named)
            will = replace(will, topic=topic)
        will = replace(will, topic=named(will.topic))
        delayed = will.topic.startswith(DELAYED_PREFIX)
        topic = split_delayed(will.topic)[1] if delayed else will.topic
    except Error as error:
        raise Violation(Reason.TOPIC_NAME_INVALID, error.message) from None
    if topic.startswith("$"):
        raise Violation(
            Reason.TOPIC_NAME_INVALID,
            f"{will.topic[:100]!r} cannot be a will's topic: those with $ are the server's own",
        )
    if caller is not None:
        check_will(client.broker.kernel, will, caller)
    return will


def _watch(
    client: "Client", session: Session, caller: Caller, judged: AuthorisedAhead | None
) -> None:
    """Start the session's live cursor, at its position or at the head."""
    broker, form = client.broker, cast("DeliveryFormat", client.form)
    subscription = session.subscription = _cursor(client, session)
    session.gaps.losses.parent = subscription.losses.parent
    subscription.losses = session.gaps.losses
    accounts.end_absence(broker.kernel, session)
    unreported, session.gaps.unreported = session.gaps.unreported, []
    subscription.queue_gaps(unreported)
    subscription.owner = session
    for _, flight in session.window:
        sent = sent_of(flight)
        if sent is not None:
            sent.form = _of_version(client, sent.form, form.version)
    begin_again(session)
    if session.sharing is not None:
        _share(client, session.sharing, caller, form.version)
    if not session.filters:
        if session.resend:
            client.ready()
        return
    for interest in session.filters:
        interest.form = _of_version(client, cast("DeliveryFormat", interest.form), form.version)
    filters, session.filters = session.filters, []
    refused = broker.kernel.resume(session.subscription, session.position, filters, caller, judged)
    for interest in refused:
        broker.forget_filter(session, interest)
    client.ready()


def _cursor(client: "Client", session: Session) -> Subscription:
    """Return a live cursor; a resumed one is subject to the backlog limit (D25)."""
    broker, reader = client.broker, client.broker.kernel.reader
    most = broker.settings.session_queue_max
    if not session.filters or not (most or session.skipped):
        return Subscription(reader, session.client_id, client.ready, client.overflow)
    backlog = Backlog(
        BacklogLimit(most, broker.settings.session_queue_policy, broker.now),
        reader.announced(),
        partial(broker.overflowed, session),
        session.skipped,
    )
    return Subscription(reader, session.client_id, client.ready, client.overflow, backlog=backlog)


def _share(client: "Client", sharing: Sharing, caller: Caller, version: int) -> None:
    """Rejoin groups that the caller may still read."""
    for text, (share, interest) in list(sharing.shares.items()):
        try:
            client.broker.kernel.authorise_watch(share.topics, caller)
        except Error:
            client.broker.forget_share(sharing, text)
        else:
            interest.form = _of_version(client, cast("DeliveryFormat", interest.form), version)
    sharing.connect()


def _of_version(client: "Client", form: DeliveryFormat, version: int) -> DeliveryFormat:
    """Return a format in the client's current protocol version."""
    if form.version == version:
        return form
    return client.deliveries.forms.restored(version, facts_of(form))


def _offer(client: "Client", packet: Connect) -> dict[str, object]:
    """Return the properties of CONNACK: supported features and limits (MQTT 5, 3.2.2.3)."""
    settings, session = client.broker.settings, client.session
    asked = packet.properties or {}
    offer: dict[str, object] = {
        "receive_maximum": settings.receive_maximum,
        "maximum_packet_size": settings.packet_bytes_max,
        "topic_alias_maximum": MQTT_TOPIC_ALIAS_MAXIMUM,
        "user_property": (("seq", client.broker.kernel.head),),  # M1
    }
    if client.broker.kernel.service(Groups) is None:
        offer["shared_subscription_available"] = 0  # MQTT 5, 3.2.2.3.13
    if session is not None and session.expiry_seconds != asked.get("session_expiry_interval", 0):
        offer["session_expiry_interval"] = session.expiry_seconds  # MQTT 5, 3.2.2.3.2
    if _keep_alive(client, packet) != packet.keep_alive_seconds:
        offer["server_keep_alive"] = _keep_alive(client, packet)  # MQTT-3.2.2-21
    if asked.get("request_response_information"):
        offer["response_information"] = f"response/{client.name}"  # MQTT-3.1.2-28
    if not packet.client_id:
        offer["assigned_client_identifier"] = client.name  # MQTT-3.2.2-16
    return offer
