"""Wills of WebSocket clients: what is written when a connection is lost (C21).

A will is a fact on disk before its client is answered. It is removed in the same transaction that
writes it, so a killed server writes it after its restart, and not twice. A client that closes its
connection normally takes its will with it.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final
from uuid import uuid4

from rowcast.codecs import CBOR, decode, encode
from rowcast.core.callers import Caller, caller_facts, caller_of
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.core.facts import Change
from rowcast.core.limits import WILL_RETRY_SECONDS
from rowcast.kernel.kernel import Kernel
from rowcast.routes.registry import VERB_OF_KIND
from rowcast.writes.write import Outcome, Write, resolver

log = logging.getLogger("rowcast.wills")

OWNER: Final = "websocket_wills"
"""The owner of their facts."""


class WebSocketWills:
    """The wills of open connections, each under a key of its own."""

    def __init__(self, kernel: Kernel, retry_seconds: float = WILL_RETRY_SECONDS) -> None:
        self._kernel = kernel
        self._retry_seconds = retry_seconds
        self._facts: dict[str, bytes] = {}
        self.stopping = False
        """Whether nothing is tried again: what is stored is written after the next start."""

    def __len__(self) -> int:
        return len(self._facts)

    def restore(self, facts: Iterable[tuple[str, str, bytes]]) -> None:
        """Take the wills of connections that ended with an earlier run."""
        self._facts = {name: value for _, name, value in facts}

    def write_all(self) -> None:
        """Write them: nobody is connected yet."""
        for key in list(self._facts):
            self.lost(key)

    def judge(self, event: Event, caller: Caller) -> None:
        """Raise the Error that would refuse the will if it was written now.

        Nobody could be told later. Not of the server's own topics, nor of a class, which decides
        when it is written.
        """
        topic = event.topic
        route = self._kernel.registry.route(topic)
        if topic[0] != "$" and not route.overrides(VERB_OF_KIND[event.kind]):
            copy = _event_of(_stored(event, caller))
            self._kernel.writes.admit(Write(copy, caller, passed=True))

    async def put(self, key: str, event: Event, caller: Caller) -> str:
        """Store the will of a connection, in place of the one under its key; return the key.

        Without a key, it gets one. Raises BUSY when the disk does not take it; then the connection
        has the will that it had.
        """
        key = key or uuid4().hex
        value = encode(_stored(event, caller), CBOR)
        try:
            await self._keep(Change(OWNER, key, value))
        except asyncio.CancelledError:  # the connection ended before it was answered
            self._store_again(key)
            raise
        self._facts[key] = value
        return key

    async def remove(self, key: str) -> None:
        """Remove the will of a connection that goes on; raises BUSY."""
        await self._keep(Change(OWNER, key, None))
        self._facts.pop(key, None)

    async def _keep(self, change: Change) -> None:
        future: asyncio.Future[Error | None] = asyncio.get_running_loop().create_future()
        self._kernel.committer.keep((change,), resolver(future))
        error = await future
        if error is not None:
            raise error

    def closed(self, key: str) -> None:
        """Remove the will of a connection that was closed normally; try until that is stored."""
        self._facts.pop(key, None)
        self._store_again(key)

    def _store_again(self, key: str) -> None:
        """Store the will that a connection has by now, or that it has none, in place of another."""

        def done(error: Error | None) -> None:
            if error is not None and not self.stopping:
                loop = asyncio.get_running_loop()
                loop.call_later(self._retry_seconds, self._store_again, key)

        self._kernel.committer.keep((Change(OWNER, key, self._facts.get(key)),), done)

    def lost(self, key: str) -> None:
        """Write the will of a connection that was lost."""
        value = self._facts.pop(key, None)
        if value is not None:
            self._write(key, value)

    def _write(self, key: str, value: bytes) -> None:
        facts: Any = decode(value, CBOR)
        event, caller = _event_of(facts), caller_of(facts["caller"], "ws", facts["client"])

        def done(outcome: Outcome) -> None:
            if not isinstance(outcome, Error):
                return
            if outcome.code is not Code.BUSY:  # it will not be taken later, either
                log.warning("the will of %s is not written: %s", caller.user, outcome.message)
                self.closed(key)
            elif not self.stopping:
                loop = asyncio.get_running_loop()
                loop.call_later(self._retry_seconds, self._write, key, value)

        try:
            caller = self._kernel.reauthorization.writer(caller)
        except Error as error:  # disabled or removed since
            self._kernel.listeners.refused(caller, "write", event.topic, error)
            done(error)
            return
        self._kernel.submit(event, caller, done, None, (Change(OWNER, key, None),))


def _stored(event: Event, caller: Caller) -> dict[str, object]:
    return {
        "topic": event.topic,
        "retain": event.kind == PUT,
        "payload": event.payload,
        "content_type": event.content_type,
        "client": caller.client_id,
        "caller": caller_facts(caller),
    }


def _event_of(facts: dict[str, Any]) -> Event:
    kind = PUT if facts["retain"] else MESSAGE
    client = facts["client"] or facts["caller"]["user"]
    return Event(
        facts["topic"], kind, facts["payload"], facts["content_type"], 1, facts["retain"],
        client=client,
    )  # fmt: skip
