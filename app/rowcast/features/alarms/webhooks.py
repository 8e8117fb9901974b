"""Webhooks of alarms: each change of an alarm is posted to a configured URL, at least once.

What is to be posted is a fact that is stored in the transaction of the change, and removed when the
receiver has accepted it. The calls of one webhook are made in order, one at a time. A failed call
is repeated, after four times as long each time; a notification whose calls have all failed becomes
a dead letter, a row of ``$SYS/alarm_deliveries``, which an operator sends again or discards.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from rowcast.codecs import CBOR, JSON, decode, encode
from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.webhook_limits import (
    WEBHOOK_ATTEMPTS_MAX,
    WEBHOOK_BACKOFF_FACTOR,
    WEBHOOK_BACKOFF_SECONDS,
    WEBHOOK_BACKOFF_SECONDS_MAX,
    WEBHOOK_DEAD_MAX,
    WEBHOOK_WAITING_MAX,
)
from rowcast.features.alarms.alarm_facts import alarm_facts
from rowcast.features.alarms.alarm_states import Entry
from rowcast.features.alarms.state_machine import Transition
from rowcast.net.webhook_call import CallError
from rowcast.net.webhook_signature import signed_headers
from rowcast.routes.system_rows import time_text
from rowcast.seams.seams import Facts, RowChanged
from rowcast.store.store import Change
from rowcast.writes.commit import Committer

log = logging.getLogger("rowcast.alarms")

OWNER: Final = "alarms/calls"
DEFAULT: Final = "default"
"""The name of the webhook of alarms that name none."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A configured receiver."""

    url: str
    secret: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One notification on its way."""

    id: str
    webhook: str
    body: bytes
    created: float
    """In seconds since 1970."""
    attempts: int = 0
    problem: str = ""
    """Why the last call failed."""
    dead: bool = False

    @property
    def change(self) -> Change:
        """The fact of it."""
        facts = [self.webhook, self.body, self.created, self.attempts, self.problem, self.dead]
        return Change(OWNER, self.id, encode(facts, CBOR))

    def row(self) -> dict[str, object]:
        """Return its row; the URL is not for readers."""
        return {
            "id": self.id,
            "webhook": self.webhook,
            "state": "dead" if self.dead else "waiting",
            "attempts": self.attempts,
            "problem": self.problem or None,
            "created": time_text(self.created),
            "body": decode(self.body, JSON),
        }


Post = Callable[[str, Mapping[str, str], bytes], Awaitable[None]]
"""Posts a body to a URL with headers, off the loop; raises CallError."""


class Webhooks:
    """The notifications of one server."""

    def __init__(
        self,
        receivers: Mapping[str, Webhook],
        post: Post,
        now: WallClock,
        committer: Committer,
        waiting_max: int = WEBHOOK_WAITING_MAX,
        dead_max: int = WEBHOOK_DEAD_MAX,
    ) -> None:
        self._receivers = receivers
        self._post = post
        self._now = now
        self._committer = committer
        self._waiting_max = waiting_max
        self._dead_max = dead_max
        self._calls: dict[str, Call] = {}
        """All of them by id, the oldest first."""
        self._dead = 0
        self._number = 0
        self._awake = {name: asyncio.Event() for name in receivers}
        self.changed: RowChanged = lambda _name, _happened="": None
        self.delivered = self.failed = self.dropped = 0
        """Accepted notifications, failed calls, and dead letters that made room for others."""

    @property
    def waiting(self) -> int:
        """How many notifications wait."""
        return len(self._calls) - self._dead

    @property
    def dead(self) -> int:
        """How many dead letters there are."""
        return self._dead

    # -- new ones ----------------------------------------------------------------------------------

    def plan(self, entries: Sequence[Entry]) -> list[Call]:
        """Return the notifications of changes, to be stored with them; ``add`` sends them."""
        calls: list[Call] = []
        for entry in entries:
            name = entry.rule.webhook or DEFAULT
            if entry.happened in {None, Transition.REMOVED} or name not in self._receivers:
                continue
            self._number += 1
            calls.append(Call(f"{int(self._now() * 1000):014d}-{self._number:06d}", name,
                              _body(entry), self._now()))  # fmt: skip
        return calls

    def add(self, calls: Sequence[Call]) -> None:
        """Send stored notifications."""
        for call in calls:
            if not self._has_room(call.webhook):
                why = f"{self.waiting} notifications were waiting already"
                self._bury(replace(call, problem=why))
                continue
            self._calls[call.id] = call
            self._wake(call)

    def _has_room(self, webhook: str) -> bool:
        """Whether a further notification may wait: each webhook has a share of its own.

        So one that takes nothing, or is configured no more, leaves room for those of the others.
        """
        if self.waiting < self._waiting_max:
            return True
        own = sum(it.webhook == webhook and not it.dead for it in self._calls.values())
        return own < self._waiting_max // len(self._receivers)

    def restore(self, facts: Facts) -> None:
        """Restore stored notifications."""
        for owner, name, value in facts:
            if owner == OWNER:
                call = _call_of(name, value)
                self._calls[name] = call
                self._dead += call.dead

    def _wake(self, call: Call) -> None:
        self.changed(call.id)
        awake = self._awake.get(call.webhook)
        if awake is not None:
            awake.set()

    # -- sending -----------------------------------------------------------------------------------

    async def send(self, webhook: str) -> None:
        """Send the notifications of one webhook, in order, for ever."""
        awake = self._awake[webhook]
        while True:
            awake.clear()
            call = self._next(webhook)
            if call is None:
                await awake.wait()
            else:
                await self._send(call)

    def _next(self, webhook: str) -> Call | None:
        for call in self._calls.values():
            if call.webhook == webhook and not call.dead:
                return call
        return None

    async def _send(self, call: Call) -> None:
        """Make one call, and wait after a failure."""
        receiver, at = self._receivers[call.webhook], int(self._now())
        headers = signed_headers(receiver.secret, call.id, at, call.body)
        try:
            await self._post(receiver.url, headers, call.body)
        except CallError as failure:
            self.failed += 1
            call = replace(call, attempts=call.attempts + 1, problem=str(failure))
        else:
            self.delivered += 1
            if self._calls.pop(call.id, None) is not None:
                self._committer.keep((Change(OWNER, call.id, None),))
                self.changed(call.id)
            return
        if call.id not in self._calls:  # discarded meanwhile
            return
        if call.attempts >= WEBHOOK_ATTEMPTS_MAX:
            self._bury(call)
            return
        self._calls[call.id] = call
        self.changed(call.id)
        await self._pause(call.attempts)

    async def _pause(self, attempts: int) -> None:
        seconds = WEBHOOK_BACKOFF_SECONDS * WEBHOOK_BACKOFF_FACTOR ** (attempts - 1)
        await asyncio.sleep(min(seconds, WEBHOOK_BACKOFF_SECONDS_MAX))

    def _bury(self, call: Call) -> None:
        """Make a notification a dead letter; the oldest one makes room."""
        log.error("webhook %s did not take %s: %s", call.webhook, call.id, call.problem)
        if self._dead >= self._dead_max:
            self.dropped += 1
            self._forget(next(item for item in self._calls.values() if item.dead))
        call = replace(call, dead=True)
        self._calls[call.id] = call
        self._dead += 1
        self._committer.keep((call.change,))
        self.changed(call.id)

    def _forget(self, call: Call) -> None:
        del self._calls[call.id]
        self._dead -= call.dead
        self._committer.keep((Change(OWNER, call.id, None),))
        self.changed(call.id)

    # -- rows --------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the ids of all notifications, the oldest first."""
        return list(self._calls)

    def get(self, name: str) -> Call | None:
        """Return a notification."""
        return self._calls.get(name)

    def again(self, name: str) -> None:
        """Send a dead letter again; raises NOT_FOUND."""
        call = self._calls.get(name)
        if call is None or not call.dead:
            raise Error(Code.NOT_FOUND, f"there is no dead letter {name!r}")
        call = replace(call, attempts=0, problem="", dead=False)
        self._calls[name] = call
        self._dead -= 1
        self._committer.keep((call.change,))
        self._wake(call)

    def discard(self, name: str) -> None:
        """Discard a notification; raises NOT_FOUND."""
        call = self._calls.get(name)
        if call is None:
            raise Error(Code.NOT_FOUND, f"there is no notification {name!r}")
        self._forget(call)


def _body(entry: Entry) -> bytes:
    """Return what is posted: type, time and data, as Standard Webhooks recommends."""
    happened = cast("Transition", entry.happened).value
    data = {**alarm_facts(entry), "user": entry.user or None}
    return encode(
        {"type": f"alarm.{happened}", "timestamp": time_text(entry.at), "data": data}, JSON
    )


def _call_of(name: str, value: bytes) -> Call:
    webhook, body, created, attempts, problem, dead = cast("list[object]", decode(value, CBOR))
    return Call(
        name,
        str(webhook),
        cast("bytes", body),
        cast("float", created),
        cast("int", attempts),
        str(problem),
        bool(dead),
    )
