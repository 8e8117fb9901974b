"""Sessions: the state of a client, and the table of sessions.

A session has its subscriptions, its position in the log, and flights in both directions (MQTT 5,
4.1). While its client is connected, subscriptions and position are one live cursor,
``subscription``; while it is offline, they are ``filters`` and ``position``: publishing has no cost
for an offline session, and no message is copied for it (D28). ``SessionPersistence`` stores it;
this module knows no disk.
"""

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

from rowcast.bus.missed_while_offline import OfflineSessions
from rowcast.core.callers import Caller
from rowcast.core.limits import SESSIONS_SKIPPED_MAX
from rowcast.mqtt.packets import Will
from rowcast.mqtt.reasons import Reason
from rowcast.mqtt.window import Window
from rowcast.store.store import Change
from rowcast.subscriptions.gaps import Gaps
from rowcast.subscriptions.skipped_ranges import SkippedRange
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

if TYPE_CHECKING:
    from asyncio import Task, TimerHandle

    from rowcast.doors.mqtt.sessions.sharing import Sharing

NEVER: Final = 0xFFFFFFFF
"""The Session Expiry Interval "never" (MQTT 5, 3.1.2.11.2)."""


ANONYMOUS: Final = Caller().user


class SessionClient(Protocol):
    """The connection of a session, as far as sessions and their groups know it."""

    caller: Caller | None
    later: list[bytes]
    """What is to be written when the session is saved."""
    blocked: bool
    """Whether it waits for an acknowledgement."""

    @property
    def stopped(self) -> bool:
        """Whether it is sent no messages now."""

    def ready(self) -> None:
        """Hear that there is something to be sent."""

    def disconnect(self, reason: Reason, message: str = "") -> None:
        """End the connection, and tell the client why if it can be told."""

    def leave(self) -> None:
        """Let go of the session now."""


class Session:
    """One client's state. Times are in seconds since 1970; ``expires_at`` is None while connected.

    ``happened`` is what ``Observers`` last told of it, ``takeovers`` how often another connection
    took it over; ``orders`` counts sendings, so that the order of flights can be written down;
    ``life`` is another number than that of an earlier session of this client identifier. Of
    ``window``'s flights all those of QoS 2, and those of a durable session, carry what it takes to
    send them again (``sent.Sent``).
    """

    __slots__ = (
        "asking",
        "away",
        "changed",
        "client",
        "client_id",
        "created_at",
        "expires_at",
        "expiry_seconds",
        "filters",
        "gaps",
        "happened",
        "inbound",
        "kept",
        "left_at",
        "life",
        "orders",
        "owing",
        "position",
        "reliable",
        "resend",
        "saved",
        "saved_place",
        "sharing",
        "skipped",
        "subscription",
        "takeovers",
        "taking",
        "unsaved",
        "user",
        "will",
        "will_caller",
        "will_number",
        "will_timer",
        "window",
    )

    def __init__(self, client_id: str, window: Window, created_at: float) -> None:
        self.client_id = client_id
        self.window = window
        self.created_at = created_at
        self.expires_at: float | None = None
        self.left_at: float | None = None
        """When its client disconnected; None while it is connected."""
        self.expiry_seconds = 0
        """Its expiry interval; 0: ends with its connection."""
        self.client: SessionClient | None = None
        self.asking: Task[None] | None = None
        """The task of a SUBSCRIBE that waits for hooks."""
        self.user = ANONYMOUS
        """Its user, who alone may resume or end it; if anonymous, anybody may."""
        self.subscription: Subscription | None = None
        self.position = 0
        """The position to resume from; valid while there is no subscription."""
        self.skipped: tuple[SkippedRange, ...] = ()
        """Ranges of the log to skip after it; valid while there is no subscription."""
        self.filters: list[SubscribedFilter] = []
        """The interests; valid while there is no subscription."""
        self.sharing: Sharing | None = None
        """Its shared subscriptions; None while it has none."""
        self.reliable = 0
        """The number of filters with QoS 1 or 2; without any the window does not matter."""
        self.inbound: dict[int, None] = {}
        """Identifiers of received QoS 2 publishes that are not released (MQTT-4.3.3-10)."""
        self.taking: dict[int, list[Callable[[], None]]] = {}
        """Those of them with a pending write, and their callbacks."""
        self.resend: deque[int] | None = None
        """Flights of an earlier connection to send again (MQTT-4.4.0-1)."""
        self.happened, self.takeovers, self.orders, self.life = "restored", 0, 0, 0
        self.gaps = Gaps()
        """The gaps of this client."""
        self.away: OfflineSessions | None = None
        """Counts losses while there is no subscription."""
        self.will: Will | None = None
        self.will_caller: Caller | None = None
        self.will_number = 0
        """The number of its will on disk."""
        self.will_timer: TimerHandle | None = None
        self.kept = False
        """Whether it is on disk."""
        self.unsaved: list[Change] = []
        """Changes of facts for the next save."""
        self.owing: dict[str, tuple[str | None, int | None]] = {}
        """Filters with pending backfill, and its stored progress."""
        self.changed, self.saved = dict[int, None](), dict[int, None]()
        """Packet identifiers whose flights changed since the last save, and those on disk."""
        self.saved_place: object = None

    @property
    def durable(self) -> bool:
        """Whether it outlives its connection (MQTT 5, 3.1.2.11.2)."""
        return self.expiry_seconds > 0

    @property
    def interests(self) -> list[SubscribedFilter]:
        """Its subscriptions, connected or not."""
        return self.filters if self.subscription is None else list(self.subscription.interests)

    @property
    def subscription_count(self) -> int:
        """The number of its filters, including shared ones."""
        own = self.filters if self.subscription is None else self.subscription.interests
        return len(own) + (len(self.sharing.shares) if self.sharing is not None else 0)

    @property
    def place(self) -> int:
        """The position up to which every event is in flight, done, or does not match."""
        return self.subscription.settled if self.subscription is not None else self.position

    @property
    def ahead(self) -> tuple[SkippedRange, ...]:
        """Ranges to skip after ``place``."""
        return self.subscription.skipped if self.subscription is not None else self.skipped

    @property
    def pending(self) -> int:
        """The number of messages queued in memory or in flight."""
        waiting = self.subscription.waiting if self.subscription is not None else 0
        return waiting + len(self.window)

    def next_order(self) -> int:
        """Return the next number of a flight."""
        self.orders += 1
        return self.orders


class Sessions:
    """All sessions by client id (D26)."""

    def __init__(
        self, now: Callable[[], float], removal_now: Callable[[], float] | None = None
    ) -> None:
        self._now, self._removal_now = now, removal_now or now
        self._sessions: dict[str, Session] = {}
        self._leaving: list[tuple[float, int, Session]] = []
        """A heap of session expiries; obsolete entries are skipped, or removed when they are the
        majority."""
        self._departures = self._lives = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def __contains__(self, client_id: object) -> bool:
        return client_id in self._sessions

    @property
    def in_flight(self) -> int:
        """The number of messages that are in flight to all their clients."""
        total = 0
        for session in self._sessions.values():  # asked for every second: no list, no call
            total += len(session.window)
        return total

    @property
    def next_expiry(self) -> float | None:
        """The next time to call ``clean_expired``; None when nothing will expire."""
        return self._leaving[0][0] if self._leaving else None

    def get(self, client_id: str) -> Session | None:
        """Return the session of a client id."""
        return self._sessions.get(client_id)

    def create(self, client_id: str, window: Window) -> Session:
        """Create a session, replacing any other of the same client id."""
        session = Session(client_id, window, self._now())
        session.life = self._lives = self._lives + 1
        self._sessions[client_id] = session
        return session

    def get_or_create(self, client_id: str) -> tuple[Session, bool]:
        """Return the session of a client id, and whether it existed."""
        session = self._sessions.get(client_id)
        if session is not None:
            session.expires_at = session.left_at = None
            return session, True
        return self.create(client_id, Window()), False

    def add(self, session: Session) -> None:
        """Add a restored session."""
        self._lives = max(self._lives, session.life)
        self._sessions[session.client_id] = session

    def leave(self, session: Session, expires_at: float) -> None:
        """Note a disconnect, and the session's expiry."""
        session.client = None
        session.expires_at = expires_at
        if expires_at == inf:
            return
        if len(self._leaving) > 2 * len(self._sessions) + SESSIONS_SKIPPED_MAX:
            self._leaving = [item for item in self._leaving if self._is_to_end(item)]
            heapify(self._leaving)
        self._departures += 1  # sessions are not compared
        heappush(self._leaving, (expires_at, self._departures, session))

    def _is_to_end(self, departure: tuple[float, int, Session]) -> bool:
        """Whether an entry is its session's last, and its client still offline."""
        expires_at, _, session = departure
        current = self._sessions.get(session.client_id) is session
        return current and session.expires_at == expires_at

    def delete(self, session: Session) -> bool:
        """Remove a session, unless it was replaced."""
        if self._sessions.get(session.client_id) is not session:
            return False
        del self._sessions[session.client_id]
        return True

    def clean_expired(self) -> list[Session]:
        """Remove and return expired sessions; the cost depends on their number."""
        now = self._removal_now()
        ended: list[Session] = []
        while self._leaving and self._leaving[0][0] <= now:
            departure = heappop(self._leaving)
            session = departure[2]
            if self._is_to_end(departure) and self.delete(session):
                ended.append(session)
        return ended
