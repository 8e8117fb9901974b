"""SUBSCRIBE: add interests to the client's subscription.

A refused filter does not affect others: its reason code is in SUBACK, and the message in the reason
string.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.fairness_limits import MQTT_SUBSCRIBE_TURN_FILTERS
from rowcast.core.query_topics import named_filter
from rowcast.core.replays import is_replay
from rowcast.core.topics import TopicFilter
from rowcast.doors.mqtt.delivery.delivery_format import (
    DeliveryFormat,
    media_type_wanted,
)
from rowcast.doors.mqtt.packets.error_reasons import SUBACK_REASONS
from rowcast.doors.mqtt.packets.exclusive import EXCLUSIVE_PREFIX
from rowcast.doors.mqtt.packets.filter_syntax import check_not_query
from rowcast.doors.mqtt.packets.hook_checks import reason_of
from rowcast.doors.mqtt.packets.messages import is_wanted, user_properties
from rowcast.doors.mqtt.packets.offsets import (
    NEXT,
    OFFSET,
    STREAM_PREFIX,
    WORDS,
    beginning,
    number_ahead,
    start_of,
    started,
)
from rowcast.doors.mqtt.packets.rewrite import divided
from rowcast.doors.mqtt.packets.share_filters import Share, groups_in, share_of
from rowcast.doors.mqtt.sessions.sharing import Sharing
from rowcast.mqtt.packets import Suback, Subscribe, Subscription
from rowcast.mqtt.reasons import PacketType, Reason
from rowcast.mqtt.violations import Violation
from rowcast.subscriptions.gaps import Gap
from rowcast.subscriptions.pacing import asked_interval
from rowcast.subscriptions.start_position import StartPosition, check_start, missing
from rowcast.subscriptions.subscription import SubscribedFilter
from rowcast.subscriptions.subscription import Subscription as LiveCursor

if TYPE_CHECKING:
    from rowcast.doors.mqtt.client import Client
    from rowcast.doors.mqtt.sessions.session import Session

log = logging.getLogger("rowcast.mqtt")


class SubscribeRequest:
    """The common options of a SUBSCRIBE: caller, delivery format, start.

    Not a dataclass: compiled, that one needs the types of its fields when it is made, and those of
    ``Client`` and ``Session`` are there only if their modules were imported first.
    """

    __slots__ = (
        "caller",
        "client",
        "commits",
        "conflate",
        "form",
        "gaps",
        "identifiers",
        "offset",
        "session",
        "since",
        "start",
    )

    def __init__(
        self,
        client: "Client",
        session: "Session",
        caller: Caller,
        form: DeliveryFormat,
        identifiers: tuple[int, ...],
        since: str | None,
        offset: str | None,
        start: StartPosition | None,
        gaps: bool,
        commits: bool = False,
        conflate: float = 0.0,
    ) -> None:
        self.client, self.session, self.caller, self.form = client, session, caller, form
        self.identifiers, self.gaps = identifiers, gaps
        self.since, self.offset, self.start = since, offset, start
        self.commits, self.conflate = commits, conflate


@dataclass(slots=True)
class FilterRequest:
    """One filter of a SUBSCRIBE, being processed."""

    wanted: Subscription
    interest: SubscribedFilter
    share: Share | None
    exclusive: bool
    since: str | int | None
    """A cursor or position to continue after; None for now."""
    offset: str | None = None
    """The requested start of a stream, resolved to ``since`` later."""
    start: StartPosition | None = None
    """The requested start of any other filter, likewise."""
    marks: Sequence[Gap] = ()
    """What is told first: that events since that start may have been trimmed."""
    refusal: Error | None = None

    @property
    def begins_in_log(self) -> bool:
        """Whether it starts with events and not with current records."""
        replays = is_replay(self.interest.topics.text)
        return replays or self.offset is not None or self.start is not None


def on_subscribe(client: "Client", packet: Subscribe) -> None:
    """Add or change interests; SUBACK precedes their first message."""
    session, caller, form = client.session, client.caller, client.form
    if session is None or caller is None or form is None:  # the table of legal packets refuses it
        return
    if client.broker.kernel.has_pending_writes(caller):
        _wait(client, caller, packet)
        return
    try:
        form = _form(client, form, packet)
        asked = _asked(client, form, packet)
        request = SubscribeRequest(client, session, caller, form, *asked)
    except Error as error:
        _answer(client, packet, [error] * len(packet.subscriptions))
        return
    if session.subscription_count + len(packet.subscriptions) > MQTT_SUBSCRIBE_TURN_FILTERS:
        _later(request, packet, None)
        return
    plans = [_understood(request, wanted) for wanted in packet.subscriptions]
    if _waits(request, plans):
        _later(request, packet, plans)
        return
    _answer(client, packet, [_at_once(request, plan) for plan in plans])


def _waits(request: SubscribeRequest, plans: Sequence[FilterRequest | Error]) -> bool:
    """Whether hooks, or positions in the log, are waited for before any of these filters starts."""
    if number_ahead(request.client.broker.kernel, request.since):
        return True
    streams = any(isinstance(plan, FilterRequest) and plan.begins_in_log for plan in plans)
    return streams or request.client.broker.kernel.hooks.subscribe_waits


def _at_once(request: SubscribeRequest, plan: FilterRequest | Error) -> Reason | Error:
    """Authorise a filter that waits for nothing, and start it; see ``_carry_out``."""
    try:
        if isinstance(plan, FilterRequest):
            request.client.broker.kernel.authorise(plan.interest, request.caller)
    except Error as error:
        return error
    return _carry_out(request, plan)


def _later(
    request: SubscribeRequest, packet: Subscribe, plans: list[FilterRequest | Error] | None
) -> None:
    """Run a SUBSCRIBE in a task; packets received meanwhile are buffered."""
    request.client.awaits_store = True
    task = _ask(request, packet) if plans is None else _ask(request, packet, plans)
    request.session.asking = asyncio.get_running_loop().create_task(task)


async def _ask(
    request: SubscribeRequest, packet: Subscribe, plans: list[FilterRequest | Error] | None = None
) -> None:
    """Call hooks and resolve positions of all filters, then start them; packets wait meanwhile.

    Without plans there are many filters, processed in several turns of the loop. Messages of
    started filters may precede SUBACK, as MQTT 5, 3.8.4 allows.
    """
    client, session = request.client, request.session
    turns = client.broker.kernel.turns
    try:
        if plans is None:
            each = turns.each(packet.subscriptions)
            plans = [_understood(request, wanted) async for wanted in each]
        start = _at_once
        if _waits(request, plans):
            start = _carry_out
            async for plan in turns.each(plans):
                if isinstance(plan, FilterRequest):
                    await _authorise(request, plan)
        outcomes = [
            start(request, plan) async for plan in turns.each(plans) if client.session is session
        ]
        if client.session is session:
            _answer(client, packet, outcomes)
    except Exception:
        log.exception("a SUBSCRIBE of %s failed", client.name)
        client.disconnect(Reason.UNSPECIFIED_ERROR, "the server failed; its log has the reason")
    client.opened()


async def _authorise(request: SubscribeRequest, plan: FilterRequest) -> None:
    kernel = request.client.broker.kernel
    try:
        await kernel.authorise_waiting(plan.interest, request.caller)
        if ahead := number_ahead(kernel, request.since):
            await kernel.reader.until_reached(ahead)
        if plan.start is not None:
            check_start((plan.interest,), plan.start)
        if plan.start is not None:
            topics = plan.interest.topics
            plan.since = await started(kernel, topics, plan.start)
            sources = kernel.reader.sources(topics)
            plan.marks = await missing(kernel.reader, sources, plan.start, plan.interest)
        elif plan.offset is not None:
            plan.since = await beginning(kernel, plan.interest.topics, plan.offset)
    except Error as error:
        plan.refusal = error


def _answer(client: "Client", packet: Subscribe, outcomes: Sequence[Reason | Error]) -> None:
    """Send SUBACK with the result of each filter."""
    problems = [
        f"{wanted.filter[:100]!r}: {outcome.message}"
        for wanted, outcome in zip(packet.subscriptions, outcomes, strict=True)
        if isinstance(outcome, Error)
    ]
    properties = client.explain("; ".join(problems)) if problems else None
    if client.tells_seq:  # M1: the start position
        properties = (properties or {}) | {"user_property": (("seq", client.broker.kernel.head),)}
    reasons = tuple(item if isinstance(item, Reason) else _reason(item) for item in outcomes)
    for wanted, outcome, reason in zip(packet.subscriptions, outcomes, reasons, strict=True):
        if isinstance(outcome, Error) and client.caller is not None:
            notify, words = client.broker.kernel.listeners.notify, outcome.message
            notify("refused", client.caller, filter=wanted.filter, reason=words, code=reason)
    client.send_saved(Suback(packet.packet_id, reasons, properties))


async def auto_subscribe(client: "Client", session: "Session", caller: Caller) -> None:
    """Add automatic subscriptions to a new session (D54)."""
    wanted, form = client.broker.settings.auto_subscriptions, client.form
    if wanted is None or form is None:
        return
    gaps = form.tells_seq or client.tells_gaps
    request = SubscribeRequest(client, session, caller, form, (), None, None, None, gaps)
    for item in wanted.of(caller.client_id, caller.user):
        try:
            plan = _plan(request, item)
            await client.broker.kernel.authorise_waiting(plan.interest, caller)
            if client.session is not session:
                return
            _begin_one(request, plan)
        except Error as error:
            log.warning("%s is not subscribed to %s: %s", client.name, item.filter, error.message)
    if session.unsaved:
        client.broker.keeper.save(session)


def _understood(request: SubscribeRequest, wanted: Subscription) -> FilterRequest | Error:
    """Return the request of a filter, or its Error."""
    try:
        request.client.broker.kernel.reader.shedding.check_subscribe()
        _count(request.client)
        text = rewritten(request.client, request.caller, wanted.filter)  # D54
        if text == wanted.filter:
            return _plan(request, wanted)
        plan = _plan(request, replace(wanted, filter=text))
        plan.interest.asked = divided(wanted.filter)[1]
    except Error as error:
        return error
    else:
        return plan


def _plan(request: SubscribeRequest, wanted: Subscription) -> FilterRequest:
    """Return the request of a filter; raises its Error."""
    share, text = share_of(wanted.filter), wanted.filter
    if share is not None:
        groups_in(request.client.broker.kernel)
    exclusive = share is None and text.startswith(EXCLUSIVE_PREFIX)
    stream = share is None and text.startswith(STREAM_PREFIX)
    topics = share.topics if share else _filter(bare(text))
    form, alone = request.form, share is None
    interest = SubscribedFilter(
        topics,
        wanted.qos,
        wanted.no_local and alone,
        wanted.retain_as_published,
        request.identifiers,
        marks=form.tells_seq,
        form=form,
        gaps=request.gaps,
        commits=request.commits and alone,
        conflate=request.conflate if alone else None,
    )
    if share is not None or stream:
        check_not_query(topics.text)
    offset = (request.offset or NEXT) if stream else request.offset if share else None
    return FilterRequest(wanted, interest, share, exclusive, request.since, offset, request.start)


def bare(text: str) -> str:
    """Return a filter without subscription prefixes."""
    return text.removeprefix(EXCLUSIVE_PREFIX).removeprefix(STREAM_PREFIX)


def _carry_out(request: SubscribeRequest, plan: FilterRequest | Error) -> Reason | Error:
    """Start an authorised filter; return the granted QoS, or the Error."""
    if isinstance(plan, Error):
        return plan
    if plan.refusal is not None:
        return plan.refusal
    try:
        return _begin_one(request, plan)
    except Error as error:
        return error


def _begin_one(request: SubscribeRequest, plan: FilterRequest) -> Reason:
    if plan.share is not None:
        return _share(request, plan, plan.share)
    granted = _subscribe(request, plan)
    cast("LiveCursor", request.session.subscription).queue_gaps(plan.marks)
    return granted


def _count(client: "Client") -> None:
    """Count a filter (D57)."""
    if client.meter is not None and not client.meter.may_subscribe(1, client.loop.time()):
        raise Violation(Reason.QUOTA_EXCEEDED, "more subscriptions at once than are allowed")


def rewritten(client: "Client", caller: Caller, text: str) -> str:
    """Return a filter after rewriting, and without a leading slash of a declared path."""
    rewriting, named = client.broker.settings.rewriting, client.broker.kernel.registry.named
    prefix, rest = divided(text)
    text = prefix + named_filter(named(rest))
    if rewriting is None:
        return text
    try:
        text = rewriting.filter(text, caller.client_id, caller.user, named)
    except Error as error:
        raise Violation(Reason.TOPIC_FILTER_INVALID, error.message) from None
    prefix, rest = divided(text)
    return prefix + named(rest)


def _wait(client: "Client", caller: Caller, packet: Subscribe) -> None:
    """Subscribe after earlier writes of the client are stored.

    Then they are current records, sent as such or not at all (MQTT-3.3.1-8 of 3.1.1,
    MQTT-3.3.1-11); otherwise they would be sent as live messages.
    """

    def stored(error: Error | None) -> None:
        if error is not None:
            client.disconnect(Reason.SERVER_BUSY, error.message)
        client.opened()

    client.awaits_store = True
    client.held.append(packet)
    client.broker.kernel.when_stored(caller, stored)


def _asked(
    client: "Client", form: DeliveryFormat, packet: Subscribe
) -> tuple[tuple[int, ...], str | None, str | None, StartPosition | None, bool, bool, float]:
    """Return the subscription identifiers, and the start: a cursor, an offset, a start position.

    Then whether these filters ask for gaps (M4) and for commits (C23), and for what pace (M4).
    """
    identifier = (packet.properties or {}).get("subscription_identifier")
    identifiers = (identifier,) if isinstance(identifier, int) else ()
    users = user_properties(packet.properties)
    start = start_of(client.broker.kernel, users)
    gaps = is_wanted(users, "gaps") if "gaps" in users else form.tells_seq or client.tells_gaps
    commits, pace = is_wanted(users, "commits"), asked_interval(users.get("conflate"))
    return identifiers, users.get("since"), users.get(OFFSET), start, gaps, commits, pace


def _form(client: "Client", form: DeliveryFormat, packet: Subscribe) -> DeliveryFormat:
    """Return the delivery format of these filters: their user properties override CONNECT's."""
    users = user_properties(packet.properties)
    if not users:
        return form
    media_type = media_type_wanted(users["accept"]) if "accept" in users else form.media_type
    tells = form.tells_seq or not {"seq", "since", OFFSET, *WORDS}.isdisjoint(users)
    meta = is_wanted(users, "meta") if "meta" in users else form.tells_meta
    return client.deliveries.forms.form(form.version, media_type, tells_seq=tells, tells_meta=meta)


def _subscribe(request: SubscribeRequest, plan: FilterRequest) -> Reason:
    """Start one interest; return the granted QoS."""
    session, broker, interest = request.session, request.client.broker, plan.interest
    topics = interest.topics
    if plan.exclusive and not broker.exclusives.may_take(topics.text, session.client_id):  # D53
        raise Violation(Reason.QUOTA_EXCEEDED, "another client has this filter for itself")
    known = interest_of(session, topics)
    if known is None:
        _check_count(request.client, session)
    handling = plan.wanted.retain_handling  # MQTT-3.3.1-9, -10, -11
    broker.kernel.watch(
        cast("LiveCursor", session.subscription),
        interest,
        request.caller,
        plan.since,
        current=not plan.begins_in_log and (handling == 0 or (handling == 1 and known is None)),
        asked=True,
    )
    if plan.exclusive:
        broker.take_exclusive(session, topics.text)
    else:
        broker.release_exclusive(session, topics.text)
    if known is None:
        broker.observer.subscribed(session.client_id, topics.text)
    before = known.qos if known is not None else 0
    session.reliable += (interest.qos > 0) - (before > 0)
    if session.kept and interest.replay is None:
        broker.update_durable_filter(session, topics, before, interest.qos)
        broker.keeper.put_filter(session, interest)
    broker.observer.subscription_changed(session.client_id, topics.text)
    return Reason(interest.qos)


def _share(request: SubscribeRequest, plan: FilterRequest, share: Share) -> Reason:
    """Join a group, or change the options; return the granted QoS."""
    session, text, broker = request.session, plan.wanted.filter, request.client.broker
    interest, sharing = plan.interest, session.sharing
    broker.kernel.reauthorise(interest, request.caller)
    if sharing is None:
        sharing = session.sharing = Sharing(
            broker.kernel, session, broker.keeper.touch, broker.deliveries.flush_events
        )
    if text not in sharing.shares:
        _check_count(request.client, session)
        broker.observer.subscribed(session.client_id, text)
    sharing.subscribe(text, Share(share.name, interest.topics), interest, plan.since)
    broker.count_share(session, text, interest.topics)
    broker.kernel.hooks.subscribed(request.caller, interest)
    if session.kept:
        broker.keeper.put_share(session, text, interest)
    broker.observer.subscription_changed(session.client_id, text)
    return Reason(interest.qos)


def _check_count(client: "Client", session: "Session") -> None:
    """Raise when a client has reached its maximum of subscriptions."""
    most = client.broker.settings.subscriptions_max
    if session.subscription_count >= most:
        raise Error(Code.BUSY, f"a client may have {most} subscriptions")


def _filter(text: str) -> TopicFilter:
    try:
        return TopicFilter(text)
    except Error as error:
        raise Violation(Reason.TOPIC_FILTER_INVALID, error.message) from None  # MQTT-4.7.1-1


def interest_of(session: "Session", topics: TopicFilter) -> SubscribedFilter | None:
    """Return the interest of a session with this filter."""
    if session.subscription is None or topics.text not in session.subscription.interests:
        return None
    return session.subscription.interests[topics.text]


def _reason(error: Error) -> Reason:
    if isinstance(error, Violation):
        return error.reason
    usual = SUBACK_REASONS.get(error.code, Reason.IMPLEMENTATION_SPECIFIC_ERROR)
    if "filter" in error.detail:
        usual = Reason.TOPIC_FILTER_INVALID
    return reason_of(error, PacketType.SUBACK, usual)
