"""Sessions: what a client keeps between its packets, and the table of them.

A session is its subscriptions (one live cursor), its window of messages in flight, and who is
connected. It ends with its connection, because a clean session is all that is offered yet; the
server says so in CONNACK (Session Expiry Interval 0, MQTT 5, 3.2.2.3.2).
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from app.engine.subscription import Subscription
from app.mqtt.window import Window

if TYPE_CHECKING:
    from app.broker.client import Client


class Session:
    """One client's state: ``subscription`` is its filters and place in the log.

    Times are in seconds since 1970; ``expires_at`` is None while connected.
    """

    __slots__ = (
        "client",
        "client_id",
        "created_at",
        "expires_at",
        "reliable",
        "subscription",
        "window",
    )

    def __init__(
        self, client_id: str, subscription: Subscription, window: Window, created_at: float
    ) -> None:
        self.client_id = client_id
        self.subscription = subscription
        self.window = window
        self.created_at = created_at
        self.expires_at: float | None = None
        self.client: Client | None = None
        self.reliable = 0
        """How many filters were granted QoS 1: with none of them nothing waits for the window."""

    @property
    def pending(self) -> int:
        """How many messages wait in memory or are in flight."""
        return self.subscription.waiting + len(self.window)


class Sessions:
    """All sessions by client id (FEATURES D26)."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._sessions: dict[str, Session] = {}
        self._leaving: list[tuple[float, int, Session]] = []
        """A heap of when sessions end; one whose client came back is skipped in its turn."""
        self._departures = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def get(self, client_id: str) -> Session | None:
        """Return the session of a client id."""
        return self._sessions.get(client_id)

    def create(self, client_id: str, subscription: Subscription, window: Window) -> Session:
        """Make a new session in the place of any other of the same client id."""
        session = Session(client_id, subscription, window, self._now())
        self._sessions[client_id] = session
        return session

    def get_or_create(
        self, client_id: str, subscription: Callable[[], Subscription], window: Window
    ) -> tuple[Session, bool]:
        """Return the session of a client id, and whether it was there before."""
        session = self._sessions.get(client_id)
        if session is not None:
            session.expires_at = None
            return session, True
        return self.create(client_id, subscription(), window), False

    def leave(self, session: Session, expiry_seconds: float) -> None:
        """Note that the client is gone; the session lasts this much longer."""
        session.client = None
        session.expires_at = self._now() + expiry_seconds
        self._departures += 1  # sessions are not compared
        heappush(self._leaving, (session.expires_at, self._departures, session))

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
            expires_at, _, session = heappop(self._leaving)
            if session.expires_at == expires_at and self.delete(session):
                ended.append(session)
        return ended
