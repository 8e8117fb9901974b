"""Refusals of logins, reads, writes and administration, as messages in the log (L9, L15).

Writes with invalid content, such as a value of a wrong type, are reported there, too. Each write
refused for that reason, or for missing rights, is also a line of the server's output, because
before MQTT 5 its writer gets no error (P5).

They are reported at ``$AUDIT/refused/<what>``, in a separate part of the log, so that they do not
evict audit events. Repeated refusals of one caller are logged a few times, then every ten seconds
with a count (``more``); all together have a rate limit, too (``others``: the number suppressed by
it). Only administrators may read it.
"""

import logging
from typing import Final

from rowcast.codecs import JSON, encode
from rowcast.core.audit_limits import (
    AUDIT_TEXT_CHARS_MAX,
    REFUSALS_KEEP_EVENTS,
    REFUSALS_KEEP_SECONDS,
    REFUSALS_OF_ONE_BURST,
    REFUSALS_OF_ONE_PER_SECOND_MAX,
    REFUSALS_PER_SECOND_MAX,
    REFUSALS_RATED_MAX,
)
from rowcast.core.bounded import BoundedCache
from rowcast.core.callers import SERVER, Caller
from rowcast.core.clock import WallClock
from rowcast.core.errors import UNFIT, Code, Error
from rowcast.core.events import MESSAGE, Event
from rowcast.core.rate_limit import TokenBucket
from rowcast.core.topic_tables import REFUSALS, REFUSALS_LEVEL, TopicRoot, TopicTable
from rowcast.kernel.kernel import Kernel
from rowcast.routes.system_rows import time_text
from rowcast.store.store import Keep
from rowcast.writes.write import FireAndForget, Write

log = logging.getLogger("rowcast.refused")

TABLE: Final = TopicTable(REFUSALS, TopicRoot(REFUSALS_LEVEL))
"""Its part of the log, created at start, and never dropped."""
KEPT: Final = Keep(REFUSALS_KEEP_SECONDS, REFUSALS_KEEP_EVENTS, 0)


class _Refused:
    """A refused caller: its rate, and the number of suppressed refusals."""

    __slots__ = ("_first", "_rate", "more")

    def __init__(self, now: float) -> None:
        self._first = REFUSALS_OF_ONE_BURST
        self._rate = TokenBucket(REFUSALS_OF_ONE_PER_SECOND_MAX, now)
        self.more = 0

    def may_be_told(self, now: float) -> bool:
        """Whether another refusal may be logged now; counts it."""
        if self._first:
            self._first -= 1
            return True
        return self._rate.take_if_room(1, now)


class RefusalLog:
    """The listener for refusals."""

    def __init__(self, kernel: Kernel, now: WallClock) -> None:
        self._kernel = kernel
        self._now = now
        self._rate = TokenBucket(REFUSALS_PER_SECOND_MAX, now())
        self._unfit_rate = TokenBucket(REFUSALS_PER_SECOND_MAX, now())
        self._known: BoundedCache[tuple[str, str], _Refused] = BoundedCache(
            REFUSALS_RATED_MAX, self._forget
        )
        self.unreported = 0
        """The number suppressed by the common rate, or of evicted callers."""
        self._fire_and_forget = FireAndForget(self._fail)

    def __call__(self, caller: Caller, action: str, topic: str, code: str, reason: str) -> None:
        """Log a refusal, or count it."""
        one = self._of(caller, code)
        now = self._now()
        crowded = self._kernel.committer.crowded
        rate = self._unfit_rate if code in UNFIT else self._rate
        if crowded or not (one.may_be_told(now) and rate.take_if_room(1, now)):
            one.more += 1
            return
        entry: dict[str, object] = {
            "at": time_text(now),
            "user": _text(caller.user),
            "door": caller.door,
            "client_id": _text(caller.client_id),
            "peer": caller.peer,
            "action": action,
            "topic": _text(topic),
            "outcome": code,
            "reason": _text(reason),
            "more": one.more,
            "others": self.unreported,
        }
        if code in UNFIT or (code, action) == (Code.DENIED, "write"):
            _log(entry)
        one.more = self.unreported = 0
        facts = {name: fact for name, fact in entry.items() if fact}
        event = Event(f"{REFUSALS_LEVEL}/{action}", MESSAGE, encode(facts, JSON), JSON, 1)
        event.client = _text(caller.client_id or caller.user)
        self._kernel.writes.commit_or_announce((Write(event, SERVER, self._fire_and_forget),))

    def _of(self, caller: Caller, code: str) -> _Refused:
        """Return the entry of a caller: by address if it has not signed in."""
        nobody = code == Code.UNAUTHENTICATED
        kind = "write" if code in UNFIT else ""  # mistakes must not hide attempts
        key = "" if nobody else caller.user, caller.peer if nobody else kind
        return self._known.use(key) or self._known.put(key, _Refused(self._now()))

    def _forget(self, one: _Refused) -> None:
        self.unreported += one.more

    def _fail(self, _error: Error) -> None:
        self.unreported += 1


def _log(entry: dict[str, object]) -> None:
    """Write one line of output, because the writer may have got no error (P5)."""
    who = entry["client_id"] or entry["user"]
    words = f"a write of {who} at {entry['topic']} is refused: {entry['reason']}"
    more = f" ({entry['more']} more of this user since the last line)" if entry["more"] else ""
    log.warning("%s%s", "".join(c if c.isprintable() else "?" for c in words), more)


def _text(text: str) -> str:
    """Return untrusted text, valid in JSON and truncated."""
    return text[:AUDIT_TEXT_CHARS_MAX].encode(errors="replace").decode()
