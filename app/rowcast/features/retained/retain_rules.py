"""Retention rules for retained messages at undeclared topics.

They are the settings ``retainer.*`` (E17 to E20): size, number, rate and expiry. A violation is
refused with an Error, on every door; no message is accepted and then not stored. Tables follow
their own declarations, and the server's own topics (``$``) are exempt.
"""

from dataclasses import dataclass

from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, EXPIRY, RETAINED, Event, Record
from rowcast.core.rate_limit import TokenBucket
from rowcast.reads.store_reader import count_server_records
from rowcast.routes.registry import Route
from rowcast.store.store import Records
from rowcast.writes.write import Step, Write


@dataclass(frozen=True, slots=True)
class RetainRules:
    """The rules; 0: no limit of that kind."""

    enabled: bool = True
    expiry_seconds: float = 0
    """The default expiry."""
    expiry_override_seconds: float = 0
    """The maximum expiry."""
    allow_never_expire: bool = True
    """Whether messages without an expiry are exempt from that."""
    payload_bytes_max: int = 0
    messages_max: int = 0
    publish_rate: float = 0
    """Retained messages per second, of all writers together."""


class Retaining:
    """Enforces the rules."""

    def __init__(self, rules: RetainRules, now: WallClock, store: Records) -> None:
        self.rules = rules
        self._limits = rules != RetainRules()
        self._now = now
        self._bucket = TokenBucket(rules.publish_rate, now()) if rules.publish_rate else None
        self._quota = Quota(rules.messages_max, store) if rules.messages_max else None

    def step(self, route: Route) -> Step | None:
        """Return the step that checks retained messages at an undeclared topic.

        It raises NOT_ALLOWED, TOO_LARGE or BUSY.
        """
        if route.shape is not None or route.topic[0] == "$" or not self._limits:
            return None
        return self._admit

    def _admit(self, write: Write) -> None:
        event = write.event
        if event.kind not in RETAINED:
            return
        if event.kind != DELETE:
            self._check(event)
            event.expires_at = self._expiry(event)
        if self._quota is not None:
            write.check(self._quota.check)
            write.on_writer_thread = True

    def _check(self, event: Event) -> None:
        rules = self.rules
        if not rules.enabled:
            raise Error(
                Code.NOT_ALLOWED,
                f"{event.topic!r} keeps no message: retainer.enabled is false; send it without the "
                "retain flag (over HTTP: POST with ?retain=false), or declare a table",
                allow=["GET", "HEAD", "POST", "DELETE", "OPTIONS"],
            )
        if 0 < rules.payload_bytes_max < len(event.payload):
            raise Error(
                Code.TOO_LARGE,
                f"a retained message has room for {rules.payload_bytes_max} bytes "
                f"(retainer.max_payload_size), not {len(event.payload)}",
            )
        if self._bucket is not None and not self._bucket.take_if_room(1, self._now()):
            raise Error(
                Code.BUSY,
                f"more than {rules.publish_rate:g} retained messages in a second "
                "(retainer.max_publish_rate); try again in a second",
                retry_after_seconds=1,
            )

    def _expiry(self, event: Event) -> float:
        """Return the message's expiry time; 0: never.

        The writer's expiry overrides the default, and 0 means never; the maximum overrides both if
        it is shorter (E17).
        """
        rules = self.rules
        own = (event.properties or {}).get(EXPIRY)
        seconds = own if isinstance(own, int) else rules.expiry_seconds
        override = rules.expiry_override_seconds
        if override and (seconds or not rules.allow_never_expire):
            seconds = min(seconds or override, override)
        return self._now() + seconds if seconds else 0.0


class Quota:
    """The maximum number of messages, exact although the tables are behind the log.

    What is not in the tables is counted as if each event were a new message. Only when there is no
    room by that count is the exact one asked for, which waits for the tables, and leaves out the
    server's own messages. So its writes are decided apart from the event loop.
    """

    __slots__ = ("_added", "_is_exact", "_most", "_room", "_store", "_transaction")

    def __init__(self, most: int, store: Records) -> None:
        self._most = most
        self._store = store
        self._transaction: object = None
        self._room = 0
        """The remaining number before this transaction, at least."""
        self._is_exact = False
        self._added = 0
        """By this transaction."""

    def check(self, write: Write, record: Record | None, transaction: object) -> int:
        """Count a write being decided; raises TOO_LARGE for a new message beyond the limit.

        ``transaction`` is any object unique to it.
        """
        event, store = write.event, self._store
        if transaction is not self._transaction:
            self._transaction, self._added, self._is_exact = transaction, 0, False
            self._room = self._most - store.figures(None).records - store.lag().events
        if event.kind == DELETE:
            self._added -= record is not None
        elif record is None:
            if self._room <= self._added and not self._is_exact:
                self._room = self._most - store.count(None) + count_server_records(store)
                self._is_exact = True
            if self._room <= self._added:
                raise Error(
                    Code.TOO_LARGE,
                    f"there are {self._most} retained messages already "
                    f"(retainer.max_retained_messages), so {event.topic!r} gets none; delete some",
                )
            self._added += 1
        return 0
