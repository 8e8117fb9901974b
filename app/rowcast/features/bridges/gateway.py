"""The gateway: all bridges, configured or created at run time.

Bridges are independent: one that is down, misconfigured or refused does not affect the others, nor
local writes (H23, H38). Their status is readable under ``$SYS/brokers`` and published under
``$SYS/gateway/<bridge>`` on each change.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, cast

from rowcast.codecs import JSON, decode, encode
from rowcast.core.callers import SERVER
from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.gateway_limits import GATEWAY_LAG_SECONDS_HIGH, GATEWAY_STATUS_SECONDS
from rowcast.features.bridges.bridge import Bridge
from rowcast.features.bridges.dead_letters import (
    ROOT,
    Facts,
    ends_of_letter,
    event_in,
    facts_of,
    letters_of,
    topic_of_letter,
)
from rowcast.features.bridges.plan import Plan
from rowcast.features.bridges.rows import broker_rows, letter_rows
from rowcast.features.bridges.state import OWNER, SETTINGS, filters_in, saved_in
from rowcast.features.bridges.summaries import summaries
from rowcast.kernel.kernel import Kernel
from rowcast.store.store import Change

log = logging.getLogger("rowcast.features.bridges")

_UNPUBLISHED = object()
_CONSTANT = frozenset({"broker_name", "host", "port", "configured", "outbox"})


class Gateway:
    """The bridges of one server."""

    def __init__(
        self,
        kernel: Kernel,
        plans: Sequence[Plan],
        make: Callable[[dict[str, Any]], Plan],
        now: WallClock,
    ) -> None:
        self._kernel = kernel
        self._make = make
        """Builds a plan from a broker's section of the configuration; raises INVALID."""
        self._now = now
        self._fixed = {plan.name for plan in plans}
        self.bridges = {plan.name: Bridge(plan, kernel, now) for plan in plans}
        self._published: dict[str, object] = {}
        self._task: asyncio.Task[None] | None = None
        kernel.rows(broker_rows(self).path or "", broker_rows(self))
        for rows in (letter_rows(self), *summaries(self)):
            kernel.rows(rows.path or "", rows)

    def start(self, facts: Sequence[tuple[str, str, bytes]]) -> None:
        """Start all bridges at their saved positions; ``facts`` have owners ``gateway/``."""
        for owner, name, value in facts:
            broker = owner.removeprefix(OWNER)
            if name == SETTINGS and broker not in self.bridges:
                try:
                    settings = cast("dict[str, Any]", decode(value, JSON))
                    plan = self._make(settings | {"name": broker})
                except (Error, TypeError) as mistake:
                    log.warning("the bridge %s cannot be made again: %s", broker, mistake)
                else:
                    self.bridges[broker] = Bridge(plan, self._kernel, self._now)
        saved = saved_in(facts)
        filters = filters_in(facts)
        for name, bridge in self.bridges.items():
            bridge.inlet.known = filters.get(name, ())
            bridge.start(saved.get(name))
        self._task = asyncio.create_task(self._publish_status())

    async def stop(self) -> None:
        """Stop all bridges; undelivered events are sent after the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        await asyncio.gather(*(bridge.stop() for bridge in self.bridges.values()))

    # -- at run time -------------------------------------------------------------------------------

    async def change(self, name: str, settings: dict[str, Any]) -> None:
        """Create or change a bridge, keeping its backlog (H2)."""
        self._check_changeable(name)
        plan = self._make(settings | {"name": name})
        old = self.bridges.pop(name, None)
        saved = None
        if old is not None:
            await old.stop()
            saved = old.saved
        self._keep(Change(OWNER + name, SETTINGS, encode(settings, JSON)))
        bridge = self.bridges[name] = Bridge(plan, self._kernel, self._now)
        if old is not None:
            bridge.inlet.known = old.inlet.known
        bridge.start(saved)

    async def remove(self, name: str) -> None:
        """Remove a bridge; raises NOT_FOUND."""
        self._check_changeable(name)
        await self._bridge(name).stop()
        del self.bridges[name]
        self._keep(Change(OWNER + name, "", None))
        for topic in [topic for topic in self._published if topic.startswith(f"{ROOT}/{name}/")]:
            del self._published[topic]
            self._kernel.submit(Event(topic, DELETE, b"", None, 1, True), SERVER)

    def _check_changeable(self, name: str) -> None:
        if name in self._fixed:
            raise Error(
                Code.CONFLICT, f"the broker {name} is in the configuration file; change it there"
            )

    def _keep(self, change: Change) -> None:
        self._kernel.committer.keep((change,))

    def _bridge(self, name: str) -> Bridge:
        try:
            return self.bridges[name]
        except KeyError:
            known = ", ".join(sorted(self.bridges)) or "none"
            raise Error(Code.NOT_FOUND, f"there is no broker {name!r}; known: {known}") from None

    # -- dead letters ------------------------------------------------------------------------------

    async def letter(self, name: str, seq: int) -> Facts | None:
        """Return the content of a dead letter."""
        record = await self._kernel.reader.get(None, topic_of_letter(name, seq))
        return None if record is None else facts_of(record)

    async def replay(self, name: str, seq: int, changes: Facts) -> None:
        """Send a dead letter again, with changed members; it is removed when delivered (H15).

        Raises NOT_FOUND when the letter or the bridge does not exist.
        """
        bridge = self._bridge(name)
        facts = await self.letter(name, seq)
        if facts is None:
            raise Error(Code.NOT_FOUND, f"the broker {name} has no dead letter {seq}")
        if "payload" in changes:
            changes = {"payload_encoding": "text"} | changes
        facts |= changes | {"id": seq, "broker": name}
        payload = None
        if facts.get("payload_encoding") == "apart":
            kept = await self._kernel.reader.get(None, topic_of_letter(name, seq) + "/payload")
            payload = kept.payload if kept is not None else b""
        bridge.replay(event_in(facts, payload))

    async def replay_oldest(self, name: str, limit: int) -> int:
        """Send the oldest dead letters of a bridge again; return how many."""
        self._bridge(name)
        page = await self._kernel.reader.scan(None, letters_of(name), "", limit)
        numbers = sorted(int(record.topic.rpartition("/")[2]) for record in page.records)
        for seq in numbers:
            await self.replay(name, seq, {})
        return len(numbers)

    async def discard(self, name: str, seq: int) -> None:
        """Remove a dead letter; raises NOT_FOUND."""
        if await self.letter(name, seq) is None:
            raise Error(Code.NOT_FOUND, f"the broker {name} has no dead letter {seq}")
        await self._kernel.write_all(ends_of_letter(name, seq), SERVER, atomic=False)

    # -- status ------------------------------------------------------------------------------------

    def status(self, name: str) -> Facts | None:
        """Return a bridge's status: ten fields of its state, and its counters."""
        bridge = self.bridges.get(name)
        if bridge is None:
            return None
        outbox, waits = bridge.outbox, bridge.waits
        items = list(outbox)
        numbers = (*(item.seq for item in items), *bridge.backlog.numbers)
        return {
            "broker_name": name,
            "host": bridge.plan.remote.host,
            "port": bridge.plan.remote.port,
            "connected": bridge.connected,
            "delivery_mode": bridge.mode,
            "messages_sent": bridge.sent,
            "messages_failed": bridge.failed + bridge.inlet.refused,
            "dead_lettered": bridge.dead,
            "outbox_pending": len(outbox) + bridge.backlog.events,
            "last_error": bridge.last_error,
            "outbox_retrying": outbox.retrying,
            "lag_events": bridge.lag,
            "lag_seconds": self.lag_seconds(bridge),
            "messages_received": bridge.inlet.received,
            "messages_dropped": bridge.dropped + bridge.backlog.dropped,
            "configured": name in self._fixed,
            "outbox": {
                "pending": len(items) + bridge.backlog.events,
                "waiting_bytes": waits.size_bytes + bridge.backlog.size_bytes,
                "growth_per_second": round(bridge.backlog.growth, 1),
                "full_in_seconds": bridge.backlog.full_in_seconds(waits, self._now()),
                "retrying": outbox.retrying,
                "max_attempts_seen": max((item.attempts for item in items), default=0),
                "oldest": min(numbers, default=None),
                "newest": max(numbers, default=None),
            },
        }

    def lag_seconds(self, bridge: Bridge) -> float:
        """Return the age of a bridge's oldest undelivered event."""
        since = bridge.backlog.oldest(bridge.waits)
        return 0.0 if since is None else round(max(0.0, self._now() - since), 3)

    async def _publish_status(self) -> None:
        """Publish changes of each bridge's status, at intervals."""
        while True:
            for name, bridge in self.bridges.items():
                self._report_dropped(bridge)
                facts = self.status(name) or {}
                facts["alarm"] = self.lag_seconds(bridge) > GATEWAY_LAG_SECONDS_HIGH  # H37
                for field, value in facts.items():
                    topic = f"{ROOT}/{name}/{field}"
                    if field not in _CONSTANT and self._published.get(topic, _UNPUBLISHED) != value:
                        self._published[topic] = value
                        payload = encode(value, JSON)
                        self._kernel.submit(Event(topic, PUT, payload, JSON, 1, True), SERVER)
            await asyncio.sleep(GATEWAY_STATUS_SECONDS)

    def _report_dropped(self, bridge: Bridge) -> None:
        """Drop events that are too old, and report drops since the last time (H24)."""
        backlog, name = bridge.backlog, bridge.plan.name
        backlog.expire(self._now())
        backlog.look(bridge.waits, GATEWAY_STATUS_SECONDS, self._now())
        lost = backlog.take_dropped()
        if lost is None:
            return
        cursor = self._kernel.cursor
        facts = {"events": lost.events, "from": cursor(lost.first), "to": cursor(lost.last),
                 "cap": lost.why, "in_all": backlog.dropped}  # fmt: skip
        log.warning(
            "the bridge %s dropped %d events from %s to %s: %s", name, lost.events,
            facts["from"], facts["to"], lost.why,
        )  # fmt: skip
        topic = f"{ROOT}/{name}/dropped"
        self._published[topic] = facts
        self._kernel.submit(Event(topic, PUT, encode(facts, JSON), JSON, 1, True), SERVER)
