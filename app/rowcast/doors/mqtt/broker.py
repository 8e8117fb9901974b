"""The broker: the registry of connected clients and sessions, and what all clients share.

It holds no message and no filter: those are the kernel's. What it adds to a connection is a
session, a caller and a form.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping

from rowcast.core.bounded import ClearedCache
from rowcast.core.errors import Error
from rowcast.core.limits import (
    MATCH_CACHE_TOPICS_MAX,
    SESSION_TIMER_SECONDS_MAX,
)
from rowcast.core.topics import TopicFilter
from rowcast.doors.mqtt.client import Client
from rowcast.doors.mqtt.connections.guard import LoginThrottle
from rowcast.doors.mqtt.connections.rejections import Refused, Rejections
from rowcast.doors.mqtt.connections.server_disconnect import all_gone, disconnect_reason
from rowcast.doors.mqtt.connections.timer_wheel import TimerWheel
from rowcast.doors.mqtt.connections.traffic import Tally
from rowcast.doors.mqtt.connections.transport import Transport
from rowcast.doors.mqtt.delivery.delivery_format import DeliveryFormats
from rowcast.doors.mqtt.delivery.outgoing import Deliveries
from rowcast.doors.mqtt.packets.exclusive import Exclusives
from rowcast.doors.mqtt.sessions import loss_accounts as accounts
from rowcast.doors.mqtt.sessions import wills
from rowcast.doors.mqtt.sessions.observers import Observers
from rowcast.doors.mqtt.sessions.session import NEVER, Session, Sessions
from rowcast.doors.mqtt.sessions.session_loading import Facts, read_sessions, read_wills
from rowcast.doors.mqtt.sessions.session_persistence import SessionPersistence
from rowcast.doors.mqtt.sessions.sharing import Sharing
from rowcast.doors.mqtt.settings import BrokerSettings
from rowcast.kernel.kernel import Kernel
from rowcast.mqtt.reasons import Reason
from rowcast.subscriptions.backlog import Loss, Overflow
from rowcast.subscriptions.gaps import GapCause
from rowcast.subscriptions.subscription import SubscribedFilter

log = logging.getLogger("rowcast.mqtt")


class Broker:
    """Clients, their sessions, and the forms of their messages. Its numbers are plain counts."""

    def __init__(
        self,
        kernel: Kernel,
        settings: BrokerSettings,
        now: Callable[[], float],
        loop: asyncio.AbstractEventLoop,
        handlers: Mapping[type, Callable[..., None]],
        run_handlers: Mapping[type, Callable[..., None]],
    ) -> None:
        self.kernel, self.epoch = kernel, kernel.reader.epoch.encode()
        self.settings, self.now, self.loop = settings, now, loop
        self.wheel = TimerWheel(loop)
        """When connections are looked after."""
        self.handlers = handlers
        """What clients do with a packet, by its class."""
        self.run_handlers = run_handlers
        """The same for classes of which a read has many: called with several packets at a time."""
        forms = DeliveryFormats(
            kernel.transcoder, kernel.reader.epoch, settings.clears_silently, now=now
        )
        self.observer = Observers(kernel, now)
        self.samplers = kernel.samplers
        self.tally = Tally(kernel.listeners.mqtt)
        self.sessions = Sessions(now, kernel.removal_now)
        self.wills = wills.Wills(kernel, loop, self._will_refused)
        self.keeper = SessionPersistence(kernel, self.sessions, self.wills, loop)
        most = settings.flush_events
        self.deliveries = Deliveries(kernel, forms, now, self.keeper.touch, most)
        self.guard = LoginThrottle(settings.guard, self.clock)
        self.refused = Rejections(loop, self.observer.refused, settings.server_reference)
        self.exclusives = Exclusives()
        self._expiry_timer: asyncio.TimerHandle | None = None
        self.topics: ClearedCache[bytes, str] = ClearedCache(MATCH_CACHE_TOPICS_MAX)
        """Topics by their bytes, shared by all connections."""
        self.clients: set[Client] = set()
        self._emptied = asyncio.Event()
        self.stopping = False
        self.connections = 0
        """Connections ever."""
        self.takeovers = 0
        """Connections ended by another one of the same client id."""
        self.stalled = 0
        """Connections cut off because their peer read nothing."""
        self.refusals = 0
        """Publishes and wills that were refused."""
        self.dropped_waiting = 0
        """Messages dropped because more waited for a session than may."""
        self.throttled = 0
        """How often a client was over its rate."""
        self.connects = 0
        """CONNECT packets ever."""
        self.ended = 0
        """Sessions that ended because their client stayed away for too long."""

    def clock(self) -> float:
        """Return the time that limits are counted in."""
        return self.loop.time()

    def enter(
        self, transport: Transport, peer: str, media_type: str | None = None
    ) -> Client | Refused | None:
        """Return what takes the bytes of a new connection; None if it was closed (D6).

        ``media_type`` is how it wants messages, unless its CONNECT says otherwise.
        """
        if self.stopping:
            transport.abort()
            return None
        refusal = self.guard.enter(peer)
        if refusal is not None:
            return self.refused.refuse(transport, peer, refusal)
        client = Client(self, transport, peer, media_type)
        self.clients.add(client)
        self.connections += 1
        self.observer.came(peer)
        return client

    def leave(self, client: Client) -> None:
        """Take the session from a client that is going or gone."""
        if client.entered and client.caller is not None:
            client.entered = False
            self.observer.left(client.caller, client.close_reason)
        session = client.session
        if session is None:
            return
        client.session = None
        if session.client is client:
            self._detach(session, client)

    def _detach(self, session: Session, client: Client) -> None:
        """Let a session wait for its client, or end it when it is not to outlive the connection.

        The will is published now, or when its delay is over (MQTT-3.1.2-8).
        """
        session.client = None
        stays = session.durable and self.sessions.get(session.client_id) is session
        subscription = session.subscription
        if subscription is not None:
            unwritten = (*client.saving, *client.later, *client.out)
            accounts.close(session, subscription, unwritten)
            session.skipped = subscription.skipped
            session.position, session.filters = self.kernel.suspend(subscription)
            session.subscription = None
            if stays:
                accounts.begin_absence(self.kernel, session, subscription)
        self.observer.session_changed(session, "disconnected")
        if not stays:
            self.end(session)
            return
        if session.sharing is not None:
            session.sharing.rest()
        self._left(session)
        self.keeper.leave(session)
        self.keeper.save(session)
        self.wills.arm(session, wills.will_delay(session))
        self._watch_expiry()

    def end(self, session: Session) -> None:
        """End a session for good: nothing of it is left (MQTT 5, 4.1)."""
        self.sessions.delete(session)
        accounts.end_absence(self.kernel, session)
        self.kernel.notify_gone(session)
        self.exclusives.release_all(session.client_id)
        self.observer.session_ended(session)
        if session.sharing is not None:
            session.sharing.end()
        self.wills.publish(session)
        self.withdraw(session)

    def expel(self, session: Session, reason: Reason, message: str) -> None:
        """End a session and, if there is one, its client's connection, which is told why."""
        client = session.client
        if client is not None:
            client.disconnect(reason, message)
            client.leave()
        if self.sessions.get(session.client_id) is session:  # it was to outlive its connection
            self.end(session)

    def overflowed(self, session: Session, loss: Loss) -> None:
        """Note what a session lost because more waited for it than may (D25)."""
        most, policy = self.settings.session_queue_max, self.settings.session_queue_policy
        log.info("%d more than %d waited for %r", loss.dropped, most, session.client_id)
        if policy is Overflow.DISCONNECT:
            message = f"more than {most} messages waited; the session has ended"
            self.expel(session, Reason.QUOTA_EXCEEDED, message)
            return
        session.gaps.losses.add(GapCause.WAITING, loss.dropped)
        if loss.expired:
            session.gaps.losses.add(GapCause.EXPIRED, loss.expired)
        self.dropped_waiting += loss.dropped
        self.deliveries.expired += loss.expired

    def withdraw(self, session: Session) -> None:
        """Take a session off the disk; the log need no longer keep messages for it."""
        for interest in session.interests:
            self.update_durable_filter(session, interest.topics, interest.qos, 0)
        if session.kept or session.unsaved:
            self.keeper.forget(session)

    def update_durable_filter(
        self, session: Session, topics: TopicFilter, before: int, after: int
    ) -> None:
        """Note that a durable session's filter changed its QoS; 0 is also: no such filter."""
        if not session.kept or bool(before) == bool(after):
            return
        if after:
            self.kernel.durable.add(topics)
        else:
            self.kernel.durable.remove(topics)

    def forget_filter(self, session: Session, interest: SubscribedFilter) -> None:
        """Note that a session has one filter less."""
        self._uncount(session, interest.topics.text)
        session.reliable -= interest.qos > 0
        self.observer.unsubscribed(session.client_id, interest.topics.text)
        self.release_exclusive(session, interest.topics.text)
        if session.kept:
            self.update_durable_filter(session, interest.topics, interest.qos, 0)
            self.keeper.drop_filter(session, interest.topics.text)

    def count_share(self, session: Session, text: str, topics: TopicFilter) -> None:
        """Count a session as a subscriber of what it shares; ``text`` is the whole filter."""
        self._uncount(session, text)  # a hook may have given it another meaning
        self.kernel.notify_subscribed(session, topics, text)

    def _uncount(self, session: Session, text: str) -> None:
        self.kernel.notify_unsubscribed(session, text)

    def take_exclusive(self, session: Session, topics: str) -> None:
        """Give a filter to one session (D53)."""
        self.exclusives.take(topics, session.client_id)
        if session.kept:
            self.keeper.put_exclusive(session, topics)

    def release_exclusive(self, session: Session, topics: str) -> None:
        """Let others have a filter, if this session had it."""
        if self.exclusives.release(topics, session.client_id) and session.kept:
            self.keeper.drop_exclusive(session, topics)

    def forget_share(self, sharing: Sharing, text: str) -> bool:
        """Note that a session shares a subscription no more; return whether it did."""
        session = sharing.session
        interest = sharing.unsubscribe(text)
        if interest is None:
            return False
        self.observer.unsubscribed(session.client_id, text)
        self._uncount(session, text)
        if session.client is not None and session.client.caller is not None:
            self.kernel.hooks.unsubscribed(session.client.caller, interest.topics.text)
        if session.kept:
            self.keeper.drop_share(session, text)
        return True

    def _watch_expiry(self) -> None:
        """Look for sessions whose time is over when the next one's is."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None
        at = self.sessions.next_expiry
        if at is None or self.stopping:
            return
        seconds = min(max(0.0, at - self.kernel.removal_now()), SESSION_TIMER_SECONDS_MAX)
        self._expiry_timer = self.loop.call_later(seconds, self._look_at_expired)

    def _look_at_expired(self) -> None:
        self._expiry_timer = None
        self.end_expired()
        self._watch_expiry()

    def end_expired(self) -> None:
        """End the sessions whose time is over; one that fails is no reason to keep the others."""
        for session in self.sessions.clean_expired():
            self.ended += 1
            try:
                self.end(session)
            except Exception:
                log.exception("the session of %r could not be ended in order", session.client_id)

    def restore(self, facts: Facts, of_wills: Facts = ()) -> None:
        """Put back the sessions and wills of an earlier run, from their facts (D27).

        The connections of all of them have ended: with the server, if not before.
        """
        sessions = read_sessions(self.deliveries, self.exclusives, facts)
        due = {(item.client_id, item.number): item for item in read_wills(of_wills)}
        self.wills.last = max((number for _, number in due), default=0)
        for session in sessions:
            if not session.durable:
                self.keeper.forget(session)
                continue
            waits = due.pop((session.client_id, session.will_number), None)
            if waits is not None:
                session.will, session.will_caller = waits.will, waits.caller
            self._put_back(session)
        for item in due.values():  # of sessions that are over, or before the one that waits (D31)
            self.wills.publish_due(item)
        for session in self.sessions:
            over = self.now() - (session.left_at or 0.0)
            self.wills.arm(session, wills.will_delay(session) - over)
        self.kernel.on_removal_time.append(self._look_at_expired)
        self._look_at_expired()

    def _put_back(self, session: Session) -> None:
        self.sessions.add(session)
        for interest in session.filters:
            self.update_durable_filter(session, interest.topics, 0, interest.qos)
        accounts.begin_absence(self.kernel, session)
        self.observer.session_restored(session)
        self._count(session)
        if session.left_at is None:  # it was connected when the server ended
            self._left(session)
            for interest in session.filters:
                interest.doubt = self.kernel.committer.stored
            self.keeper.leave(session)  # or another kill would give it all that time again
        elif session.expires_at is not None:
            self.sessions.leave(session, session.expires_at)

    def _count(self, session: Session) -> None:
        """Count a session as a subscriber of its filters; it is one while it is away too."""
        for interest in session.filters:
            self.kernel.notify_subscribed(session, interest.topics)
        for text, (share, _) in session.sharing.shares.items() if session.sharing else ():
            self.kernel.notify_subscribed(session, share.topics, text)

    def _left(self, session: Session) -> None:
        """Note that the client of a session is gone now."""
        session.left_at = self.now()
        never = session.expiry_seconds >= NEVER
        expires_at = math.inf if never else session.left_at + session.expiry_seconds
        self.sessions.leave(session, expires_at)

    def _will_refused(self, error: Error) -> None:
        self.refusals += 1
        log.info("a will was refused: %s", error.message)

    def gone(self, client: Client) -> None:
        """Forget a closed connection."""
        if client in self.clients:
            self.clients.discard(client)
            self.guard.exit(client.peer)
            if client.caller is not None and client.close_reason and not self.stopping:
                self.guard.dropped(client.peer, client.name, client.caller.user)  # D56
        if not self.clients:
            self._emptied.set()

    async def stop(self) -> None:
        """Tell every client that the server goes down, and wait until all are gone (D5).

        Their wills are published: the connections end, and the clients did not wish it
        (MQTT-3.1.2-8).
        """
        self.stopping = self.wills.stopping = True
        self._emptied.clear()
        self._watch_expiry()
        for client in list(self.clients):
            client.disconnect(*disconnect_reason(self.settings.server_reference))
        for session in self.sessions:
            wills.disarm(session)
            if session.away is not None and session.away.missed:
                self.keeper.leave(session)
        self.keeper.stop()
        await all_gone(self.clients, self._emptied)
