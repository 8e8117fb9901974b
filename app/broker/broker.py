"""The broker: knows who is connected, shares what clients share, and publishes wills.

It holds no message and no filter: those are the engine's. What it adds to a connection is a
session, a caller and a form.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.broker.forms import Forms
from app.broker.messages import event_of_will
from app.broker.session import Sessions
from app.broker.settings import BrokerSettings
from app.core.limits import MQTT_CLOSE_SECONDS
from app.engine.engine import Engine
from app.mqtt.reasons import Reason

if TYPE_CHECKING:
    from app.broker.client import Client

log = logging.getLogger("rowcast.mqtt")


class Broker:
    """Clients, their sessions, and the forms of their messages. Its numbers are plain counts."""

    def __init__(self, engine: Engine, settings: BrokerSettings, now: Callable[[], float]) -> None:
        self.engine = engine
        self.settings = settings
        self.now = now
        self.loop = asyncio.get_running_loop()
        self.forms = Forms(engine.contents, engine.cursor)
        self.sessions = Sessions(now)
        self.topics: dict[bytes, str] = {}
        """Topics by their bytes, shared by all connections."""
        self.clients: set[Client] = set()
        self._emptied = asyncio.Event()
        self._stopping = False
        self.connections = 0
        """Connections ever."""
        self.takeovers = 0
        """Connections ended by another one of the same client id."""
        self.stalled = 0
        """Connections cut off because their peer read nothing."""
        self.refusals = 0
        """Publishes and wills that were refused."""
        self.dropped_large = 0
        """Messages over a client's Maximum Packet Size."""
        self.expired = 0
        """Messages whose time was over before they could be sent."""
        self.received = self.sent = 0
        """Packets from, and messages to, the connections that are gone."""

    @property
    def full(self) -> bool:
        """Whether no further connection is taken (FEATURES D6)."""
        most = self.settings.connections_max
        return self._stopping or (bool(most) and len(self.clients) >= most)

    def admit(self, client: "Client") -> None:
        """Note a new connection, before its CONNECT."""
        self.clients.add(client)
        self.connections += 1

    def leave(self, client: "Client") -> None:
        """End the session of a client that is going or gone; publish its will (MQTT-3.1.2-8)."""
        session = client.session
        if session is None:
            return
        client.session = None
        self.engine.close(session.subscription)
        if session.client is client:
            self.sessions.leave(session, expiry_seconds=0)
            self.sessions.clean_expired()
        will, caller = client.will, client.caller
        if will is not None and caller is not None:
            client.will = None
            self.engine.submit(event_of_will(will, caller.client_id), caller, client.unheard)

    def gone(self, client: "Client") -> None:
        """Forget a closed connection."""
        if client in self.clients:
            self.clients.discard(client)
            self.received += client.received
            self.sent += client.sent
        if not self.clients:
            self._emptied.set()

    async def stop(self) -> None:
        """Tell every client that the server goes down, and wait until all are gone (D5).

        Their wills are published: the connections end, and the clients did not wish it
        (MQTT-3.1.2-8).
        """
        self._stopping = True
        self._emptied.clear()
        for client in list(self.clients):
            client.disconnect(Reason.SERVER_SHUTTING_DOWN, "the server is shutting down")
        if not self.clients:
            return
        try:  # each client cuts its transport itself when the peer does not take the end
            await asyncio.wait_for(self._emptied.wait(), 2 * MQTT_CLOSE_SECONDS)
        except TimeoutError:
            log.warning("%d connections did not end in time", len(self.clients))
