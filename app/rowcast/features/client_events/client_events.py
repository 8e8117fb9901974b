"""Events of clients and of the server, as messages at ``$SYS/events/<client id>`` (O6).

A client without an id, such as a reader of SSE or WebSocket, has ``$SYS/events/<door>/<user>``; the
server itself SERVER_TOPIC. They are messages in a separate part of the log, so every door can read
their history and subscribe, and they evict nothing else.

Events above the rate limits are suppressed and counted: later one message for each client and kind
has the last event and the count. Order is kept for each client, except for counted events. The end
of a killed server is reported at the next start.
"""

import asyncio
import logging
from typing import Final

from rowcast.codecs import JSON, decode, encode
from rowcast.core.callers import EVENTS_WRITER, Caller, levels_of
from rowcast.core.clock import WallClock
from rowcast.core.errors import Error
from rowcast.core.event_limits import (
    EVENTS_BATCHES_PER_SECOND_MAX,
    EVENTS_HELD_CLIENTS_MAX,
    EVENTS_HELD_SECONDS,
    EVENTS_PER_CLIENT_PER_SECOND_MAX,
    EVENTS_PER_SECOND_MAX,
    EVENTS_RATED_CLIENTS_MAX,
    EVENTS_TEXT_CHARS_MAX,
)
from rowcast.core.events import MESSAGE, Event
from rowcast.core.rate_limit import KeyedRateLimit, TokenBucket
from rowcast.core.topic_tables import CLIENT_EVENTS, EVENTS_LEVEL, TopicRoot, TopicTable
from rowcast.kernel.kernel import Kernel
from rowcast.routes.system_rows import time_text
from rowcast.subscriptions.gaps import LossCounter
from rowcast.writes.write import FireAndForget, Write

log = logging.getLogger("rowcast.events")

TABLE: Final = TopicTable(CLIENT_EVENTS, TopicRoot(EVENTS_LEVEL))
"""Their part of the log, created at start, and never dropped."""
SERVER_TOPIC: Final = f"{EVENTS_LEVEL}/server/process"
STARTED: Final = "started"
STOPPED: Final = "stopped"

Facts = dict[str, object]


def topic_of(caller: Caller) -> str:
    """Return the topic of a caller's events: a client id is one level, as in a URL."""
    return f"{EVENTS_LEVEL}/{levels_of(caller)}"


def _plain(value: object) -> object:
    """Return a JSON value: enum numbers as names, and untrusted texts truncated."""
    if isinstance(value, str):
        return value[:EVENTS_TEXT_CHARS_MAX].encode(errors="replace").decode()
    return int(value) if isinstance(value, int) else value


class Held:
    """Suppressed events of one kind at one topic: the last one, and the count."""

    __slots__ = ("count", "facts")

    def __init__(self) -> None:
        self.facts: Facts = {}
        self.count = 0


class ClientEvents:
    """The client event log of one server; a listener (``seams/listeners.py``)."""

    def __init__(self, kernel: Kernel, now: WallClock) -> None:
        self._kernel = kernel
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._rate = TokenBucket(EVENTS_PER_SECOND_MAX, self._loop.time())
        self._rates = KeyedRateLimit[str](
            EVENTS_PER_CLIENT_PER_SECOND_MAX, EVENTS_RATED_CLIENTS_MAX
        )
        self._due: list[tuple[str, Facts]] = []
        """Events of the next batch."""
        self._batches = TokenBucket(EVENTS_BATCHES_PER_SECOND_MAX, self._loop.time())
        self._writing: asyncio.Handle | None = None
        """The next batch: at the end of this turn, or when there may be another."""
        self._held: dict[str, dict[str, Held]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._missed: set[LossCounter] = set()
        """Counters of readers with losses since the last report."""
        self.left_out: dict[str, int] = {}
        """Counts by kind for clients beyond the bound."""
        self.failures = 0
        """Events refused by the disk."""
        self._refused = FireAndForget(self._fail)

    # -- the server --------------------------------------------------------------------------------

    async def start(self, **facts: object) -> None:
        """Report the start, and a killed earlier run; then listen to clients."""
        last = await self._kernel.reader.history(TABLE.branch, SERVER_TOPIC, 1)
        before = decode(last[0].payload, JSON) if last else None
        if isinstance(before, dict) and before.get("event") != STOPPED:
            facts |= {"reason": "the server before this one did not stop in order"}
            facts |= {"after": before.get("at")}
        self._put(SERVER_TOPIC, {"event": STARTED, "at": self._now(), **facts})
        self._kernel.listeners.clients.append(self)
        self._kernel.listeners.server.append(self.notify_server)
        self._kernel.reader.losses.noted = self._missed
        self._arm()

    def stop(self) -> None:
        """Write suppressed events and the stop, and stop listening."""
        if self._timer is None:  # not started
            return
        self._timer.cancel()
        self._kernel.listeners.clients.remove(self)
        self._kernel.listeners.server.remove(self.notify_server)
        self._report_losses()
        for topic in list(self._held):
            self._release(topic)
        self._report_left_out()
        self._put(SERVER_TOPIC, {"event": STOPPED, "at": self._now()})
        self._write()

    def notify_server(self, what: str, facts: Facts) -> None:
        """Report an event of the server itself."""
        self._put(SERVER_TOPIC, {"event": what, "at": self._now(), **facts})

    # -- clients -----------------------------------------------------------------------------------

    def __call__(self, what: str, caller: Caller, /, **facts: object) -> None:
        """Report an event of a caller; ``facts`` that are None are left out."""
        topic, held = topic_of(caller), self._held
        if topic not in held and self._has_room(topic):
            self._put(topic, self._content(what, caller, facts))
        elif topic in held or len(held) < EVENTS_HELD_CLIENTS_MAX:
            self._hold(topic, what, self._content(what, caller, facts))
        else:
            self.left_out[what] = self.left_out.get(what, 0) + 1

    def _content(self, what: str, caller: Caller, facts: Facts) -> Facts:
        """Return the content of an event."""
        content: Facts = {
            "event": what,
            "client_id": caller.client_id or None,
            "user": caller.user,
            "peer": caller.peer,
            "door": caller.door,
            "at": self._now(),
        }
        for name, value in facts.items():
            if value is not None:
                content[name] = _plain(value)
        return content

    def _has_room(self, topic: str) -> bool:
        """Whether an event of a client may be written now; counts it."""
        now = self._loop.time()
        return self._may_write(now) and self._rates.allows(topic, 1, now)

    def _may_write(self, now: float) -> bool:
        """Whether another event may be written now; counts it."""
        return not self._kernel.committer.crowded and self._rate.take_if_room(1, now)

    def _hold(self, topic: str, what: str, facts: Facts) -> None:
        kinds = self._held.setdefault(topic, {})
        held = kinds.pop(what, None) or Held()
        kinds[what] = held  # in the order of the last of each kind
        held.facts, held.count = facts, held.count + 1

    def _arm(self) -> None:
        self._timer = self._loop.call_later(EVENTS_HELD_SECONDS, self._look)

    def _look(self) -> None:
        """Write suppressed events, within the rates."""
        self._arm()
        self._report_losses()
        for topic in list(self._held):
            now = self._loop.time()
            if not self._may_write(now):
                break
            if self._rates.allows(topic, 1, now):
                self._release(topic)
        if not self._held:
            self._report_left_out()

    def _report_losses(self) -> None:
        """Report losses of readers by reason (M4)."""
        while self._missed:
            account = self._missed.pop()
            counts = account.news()
            if counts and account.caller is not None:
                self("gap", account.caller, messages=sum(counts.values()), reasons=counts)

    def _release(self, topic: str) -> None:
        """Write suppressed events of one topic, at most one of each kind."""
        for held in self._held.pop(topic).values():
            more = {"count": held.count} if held.count > 1 else {}
            self._put(topic, held.facts | more)

    def _report_left_out(self) -> None:
        if self.left_out:
            counts, self.left_out = self.left_out, {}
            self._put(SERVER_TOPIC, {"event": "left_out", "at": self._now(), "counts": counts})

    # -- the log -----------------------------------------------------------------------------------

    def _put(self, topic: str, facts: Facts) -> None:
        at = facts["at"]
        if isinstance(at, float):  # one that is held and replaced by a later one costs no text
            facts["at"] = time_text(at)
        self._due.append((topic, facts))
        if self._writing is None:
            self._write_soon()

    def _write_soon(self) -> None:
        """Write pending events at the end of this turn, within the rate of batches."""
        now = self._loop.time()
        wait = self._batches.wait(now)
        if wait:
            self._writing = self._loop.call_later(wait, self._write)
        else:
            self._writing = self._loop.call_soon(self._write)
        self._batches.take(1, now)

    def _write(self) -> None:
        """Write pending events in one batch."""
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        due, self._due = self._due, []
        events = (Event(topic, MESSAGE, encode(facts, JSON), JSON, 1) for topic, facts in due)
        writes = [Write(event, EVENTS_WRITER, self._refused) for event in events]
        try:
            self._kernel.writes.commit_or_announce(writes)
        except Error as error:
            for _ in writes:
                self._fail(error)

    def _fail(self, error: Error) -> None:
        self.failures += 1
        log.debug("an event of a client is not on disk: %s", error.message)
