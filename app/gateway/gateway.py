"""The gateway: all bridges, and what is shown of them.

Each bridge is for itself: one that is down, misconfigured or refused does not touch the others, nor
a local write (FEATURES H23, H38). What they are doing is readable under ``$SYS/brokers`` and told
under ``$SYS/gateway/<bridge>`` whenever it changes.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from app.codecs import JSON, encode
from app.core.callers import SERVER
from app.core.clock import WallClock
from app.core.events import PUT, Event
from app.core.limits import GATEWAY_STATUS_SECONDS
from app.engine.engine import Engine
from app.engine.system_rows import SystemRows
from app.gateway.bridge import Bridge
from app.gateway.letters import ROOT
from app.gateway.plan import Plan
from app.gateway.state import saved_in

log = logging.getLogger("rowcast.gateway")

PATH = "$SYS/brokers"
Facts = dict[str, object]


class Gateway:
    """The bridges of one server."""

    def __init__(self, engine: Engine, plans: Sequence[Plan], now: WallClock) -> None:
        self._engine = engine
        bridges = [Bridge(plan, engine, now) for plan in plans]
        self.bridges: Mapping[str, Bridge] = {bridge.plan.name: bridge for bridge in bridges}
        self._told: dict[str, object] = {}
        self._task: asyncio.Task[None] | None = None
        engine.registry.add(PATH, _rows(self))

    def start(self, facts: Sequence[tuple[str, str, bytes]]) -> None:
        """Begin all bridges where they left off; ``facts`` are those of owners ``gateway/``."""
        saved = saved_in(facts)
        for name, bridge in self.bridges.items():
            bridge.start(saved.get(name))
        if self.bridges:
            self._task = asyncio.create_task(self._tell())

    async def stop(self) -> None:
        """End all bridges; what they have not delivered is sent the next time."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        await asyncio.gather(*(bridge.stop() for bridge in self.bridges.values()))

    async def _tell(self) -> None:
        """Publish what has changed of each bridge, once in a while."""
        while True:
            for name in self.bridges:
                for field, value in status(self, name).items():
                    topic = f"{ROOT}/{name}/{field}"
                    if field not in _CONSTANT and self._told.get(topic, _UNTOLD) != value:
                        self._told[topic] = value
                        payload = encode(value, JSON)
                        self._engine.submit(Event(topic, PUT, payload, JSON, 1, True), SERVER)
            await asyncio.sleep(GATEWAY_STATUS_SECONDS)


_UNTOLD = object()
_CONSTANT = frozenset({"broker_name", "host", "port"})


def status(gateway: Gateway, name: str) -> Facts:
    """Return what a bridge is doing: the ten fields of the source's ``mqtt_status``, and more."""
    bridge = gateway.bridges[name]
    outbox = bridge.outbox
    return {
        "broker_name": name,
        "host": bridge.plan.remote.host,
        "port": bridge.plan.remote.port,
        "connected": bridge.connected,
        "delivery_mode": bridge.mode,
        "messages_sent": bridge.sent,
        "messages_failed": bridge.failed,
        "dead_lettered": bridge.dead,
        "outbox_pending": len(outbox),
        "last_error": bridge.last_error,
        "outbox_retrying": outbox.retrying,
        "lag_events": bridge.lag,
        "messages_received": bridge.received,
        "messages_dropped": bridge.dropped,
    }


def _rows(gateway: Gateway) -> type[SystemRows]:
    """Return the resource class that reads the bridges."""

    class BridgeRows(SystemRows):
        """One row for each bridge."""

        path = PATH

        def names(self) -> Sequence[str]:
            return list(gateway.bridges)

        def row(self, name: str, *, whole: bool) -> Facts | None:  # noqa: ARG002 - it is short
            return status(gateway, name) if name in gateway.bridges else None

    return BridgeRows
