"""Audit: administrative actions with user, time and door, as messages in a part of the log (L15).

A write below ``$SYS`` changes the server and is no record, so it is reported at ``$AUDIT/<topic>``:
the user, the verb, the names of the given members without their values, and the outcome. Only
administrators may read it. No action is aggregated or left out, because administrators are few. The
writer of a record is stored with its event (``_user``).
"""

import logging
from typing import Final

from rowcast.codecs import JSON, encode
from rowcast.core.audit_limits import (
    AUDIT_KEEP_EVENTS,
    AUDIT_KEEP_SECONDS,
    AUDIT_MEMBERS_MAX,
    AUDIT_TEXT_CHARS_MAX,
)
from rowcast.core.callers import SERVER, Caller
from rowcast.core.clock import WallClock
from rowcast.core.errors import Error
from rowcast.core.events import MESSAGE, Event
from rowcast.core.topic_tables import AUDIT, AUDIT_LEVEL, TopicRoot, TopicTable
from rowcast.core.topics import RESULTS, TRANSACTIONS
from rowcast.kernel.kernel import Kernel
from rowcast.routes.system_rows import time_text
from rowcast.store.store import Keep
from rowcast.writes.write import FireAndForget, Write

log = logging.getLogger("rowcast.audit")

TABLE: Final = TopicTable(AUDIT, TopicRoot(AUDIT_LEVEL))
"""Its part of the log, created at start, and never dropped."""
KEPT: Final = Keep(AUDIT_KEEP_SECONDS, AUDIT_KEEP_EVENTS, 0)


class Audit:
    """The listener for administrative actions."""

    def __init__(self, kernel: Kernel, now: WallClock) -> None:
        self._kernel = kernel
        self._now = now
        self._refused = FireAndForget(self._fail)

    def __call__(
        self, caller: Caller, action: str, topic: str, value: object, error: Error | None
    ) -> None:
        """Log an action or its refusal."""
        if topic in {RESULTS, TRANSACTIONS} or topic.startswith(f"{RESULTS}/"):
            # open to every writer
            return
        entry = {
            "at": time_text(self._now()),
            "user": caller.user,
            "door": caller.door,
            "client_id": caller.client_id or None,
            "peer": caller.peer,
            "action": action,
            "topic": topic[:AUDIT_TEXT_CHARS_MAX],
            "members": _members(value),
            "outcome": "done" if error is None else str(error.code),
            "reason": None if error is None else error.message[:AUDIT_TEXT_CHARS_MAX],
        }
        facts = {name: fact for name, fact in entry.items() if fact is not None}
        below = topic.removeprefix("$SYS/")[:AUDIT_TEXT_CHARS_MAX]
        event = Event(f"{AUDIT_LEVEL}/{below}", MESSAGE, encode(facts, JSON), JSON, 1)
        event.client = caller.client_id or caller.user
        self._kernel.writes.commit_or_announce((Write(event, SERVER, self._refused),))

    def _fail(self, error: Error) -> None:
        log.error("what was administered could not be written down: %s", error.message)


def _members(value: object) -> list[str] | None:
    """Return the names of the given members; values may be secrets."""
    if not isinstance(value, dict):
        return None
    names = [str(name)[:AUDIT_TEXT_CHARS_MAX] for name in value]
    return names[:AUDIT_MEMBERS_MAX]
