"""A client inside the process: the three verbs without a socket (D59).

Code in ``resources/`` gets one with ``server.client(name)``. It has all rights of the server: hooks
that authorise do not apply. By default it does not receive its own writes, so that code that writes
to a topic that it watches does not loop.
"""

from collections.abc import AsyncIterator, Mapping, Sequence

from rowcast.codecs import JSON, encode
from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.event_mistakes import mistake_in
from rowcast.core.events import DELETE, MESSAGE, PUT, Event
from rowcast.core.limits import STREAM_ITEMS_MAX
from rowcast.core.marked_calls import mark_if_called
from rowcast.core.topics import BROKERS, GATEWAY_PREFIX, TopicFilter, check_topic
from rowcast.kernel.kernel import Kernel
from rowcast.subscriptions.subscribed_filters import SubscribedFilter
from rowcast.subscriptions.subscription import Subscription
from rowcast.writes.write import Outcome, Receipt


class LocalClient:
    """A client by name; usable from the moment the server has started."""

    def __init__(self, name: str) -> None:
        self._caller = Caller("$server", ALL, "server", client_id=name)
        self._kernel: Kernel | None = None

    def bind(self, kernel: Kernel) -> None:
        """Set its kernel."""
        self._kernel = kernel

    @property
    def kernel(self) -> Kernel:
        """The kernel; raises BUSY before the server has started."""
        if self._kernel is None:
            raise Error(Code.BUSY, "the server has not started yet; use the client in a function")
        return self._kernel

    async def publish(
        self, topic: str, value: object, *, retain: bool = False, qos: int = 1, broker: str = ""
    ) -> str | None:
        """Publish to a topic; with ``retain`` as its record; None deletes the record.

        Bytes are sent unchanged, other values as JSON. ``broker``: only forwarded by the bridge of
        that name, and only logged here. Returns the cursor when it is durable; None if it is not
        logged. Raises the kernel's Error.
        """
        event = await self._event(topic, value, retain, qos, broker)
        mark_if_called(event)
        receipt = await self.kernel.write(event, self._caller)
        return self._cursor(receipt)

    async def publish_json(
        self, topic: str, value: object, *, retain: bool = False, qos: int = 1, broker: str = ""
    ) -> str | None:
        """Publish any value as JSON: None is ``null``, and bytes are refused."""
        event = await self._event(topic, _json(value), retain, qos, broker)
        event.content_type = JSON
        mark_if_called(event)
        receipt = await self.kernel.write(event, self._caller)
        return self._cursor(receipt)

    async def publish_batch(
        self,
        prefix: str,
        payloads: Mapping[str, object] | Sequence[object],
        *,
        retain: bool = False,
        qos: int = 1,
        broker: str = "",
    ) -> list[str | None]:
        """Publish all or none: a map's values at ``<prefix>/<key>``, a list's at ``prefix``.

        Raises the first Error.
        """
        each = (
            [(f"{prefix}/{key}", value) for key, value in payloads.items()]
            if isinstance(payloads, Mapping)
            else [(prefix, value) for value in payloads]
        )
        events = [await self._event(topic, value, retain, qos, broker) for topic, value in each]
        return await self._write_all(events) if events else []

    async def _write_all(self, events: list[Event]) -> list[str | None]:
        """Write all or none."""
        mark_if_called(*events)
        outcomes = await self.kernel.write_all(events, self._caller, atomic=True)
        _raise_any(outcomes)
        return [self._cursor(outcome) for outcome in outcomes if isinstance(outcome, Receipt)]

    async def _event(self, topic: str, value: object, retain: bool, qos: int, broker: str) -> Event:
        """Return the event of a value.

        Raises NOT_FOUND for an unknown broker, INVALID for what no event has, such as a QoS of 3.
        """
        kind = MESSAGE if not retain else DELETE if value is None else PUT
        if broker:
            topic, kind = await self._there(topic, broker), MESSAGE
        empty = retain and value is None
        payload = b"" if empty else value if isinstance(value, bytes) else _json(value)
        media_type = None if empty or isinstance(value, bytes) else JSON
        name = self._caller.client_id
        event = Event(topic, kind, payload, media_type, qos, retain, client=name)
        if mistake := mistake_in(event):
            raise Error(Code.INVALID, mistake)
        return event

    async def _there(self, topic: str, broker: str) -> str:
        """Return the topic of messages for a single broker."""
        check_topic(topic)
        brokers = self.kernel.resource(f"{BROKERS}/{broker}", self._caller)
        if brokers is None or await brokers.get() is None:
            raise Error(
                Code.NOT_FOUND,
                f"there is no broker {broker!r}; it needs a row in {BROKERS}, or a place in "
                "gateway.brokers of the configuration",
            )
        return f"{GATEWAY_PREFIX}{broker}/{topic}"

    def _cursor(self, receipt: Receipt) -> str | None:
        return self.kernel.cursor(receipt.event.seq) if receipt.event.seq else None

    async def get(self, topic: str) -> object:
        """Return the value of the record at a topic; None when there is none."""
        return await self.kernel.read_value(topic, self._caller, None)

    def value(self, event: Event) -> object:
        """Return the value of an event: decoded, of its table's types; text or bytes if plain."""
        return self.kernel.transcoder.value(event)

    async def watch(
        self, *filters: str, since: str | None = None, current: bool = True, echo: bool = False
    ) -> AsyncIterator[Event]:
        """Yield events at topics without end: the current records first, then every event.

        ``since`` is a cursor to continue after. ``echo``: include this client's own writes. Marks
        (core/events.py) are events without a topic.
        """
        kernel = self.kernel
        subscription = Subscription(kernel.reader, self._caller.client_id)
        try:
            for text in filters:
                interest = SubscribedFilter(TopicFilter(text), 2, no_local=not echo)
                kernel.watch(subscription, interest, self._caller, since, current=current)
            while pairs := await subscription.batch(STREAM_ITEMS_MAX):
                for event, _ in pairs:
                    yield event
        finally:
            kernel.close(subscription)


def _raise_any(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, Error):
            raise outcome


def _json(value: object) -> bytes:
    return encode(value, JSON)
