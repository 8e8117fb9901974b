"""Sessions: what a client keeps between its packets, and the table of them.

A session is its subscriptions, its place in the log, and what is in flight both ways (MQTT 5, 4.1).
While its client is connected, subscriptions and place are one live cursor, ``subscription``; while
it is not, they are ``filters`` and ``position``: an offline session costs nothing when a message is
published, and no message is copied for it (D28). What of it must survive the server is
written by the ``keeper``; this module knows no disk.
"""

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Protocol

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

NEVER = 0xFFFFFFFF
"""A Session Expiry Interval that means: not at all (MQTT 5, 3.1.2.11.2)."""


ANONYMOUS = Caller().user


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
    took it over; ``orders`` counts sendings, so that the order of flights can be written down. Of
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
        """When its client was lost; None while it is connected."""
        self.expiry_seconds = 0
        """How long it outlives its connection; 0 ends it with that."""
        self.client: SessionClient | None = None
        self.asking: Task[None] | None = None
        """Waits for hooks that are asked about a SUBSCRIBE."""
        self.user = ANONYMOUS
        """Whose it is: nobody else goes on with it, or ends it; if anonymous, it is anybody's."""
        self.subscription: Subscription | None = None
        self.position = 0
        """Where in the log to go on; holds while there is no subscription."""
        self.skipped: tuple[SkippedRange, ...] = ()
        """What of the log beyond it is to be passed over; holds while there is no subscription."""
        self.filters: list[SubscribedFilter] = []
        """The subscriptions; hold while there is no subscription."""
        self.sharing: Sharing | None = None
        """Its part in shared subscriptions; None while it has none."""
        self.reliable = 0
        """How many filters were granted QoS 1 or 2: with none nothing waits for the window."""
        self.inbound: set[int] = set()
        """Identifiers of QoS 2 publishes that were taken and not released (MQTT-4.3.3-10)."""
        self.taking: dict[int, list[Callable[[], None]]] = {}
        """Those of them that are on their way to the log, and who waits to hear of it."""
        self.resend: deque[int] = deque()
        """Flights of an earlier connection that are still to be sent again (MQTT-4.4.0-1)."""
        self.happened, self.takeovers, self.orders = "restored", 0, 0
        self.gaps = Gaps()
        """What this client was not sent."""
        self.away: OfflineSessions | None = None
        """Counts what is missed while there is no subscription."""
        self.will: Will | None = None
        self.will_caller: Caller | None = None
        self.will_number = 0
        """The name of its will on disk."""
        self.will_timer: TimerHandle | None = None
        self.kept = False
        """Whether it is on disk."""
        self.unsaved: list[Change] = []
        """Facts that are to be written with the next save."""
        self.owing: dict[str, tuple[str | None, int | None]] = {}
        """Filters that are owed current records or a part of the log, and what of it is on disk."""
        self.changed, self.saved = set[int](), set[int]()
        """Packet identifiers whose flights began, moved or ended since the last save, and of those
        that are on disk."""
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
        """How many filters it has, shared ones too."""
        own = self.filters if self.subscription is None else self.subscription.interests
        return len(own) + (len(self.sharing.shares) if self.sharing is not None else 0)

    @property
    def place(self) -> int:
        """The number up to which every event was handed over: in flight, done or not for it."""
        return self.subscription.settled if self.subscription is not None else self.position

    @property
    def ahead(self) -> tuple[SkippedRange, ...]:
        """What is to be passed over beyond ``place``."""
        return self.subscription.skipped if self.subscription is not None else self.skipped

    @property
    def pending(self) -> int:
        """How many messages wait in memory or are in flight."""
        waiting = self.subscription.waiting if self.subscription is not None else 0
        return waiting + len(self.window)

    def next_order(self) -> int:
        """Return the number of this sending."""
        self.orders += 1
        return self.orders


class Sessions:
    """All sessions by client id (D26)."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._sessions: dict[str, Session] = {}
        self._leaving: list[tuple[float, int, Session]] = []
        """A heap of when sessions end; one whose client came back is skipped in its turn, or left
        out when such are the most."""
        self._departures = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    @property
    def next_expiry(self) -> float | None:
        """When to call ``clean_expired`` next; None when nothing will expire."""
        return self._leaving[0][0] if self._leaving else None

    def get(self, client_id: str) -> Session | None:
        """Return the session of a client id."""
        return self._sessions.get(client_id)

    def create(self, client_id: str, window: Window) -> Session:
        """Make a new session in the place of any other of the same client id."""
        session = Session(client_id, window, self._now())
        self._sessions[client_id] = session
        return session

    def get_or_create(self, client_id: str) -> tuple[Session, bool]:
        """Return the session of a client id, and whether it was there before."""
        session = self._sessions.get(client_id)
        if session is not None:
            session.expires_at = session.left_at = None
            return session, True
        return self.create(client_id, Window()), False

    def add(self, session: Session) -> None:
        """Put back a session that was on disk."""
        self._sessions[session.client_id] = session

    def leave(self, session: Session, expires_at: float) -> None:
        """Note that the client is gone; the session lasts until then."""
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
        """Tell whether a departure is its session's last, and its client still away."""
        expires_at, _, session = departure
        current = self._sessions.get(session.client_id) is session
        return current and session.expires_at == expires_at

    def delete(self, session: Session) -> bool:
        """End a session, unless another has taken its place."""
        if self._sessions.get(session.client_id) is not session:
            return False
        del self._sessions[session.client_id]
        return True

    def clean_expired(self) -> list[Session]:
        """End and return the sessions whose time is over; costs what it ends."""
        now = self._now()
        ended: list[Session] = []
        while self._leaving and self._leaving[0][0] <= now:
            departure = heappop(self._leaving)
            session = departure[2]
            if self._is_to_end(departure) and self.delete(session):
                ended.append(session)
        return ended
