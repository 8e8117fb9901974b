"""A bridge: a cursor on the log whose reader is another broker (seed 5; H1-H26).

It reads like any subscriber: from memory at the head of the log, from disk when it has fallen
behind, in one order. So there is no switch between a hot and a cold path that could lose or reorder
events; ``mode`` only reports which is in use. Events read are kept in an ``Outbox`` until the
broker acknowledges them; the position is saved every half second, and a restart resumes there.

A bridge runs in one task, woken by events, acknowledgements and the clock. An unreachable broker
costs periodic connection attempts; writers never wait for it, and no write fails because of it
(H20).
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from rowcast.core.callers import SERVER
from rowcast.core.clock import WallClock, seconds_of
from rowcast.core.errors import Code, Error
from rowcast.core.events import GAP, RESET, Event
from rowcast.core.gateway_limits import (
    GATEWAY_RECONNECT_SECONDS_MAX,
    GATEWAY_REFUSED_SECONDS,
    GATEWAY_TAKE_EVENTS,
)
from rowcast.core.topics import GATEWAY_PREFIX, check_topic
from rowcast.features.bridges.backlog import Backlog, Held, Policy
from rowcast.features.bridges.bridge_cursor import BridgeCursor, waiting
from rowcast.features.bridges.dead_letters import DeadLetter, ends_of_letter, letter_of
from rowcast.features.bridges.debounced_event import DebouncedEvent
from rowcast.features.bridges.feed import Feed
from rowcast.features.bridges.inbound import InboundBridge
from rowcast.features.bridges.link import Link
from rowcast.features.bridges.messages import as_feed, is_news, message_of
from rowcast.features.bridges.outbox import Item, Outbox
from rowcast.features.bridges.plan import Mode, Plan, Route, direct
from rowcast.features.bridges.remote import Remote
from rowcast.features.bridges.state import Saved, beginning, change_of, kept_of
from rowcast.kernel.kernel import Kernel
from rowcast.routes.registry import Route as WriteRoute
from rowcast.rows.topic_rows import Row
from rowcast.subscriptions.gaps import Gap
from rowcast.subscriptions.subscribed_filters import SubscribedFilter
from rowcast.writes.write import Outcome, Step, Write

log = logging.getLogger("rowcast.features.bridges")


class Bridge:
    """One bridge, from ``start`` to ``stop``."""

    def __init__(self, plan: Plan, kernel: Kernel, now: WallClock) -> None:
        self.plan = plan
        self._routes = (*plan.out, direct(plan.name))
        self._kernel = kernel
        self._feed = Feed(kernel, self._routes)
        self._now = now
        self.inlet = InboundBridge(plan, kernel, self._on_lost, self._note)
        self._wake = DebouncedEvent()
        self.outbox = Outbox(plan.rules)
        self.backlog = Backlog(plan.caps)
        self.cursor = BridgeCursor(
            kernel.reader,
            self.client_id,
            self._wake.soon,
            self.backlog,
            self.outbox,
            cold=plan.mode is Mode.OUTBOX,
            queue_size=plan.queue_size,
        )
        self.subscription = self.cursor.subscription
        self._link: Link | None = None
        self._lost = ""
        self._task: asyncio.Task[None] | None = None
        self._counting: asyncio.Task[None] | None = None
        self._saving = self._changed = False
        self._save_at = 0.0
        self._kept = 0
        """The saved position, before which nothing is sent again."""
        self._seen = self._first = 0
        """Positions up to which events may have been sent before the start, and up to which
        messages of the past are not sent at all."""
        self.connected = self._hot = False
        self.sent = self.failed = self.dead = self.dropped = 0
        self.last_error = ""

    @property
    def client_id(self) -> str:
        """The writer of messages from this broker, which the bridge does not send back (H34)."""
        return f"{GATEWAY_PREFIX}{self.plan.name}"

    @property
    def mode(self) -> str:
        """``hot``: events are sent from memory; ``cold``: they wait on disk.

        Cold when the broker is unreachable, when an event failed, or when the queue overflowed; hot
        again when all has been delivered (seed 5).
        """
        hot = self.connected and not self.outbox.retrying and self._keeps_up
        self._hot = hot and (self._hot or self.idle)
        return "hot" if self._hot and self.plan.mode is not Mode.OUTBOX else "cold"

    @property
    def _keeps_up(self) -> bool:
        return self.cursor.keeps_up(self._now(), self.plan.publish_timeout_seconds)

    @property
    def lag(self) -> int:
        """The number of unread events of the log."""
        return self._kernel.committer.events_after(self.subscription.settled)

    @property
    def idle(self) -> bool:
        """Whether everything has been delivered."""
        return self.connected and not self.lag and not len(self.outbox)

    @property
    def waits(self) -> Held:
        """Events read and not delivered, and since when."""
        first = min(self.outbox, key=lambda item: item.seq, default=None)
        event = first.event if first is not None else None
        written = seconds_of(event.version) if event is not None else None
        return replace(self.outbox.waits, oldest=written)

    # -- life --------------------------------------------------------------------------------------

    def start(self, saved: Saved | None) -> None:
        """Start reading at the saved position, or, if it is new, from now on."""
        announced = self._kernel.committer.announced
        since = None
        saved = beginning(saved, self.plan, announced)
        if saved is not None and self.plan.mode is not Mode.MEMORY:
            for item in saved.open:
                item.lane = self._feed.lane(item.topic)
            self.outbox.restore(saved.upto, saved.open)
            since, self._seen, self._first = saved.upto, announced, saved.first
        for route in self._routes:
            interest = SubscribedFilter(route.topics, qos=2, no_local=True, marks=False)
            self._kernel.watch(self.subscription, interest, SERVER, since, current=False)
            if route.sync:
                self._kernel.synced.add(route.topics)
            if self.plan.mode is not Mode.MEMORY:
                self._kernel.durable.add(route.topics)
        if saved is None:
            self.outbox.upto = announced
            self._changed = True
        elif since is not None:
            self.backlog.floor, self.backlog.holes = saved.floor, deque(saved.holes)
            self.backlog.conflated, self.backlog.counted = saved.conflated, False
            self._counting = asyncio.create_task(self._count(since, announced))
        if self.plan.caps.policy is Policy.REFUSE:
            self._kernel.steps.add("backlog", self._step)
        self._task = asyncio.create_task(self._run())

    def _step(self, _route: WriteRoute) -> Step:
        return self._check_room

    def _check_room(self, write: Write) -> None:
        """Refuse a write if the backlog is full and the policy is ``refuse`` (H24)."""
        if not write.logged:
            return
        event = write.event
        route = self._route(event)
        if route is None or event.client == self.client_id:
            return
        if event.topic[0] == "$" and not route.direct:  # the server's own events
            return
        cap = self.backlog.full(self.waits, len(event.payload), self._now())
        if cap:
            raise Error(
                Code.BUSY,
                f"as much as may waits for the broker {self.plan.name} ({cap}); write again when "
                "some of it has been delivered",
                retry_after_seconds=GATEWAY_REFUSED_SECONDS,
            )

    async def _count(self, since: int, until: int) -> None:
        """Count the backlog from before the start, once."""
        try:
            await self._fill()  # to know their age
            await self._recount(since, until)
        except Error as error:
            log.warning("what waits for the bridge %s is not known: %s", self.plan.name, error)
            self.backlog.conflated, self.backlog.counted = (
                0,
                True,
            )  # overestimates rather than underestimates
        self._wake.now()

    async def _recount(self, since: int, until: int) -> None:
        found = await self.cursor.waiting_between(since, until)
        self.backlog.recount(found, self.waits)
        self.backlog.passed(self.subscription.settled)

    async def stop(self) -> None:
        """Stop; undelivered events are sent after the next start."""
        for task in (self._task, self._counting):
            if task is not None:
                task.cancel()
                await asyncio.wait((task,))
        self._kernel.close(self.subscription)
        self._kernel.steps.remove("backlog", self._step)
        for topics in self.plan.syncs:
            self._kernel.synced.remove(topics)
        if self.plan.mode is not Mode.MEMORY:
            for route in self._routes:
                self._kernel.durable.remove(route.topics)
        self._save()

    @property
    def saved(self) -> Saved:
        """Its state, for a restart or for its successor."""
        return kept_of(self.outbox, self.backlog, self.plan.producer, self._first)

    async def _run(self) -> None:
        wait = self.plan.reconnect_interval_seconds
        while True:
            pause = wait
            try:
                await self._connect()
                wait = self.plan.reconnect_interval_seconds
                pause = self.plan.lost_seconds  # existed a moment ago
                await self._serve()
            except Error as error:
                self._note(error.message)
            except Exception:
                log.exception("the bridge %s failed; it connects again", self.plan.name)
                self.last_error = "a mistake of the server; its log says which"
            finally:
                await self._disconnect()
            await self._pause(pause * random.uniform(0.5, 1.0))  # noqa: S311 - only spread in time
            wait = min(pause * 2, GATEWAY_RECONNECT_SECONDS_MAX) if pause == wait else wait

    async def _connect(self) -> None:
        self._lost = ""
        link = self._link = Link(self._remote(), self._on_lost)
        await link.open()
        await self.inlet.open(self._remote())
        self.outbox.rules.flying_max = link.flying_max
        self.connected, self.last_error = True, ""
        log.info("the bridge %s is connected", self.plan.name)

    def _remote(self) -> Remote:
        """Return the broker, with a client identifier unique to this server by default."""
        remote = self.plan.remote
        own = f"rowcast-{self.plan.name}-{self._kernel.reader.epoch}"
        return remote if remote.client_id else replace(remote, client_id=own)

    async def _disconnect(self) -> None:
        link, self._link = self._link, None
        self.connected = self._hot = False
        await self.inlet.close()
        if link is not None:
            await link.close()
        blame = bool(self._lost)
        for seq in self.outbox.lost(self.last_error, self._now(), blame=blame):
            self._bury(self.outbox.items[seq])

    def _on_lost(self, why: str) -> None:
        self._lost = why
        self._wake.now()

    def _note(self, problem: str) -> None:
        """Set the current problem; log it when it has changed."""
        if problem != self.last_error:
            log.warning("the bridge %s: %s", self.plan.name, problem)
        self.last_error = problem

    async def _pause(self, seconds: float) -> None:
        """Wait before a reconnect, while the position is kept up to date."""
        until = self._now() + seconds
        while (left := until - self._now()) > 0:
            await self._sleep(left)
            self._save_when_due()

    async def _sleep(self, seconds: float | None) -> None:
        """Wait for an event, with a timeout."""
        if self._changed:
            due = max(0.0, self._save_at - self._now())
            seconds = due if seconds is None else min(seconds, due)
        await self._wake.wait(seconds)

    # -- out ---------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        """Send until the connection is lost."""
        while not self._lost:
            due = self.outbox.wake(self._now())
            await self._fill()
            self._take()
            await self._feed.prepare(self.outbox)
            blocked = self._send()
            self._save_when_due()
            more = self.subscription.ready and self.outbox.room and not blocked
            more = more and (self.backlog.counted or not self.backlog.conflated)
            if not more and not self._lost:
                seconds = None if due is None else max(0.0, due - self._now())
                if blocked:
                    crowded = self.plan.crowded_seconds
                    seconds = min(crowded, seconds or crowded)
                await self._sleep(seconds)
        self._note(self._lost)

    async def _fill(self) -> None:
        """Read events whose turn is near from the log; trimmed ones are dropped."""
        missing = self.outbox.missing()
        if not missing:
            return
        found = await self._kernel.reader.pick([item.seq for item in missing])
        for item in missing:
            event = found.get(item.seq)
            if event is None:
                self._drop(item.seq, "it is no longer in the log")
            else:
                self.outbox.fill(item, self._as_taken(event))

    def _as_taken(self, event: Event) -> Event:
        """Return an event of the log in its outgoing form: itself, or a row."""
        if self._route(event) is not None:
            return event
        rows = (self._kernel.reader.seeing(item.topics)(event) for item in self._routes)
        return next((row for row in rows if row is not None), event)

    def _take(self) -> None:
        """Read events from the cursor while there is room."""
        if self.backlog.conflated and not self.backlog.counted:
            return  # the newest ones are not known yet
        room = min(self.outbox.room, GATEWAY_TAKE_EVENTS)
        for event, interest in self.subscription.take(room) if room else ():
            if event.kind in {GAP, RESET}:
                self._note_loss(event)
            elif isinstance(event, Row) and event.leads:
                continue  # the event itself is sent, once
            elif event.seq and self.backlog.passes_over(event.seq):
                self.outbox.upto, self._changed = max(self.outbox.upto, event.seq), True
            elif is_news(event, self._first) and interest is not None:
                self.backlog.taken(waiting(event))
                lane = self._feed.lane(event.topic)
                self.outbox.take(event, again=0 < event.seq <= self._seen, lane=lane)
                self._changed = True
        self._hot = self._hot and self._keeps_up
        self.backlog.passed(self.subscription.settled)
        if not len(self.outbox):
            upto = self.subscription.settled
            self._changed = self._changed or upto > self.outbox.upto + GATEWAY_TAKE_EVENTS
            self.outbox.upto = max(self.outbox.upto, upto)

    def _note_loss(self, mark: Event) -> None:
        if isinstance(mark, Gap):
            self.dropped += mark.count or 0
            self._note(f"events were lost to it: {mark.why.value}")
            return
        facts = mark.decoded if isinstance(mark.decoded, dict) else {}
        self.dropped += 1
        self._note(f"events were lost to it: {facts.get('reason', 'unknown')}")

    def _send(self) -> bool:
        """Send ready items; return whether the broker reads too slowly to continue."""
        link = self._link
        while link is not None and not self._lost:
            if link.crowded:
                return True
            item = self.outbox.send()
            if item is None:
                return False
            self._publish(link, item)
        return True

    def _publish(self, link: Link, item: Item) -> None:
        event, kernel = item.event, self._kernel
        if event is None:
            return
        route = self._route(event)
        now = self._now()
        waited = item.attempts > 0 or item.again
        message = None
        if route is not None:
            low = 0 if item.letter else self._kept + 1
            sender = self.plan.sender(kernel.reader.epoch, low, syncs=route.sync)
            message = message_of(
                event, kernel.transcoder, sender, now, again=item.again, waited=waited
            )
        if route is None or message is None:  # expired, or the plan has changed
            self._drop(item.seq, "")
            return
        done, topic = self._answer(item.seq), route.topic(item.lane or event.topic)
        if route.feed and item.document:
            message = as_feed(message, item.document)
        try:
            check_topic(topic)  # the broker would close the connection
            qos, retain = route.qos, message.retain
            if route.direct:
                qos, retain = event.qos, retain or event.retain
            link.publish(topic, message.payload, qos, retain, message.properties, done)
        except Error as error:
            if error.code is Code.BUSY:
                self._on_lost(error.message)
            else:
                done(error.message)
        except Exception as failure:  # noqa: BLE001 - gmqtt cannot encode it: nor can it ever
            done(f"it cannot be sent: {failure}")

    def _route(self, event: Event) -> Route | None:
        return next((item for item in self._routes if item.topics.matches(event.topic)), None)

    def _answer(self, seq: int) -> Callable[[str | None], None]:
        """Return the callback for the broker's answer to an event."""

        def done(refusal: str | None) -> None:
            known, self._changed = self._changed, True
            if refusal is None:
                self.sent += 1
                item = self.outbox.delivered(seq)
                if self.outbox.ready or self.subscription.ready or not known:
                    self._wake.now()
                if item is not None and item.letter:
                    for end in ends_of_letter(self.plan.name, seq):
                        self._kernel.submit(end, SERVER)
                return
            self._wake.now()
            self.failed += 1
            self.last_error = refusal
            if self.outbox.failed(seq, refusal, self._now()):
                self._bury(self.outbox.items[seq])

        return done

    def _drop(self, seq: int, why: str) -> None:
        self.outbox.delivered(seq)
        self.dropped += 1
        self._changed = True
        if why:
            self._note(f"an event was dropped: {why}")

    def _bury(self, item: Item) -> None:
        """Write an item as a dead letter; it is done when that is durable."""
        event = item.event
        if event is None:
            self._drop(item.seq, "it failed and is no longer in the log")
            return
        days = self.plan.dead_letter_retain_days
        burial = DeadLetter(self.plan.name, round(self._now() * 1000), days)
        *parts, letter = letter_of(burial, item, event)
        for part in parts:
            self._kernel.submit(part, SERVER)

        def buried(outcome: Outcome) -> None:
            if isinstance(outcome, Error):  # the disk refuses: retry
                item.attempts -= 1
                self.outbox.failed(item.seq, item.error, self._now())
            else:
                self.dead += 1
                self.outbox.delivered(item.seq)
                log.warning(
                    "the bridge %s gave up on %r after %d attempts: %s",
                    self.plan.name, item.topic, item.attempts, item.error,
                )  # fmt: skip
            self._changed = True
            self._wake.now()

        self._kernel.submit(letter, SERVER, buried)

    def replay(self, event: Event) -> None:
        """Send a dead letter again."""
        if self.outbox.replay(event, self._feed.lane(event.topic)):
            self._wake.now()

    # -- place -------------------------------------------------------------------------------------

    def _save_when_due(self) -> None:
        now = self._now()
        if self._changed and now >= self._save_at:
            self._save_at = now + self.plan.save_seconds
            self._save()

    def _save(self) -> None:
        """Save the position after writes that it depends on; the next save repairs a failure."""
        if self.plan.mode is Mode.MEMORY or self._saving:
            return
        self._saving, self._changed = True, False
        place = self.outbox.place

        def saved(error: Error | None) -> None:
            self._saving = False
            self._kept = self._kept if error else place
            self._changed = self._changed or error is not None

        self._kernel.committer.keep((change_of(self.plan.name, self.saved),), saved)
