"""Inbound messages of a bridge, over a separate connection (H33).

The broker keeps this connection's session while the bridge is disconnected, so QoS 1 and 2 messages
arrive later. It keeps its subscriptions too, so the filters of earlier settings are unsubscribed.
The connection is separate because the sending one must start a new session each time: gmqtt would
reuse identifiers of an older connection's flights.

A message is acknowledged when it is durable here. When the disk refuses it, the connection is
closed without an acknowledgement, and the broker sends it again; an invalid message is acknowledged
and counted, because a retry would fail, too.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.gateway_limits import GATEWAY_SESSION_SECONDS
from rowcast.features.bridges.link import Link
from rowcast.features.bridges.messages import event_of
from rowcast.features.bridges.plan import Plan
from rowcast.features.bridges.remote import Remote
from rowcast.features.bridges.state import change_of_filters
from rowcast.kernel.kernel import Kernel

_OURS: Final = frozenset({Code.BUSY, Code.INTERNAL})
"""Errors of the server, not of the message: a retry may succeed."""


class InboundBridge:
    """The inbound connection of one bridge."""

    def __init__(
        self,
        plan: Plan,
        kernel: Kernel,
        lost: Callable[[str], None],
        note: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._kernel = kernel
        self._lost = lost
        self._note = note
        self._link: Link | None = None
        self._writer = f"$gateway/{plan.name}"
        self._caller = Caller(self._writer, ALL, "gateway", client_id=self._writer)
        """The caller of inbound messages: hooks apply, and the server's own topics are closed."""
        self.received = self.refused = 0
        self.known: tuple[str, ...] = ()
        """The filters that the session at the broker has, maybe of earlier settings."""

    async def open(self, remote: Remote) -> None:
        """Connect and subscribe, if there are inbound routes; raises BUSY with the reason.

        What earlier settings have subscribed to is unsubscribed, because the session has it still.
        """
        routes = self._plan.into
        if not routes and not self.known:
            return
        own = replace(remote, client_id=f"{remote.client_id}-in")
        self._link = Link(own, self._lost)
        filters = [(route.way + route.topics.text, route.qos) for route in routes]
        wanted = tuple(text for text, _ in filters)
        gone = tuple(text for text in self.known if text not in wanted)
        self._know((*wanted, *gone))
        await self._link.open(self._receive, filters, GATEWAY_SESSION_SECONDS, self._note)
        if gone:
            self._link.unsubscribe(gone, lambda: self._know(wanted))

    def _know(self, filters: tuple[str, ...]) -> None:
        """Keep which filters the session has, for the next settings."""
        if set(filters) != set(self.known):
            self._kernel.committer.keep((change_of_filters(self._plan.name, filters),))
        self.known = filters

    async def close(self) -> None:
        """Close the connection; the broker keeps the session."""
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def _receive(
        self, topic: str, payload: bytes, qos: int, properties: dict[str, Any]
    ) -> bool:
        """Write a message; return whether to acknowledge it."""
        route = next((item for item in self._plan.into if item.topics.matches(topic)), None)
        if route is None:  # of an earlier plan
            return True
        epoch = self._kernel.reader.epoch
        try:
            event = event_of(route.topic(topic), payload, qos, properties, self._writer, epoch)
            if event is not None:
                await self._kernel.write(event, self._caller)
                self.received += 1
        except Error as error:
            self.refused += 1
            self._note(f"a message at {topic!r} was refused here: {error.message}")
            return error.code not in _OURS
        return True
