"""The feature: what happens to values that do not fit their table, as the table says (A15).

``@table(invalid: "drop")`` answers the writer as if all was well, and counts; ``"deadLetter"``
stores the value with the reason, as a message below ``$AUDIT/refused/value``, and answers then.
Neither changes the record or reaches its subscribers. The answer tells a client that asks for it
(``Receipt.unfit``). A patch, and a write of an atomic batch, are refused as everywhere.

Devices that repeat a refused message for ever are the reason: they have no other way to go on.
"""

from typing import Final

from rowcast.codecs import JSON, encode
from rowcast.core.audit_limits import AUDIT_TEXT_CHARS_MAX
from rowcast.core.callers import SERVER
from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.core.memory_limits import DEAD_LETTER_BYTES_MAX
from rowcast.core.tables import Invalid
from rowcast.core.topic_tables import REFUSALS_LEVEL
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel
from rowcast.routes.system_rows import time_text
from rowcast.writes.write import Outcome, Receipt, Write

LEVEL: Final = f"{REFUSALS_LEVEL}/value"
"""The prefix of the topics of dead letters."""
_CONTENT: Final = frozenset({Code.INVALID, Code.UNPROCESSABLE, Code.UNSUPPORTED})
"""Codes of errors in a value."""


class UnfitValues(Feature):
    """Takes over writes whose value does not fit; ``bytes_max`` of each is kept as dead letter."""

    def __init__(self, bytes_max: int = DEAD_LETTER_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kernel: Kernel
        self._now: WallClock
        self.dropped = self.kept = 0
        """Values that were dropped, and stored as dead letters, since the start."""

    def install(self, kernel: Kernel) -> None:
        """Take over refused writes."""
        self._kernel, self._now = kernel, kernel.now
        kernel.writes.take_unfit = self.take
        kernel.figures["messages/unfit/dropped"] = lambda: self.dropped
        kernel.figures["messages/unfit/dead_letters"] = lambda: self.kept

    def take(self, write: Write, error: Error) -> bool:
        """Answer a write whose value does not fit; return False to leave it refused."""
        table = write.event.table
        if (
            table is None
            or table.invalid is Invalid.REJECT
            or error.code not in _CONTENT
            or write.event.kind not in {PUT, MESSAGE}
        ):
            return False
        if table.invalid is Invalid.DROP:
            self.dropped += 1
            self._answer(write)
        else:
            self._bury(write, error)
        return True

    def _bury(self, write: Write, error: Error) -> None:
        """Store a value as dead letter, and then answer."""

        def buried(outcome: Outcome) -> None:
            if isinstance(outcome, Error):
                write.done(outcome)
                return
            self.kept += 1
            self._answer(write)

        letter = Write(self._letter(write.event, error), SERVER, buried)
        try:
            self._kernel.writes.commit_or_announce((letter,))
        except Error as full:
            write.done(full)

    def _answer(self, write: Write) -> None:
        """Give a write its receipt, when the facts that belong to it are stored."""
        table, done = write.event.table, write.done
        receipt = Receipt(write.event, unfit=table.invalid.value if table is not None else "")
        changes = [*write.changes, *(write.conclude(receipt) if write.conclude is not None else ())]
        if changes:
            self._kernel.committer.keep(changes, lambda error: done(error or receipt))
        else:
            done(receipt)

    def _letter(self, event: Event, error: Error) -> Event:
        payload = event.payload[: self._bytes_max]
        content = {
            "at": time_text(self._now()),
            "topic": event.topic,
            "kind": event.kind,
            "client": event.client or None,
            "reason": error.message[:AUDIT_TEXT_CHARS_MAX],
            "content_type": event.content_type,
            "payload": _text_or_bytes(payload),
            "bytes": len(event.payload),
        }
        facts = {name: fact for name, fact in content.items() if fact is not None}
        return Event(f"{LEVEL}/{event.topic}", MESSAGE, encode(facts, JSON), JSON, 1)


def _text_or_bytes(payload: bytes) -> str | bytes:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return payload
