"""Telling what happens to connections and sessions: to hooks, to listeners, to readers of rows.

The kernel tells of everything that is written, watched and read; here is only what no other door
has: connections that begin with a packet, sessions that outlive them, and the filters of both.
"""

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from rowcast.core.callers import NONE, Caller
from rowcast.doors.mqtt.packets.messages import DOOR
from rowcast.doors.mqtt.sessions.session import Session
from rowcast.kernel.kernel import Kernel
from rowcast.mqtt.packets import Connect
from rowcast.mqtt.reasons import Reason

SESSIONS: Final = "$SYS/sessions"
"""Where the rows of sessions are."""
SUBSCRIPTIONS: Final = "$SYS/subscriptions"
"""Where the rows of their filters are."""


class Observers:
    """Everybody who hears what happens at this door; ``now`` is in seconds since 1970."""

    def __init__(self, kernel: Kernel, now: Callable[[], float]) -> None:
        self._kernel = kernel
        self._listeners = kernel.listeners.mqtt
        self._now = now

    # -- connections -------------------------------------------------------------------------------

    def came(self, peer: str) -> None:
        """Notify of a new connection, not authenticated yet (G17)."""
        hooks = self._kernel.hooks
        if hooks.hears_connections:
            hooks.connection(Caller("anonymous", NONE, DOOR, peer=peer))

    def refused(self, peer: str, packet: Connect, reason: Reason, message: str) -> None:
        """Tell that a connection from a peer was not let in (O6)."""
        caller = Caller(packet.username or "anonymous", NONE, DOOR, packet.client_id, peer)
        self._kernel.listeners.notify("refused", caller, reason=message, code=int(reason))

    def entered(self, session: Session | None, caller: Caller, *, present: bool) -> None:
        """Notify of an accepted client, and its new or resumed session (G3, G9)."""
        hooks = self._kernel.hooks
        for listener in self._listeners:
            listener.on_connect(caller.client_id)
        if session is not None:
            if not present:
                self.session_changed(session, "registered")
            self.session_changed(session, "connected")
        (hooks.session_resumed if present else hooks.session_created)(caller)
        hooks.connected(caller)

    def left(self, caller: Caller, close_reason: str) -> None:
        """Notify of the end of an accepted client; no ``close_reason``: it sent DISCONNECT."""
        for listener in self._listeners:
            listener.on_disconnect(caller.client_id)
        self._kernel.hooks.disconnected(caller, close_reason or None)

    # -- sessions ----------------------------------------------------------------------------------

    def session_changed(self, session: Session, happened: str) -> None:
        """Tell who watches the rows of sessions what happened to one (E15)."""
        session.happened = happened
        self._kernel.live.changed(SESSIONS, session.client_id, happened)

    def session_restored(self, session: Session) -> None:
        """Notify of the subscriptions of a restored session."""
        for text in _filters(session):
            self.subscribed(session.client_id, text)

    def session_ended(self, session: Session) -> None:
        """Notify of the end of a session and its subscriptions (G9, G18, X5)."""
        hooks = self._kernel.hooks
        caller = Caller(session.user, NONE, DOOR, session.client_id)
        for interest in session.interests:
            hooks.unsubscribed(caller, interest.topics.text)
        if session.sharing is not None:
            for share, _ in session.sharing.shares.values():
                hooks.unsubscribed(caller, share.topics.text)
        if session.left_at is not None:  # otherwise its connection closes with it, and notifies
            seconds = round(self._now() - session.left_at)
            hooks.listeners.notify("session_ended", caller, away_seconds=seconds)
        hooks.session_ended(session.client_id)
        for text in _filters(session):
            self.unsubscribed(session.client_id, text)
        for listener in self._listeners:
            listener.changed()
        self.session_changed(session, "ended")

    # -- their filters -----------------------------------------------------------------------------

    def subscribed(self, client_id: str, text: str) -> None:
        """Notify of a new filter."""
        for listener in self._listeners:
            listener.on_subscribe(client_id, text)

    def unsubscribed(self, client_id: str, text: str) -> None:
        """Notify of a removed filter."""
        for listener in self._listeners:
            listener.on_unsubscribe(client_id, text)
        self.subscription_changed(client_id, text)

    def subscription_changed(self, client_id: str, text: str) -> None:
        """Tell who watches the rows of subscriptions that one began, is another now, or ended."""
        live = self._kernel.live
        if live.watched(SUBSCRIPTIONS):
            live.changed(SUBSCRIPTIONS, client_id_and_filter(client_id, text))


def client_id_and_filter(client_id: str, text: str) -> str:
    """Return the id of a subscription's row: both parts are written as in a URL."""
    return f"{quote(client_id, safe='')}/{quote(text, safe='$/')}"


def _filters(session: Session) -> list[str]:
    """Return the filters of a session; shared ones with their prefix."""
    shares = session.sharing.shares if session.sharing is not None else ()
    return [*(interest.topics.text for interest in session.interests), *shares]
