"""A client inside the process: the three verbs without a socket (FEATURES D59).

Code in ``resources/`` gets one with ``server.client(name)``. It is the server's own: it may do
anything, hooks that authorise are not asked, and it does not hear what it said itself unless it
asks to, so that a rule which writes where it watches does not run round for ever.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from app.codecs import JSON, encode
from app.core.callers import ALL, Caller
from app.core.errors import Code, Error
from app.core.events import DELETE, MESSAGE, PUT, Event
from app.core.limits import STREAM_ITEMS_MAX
from app.core.topics import TopicFilter
from app.engine.watch.interests import Interest
from app.engine.watch.subscription import Subscription

if TYPE_CHECKING:
    from app.engine.engine import Engine


class LocalClient:
    """A client by name; usable from the moment the server has started."""

    def __init__(self, name: str) -> None:
        self._caller = Caller("$server", ALL, "server", client_id=name)
        self._engine: Engine | None = None

    def bind(self, engine: "Engine") -> None:
        """Give it the engine that it works on."""
        self._engine = engine

    @property
    def engine(self) -> "Engine":
        """The engine; raises BUSY before the server has started."""
        if self._engine is None:
            raise Error(Code.BUSY, "the server has not started yet; use the client in a function")
        return self._engine

    async def publish(
        self, topic: str, value: object, *, retain: bool = False, qos: int = 1
    ) -> str | None:
        """Say something at a topic; with ``retain`` it is the record, None removes that.

        Bytes go as they are, any other value as JSON. Returns the cursor when it is on disk, None
        for what is not logged. Raises what the engine refuses.
        """
        kind = MESSAGE if not retain else DELETE if value is None else PUT
        plain = isinstance(value, bytes)
        payload = b"" if kind == DELETE else value if isinstance(value, bytes) else _json(value)
        media_type = None if plain or kind == DELETE else JSON
        event = Event(topic, kind, payload, media_type, qos, retain, client=self._caller.client_id)
        receipt = await self.engine.write(event, self._caller)
        return self.engine.cursor(receipt.event.seq) if receipt.event.seq else None

    async def get(self, topic: str) -> object:
        """Return the value of the record at a topic; None when there is none."""
        return await self.engine.read_value(topic, self._caller, None)

    def value(self, event: Event) -> object:
        """Return the value of an event: decoded, of its table's types; text or bytes if plain."""
        return self.engine.contents.value(event)

    async def watch(
        self, *filters: str, since: str | None = None, current: bool = True, echo: bool = False
    ) -> AsyncIterator[Event]:
        """Yield what happens at topics, for ever: the current records first, then every event.

        ``since`` is a cursor to continue after. ``echo``: also what this client says itself. Marks
        (core/events.py) come as events without a topic.
        """
        engine = self.engine
        subscription = Subscription(engine.reader, self._caller.client_id)
        try:
            for text in filters:
                interest = Interest(TopicFilter(text), 2, no_local=not echo)
                engine.watch(subscription, interest, self._caller, since, current=current)
            while pairs := await subscription.batch(STREAM_ITEMS_MAX):
                for event, _ in pairs:
                    yield event
        finally:
            engine.close(subscription)


def _json(value: object) -> bytes:
    return encode(value, JSON)
