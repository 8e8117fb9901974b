"""Log output: one line for each record, as text or as JSON; repeated lines are throttled (O15).

A flood of clients must not cause a flood of lines, nor fill the log's disk. Suppressed lines are
counted, and the count is logged with the next such line, or when the interval ends.
"""

import logging
import sys
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, Literal, TextIO

import orjson

from rowcast.core.overload_limits import (
    LOG_SAME_CHARS_MAX,
    LOG_SAME_LINES,
    LOG_SAME_SECONDS,
    LOG_SAME_SENTENCES_MAX,
)

CLIENT_FAULTS: Final = frozenset(
    {
        "Invalid HTTP request received.",
        "Invalid UTF-8 sequence received from client.",
        "ASGI callable returned without completing handshake.",  # a refused WebSocket
    }
)
"""Mistakes of clients that uvicorn reports as failures of the server."""


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: dict[str, object] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        left_out = getattr(record, "left_out", 0)
        if left_out:
            fields["left_out"] = left_out
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(fields).decode()


class Said:
    """The count of one message within its interval."""

    __slots__ = ("_level", "_name", "_words", "count", "left_out", "since")

    def __init__(self, record: logging.LogRecord) -> None:
        self.since = record.created
        self._name, self._level = record.name, record.levelno
        self._words = record.getMessage()[:LOG_SAME_CHARS_MAX]
        self.count = self.left_out = 0

    def more(self) -> logging.LogRecord:
        """Return the record with the number of suppressed lines."""
        words, arguments = "and %d more in %d s like: %s", (self.left_out, LOG_SAME_SECONDS)
        more = logging.LogRecord(
            self._name, self._level, "", 0, words, (*arguments, self._words), None
        )
        more.left_out = self.left_out
        return more


class LogThrottle:
    """Limits equal messages per interval; messages are compared by format string, not arguments.

    The time is taken from the records.
    """

    def __init__(self) -> None:
        self._said: OrderedDict[tuple[str, int, str], Said] = OrderedDict()

    def judge(self, record: logging.LogRecord) -> Iterator[logging.LogRecord]:
        """Yield records to write: counts of ended intervals, and this one unless suppressed."""
        yield from self._over(record.created)
        key = record.name, record.levelno, str(record.msg)
        said = self._said.get(key)
        if said is None:
            if len(self._said) >= LOG_SAME_SENTENCES_MAX:
                yield from self._forget()
            said = self._said[key] = Said(record)
        said.count += 1
        if said.count <= LOG_SAME_LINES:
            yield record
        else:
            said.left_out += 1

    def rest(self) -> Iterator[logging.LogRecord]:
        """Yield the remaining counts, at shutdown."""
        while self._said:
            yield from self._forget()

    def _over(self, now: float) -> Iterator[logging.LogRecord]:
        while self._said:
            first = next(iter(self._said.values()))
            if 0 <= now - first.since < LOG_SAME_SECONDS:
                return
            yield from self._forget()

    def _forget(self) -> Iterator[logging.LogRecord]:
        _, said = self._said.popitem(last=False)
        if said.left_out:
            yield said.more()


class Output(logging.StreamHandler[TextIO]):
    """Standard error, throttled."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self._throttle = LogThrottle()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it."""
        for line in self._throttle.judge(record):
            super().emit(line)

    def close(self) -> None:
        """Log the remaining counts."""
        for line in self._throttle.rest():
            super().emit(line)
        super().close()


class ClientFaults(logging.Filter):
    """Lowers mistakes of clients to level INFO, without a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change such a record; whether it is written at its new level."""
        if record.msg not in CLIENT_FAULTS:
            return True
        record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
        record.exc_info = None
        return logging.getLogger().isEnabledFor(logging.INFO)


def configure_logging(level: str, form: Literal["text", "json"]) -> None:
    """Write records of this level and above to standard error."""
    handler = Output()
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Bridges log refusals and lost connections once themselves; gmqtt logs each.
    logging.getLogger("gmqtt").setLevel(logging.CRITICAL)
    uvicorn = logging.getLogger("uvicorn.error")
    uvicorn.setLevel(logging.WARNING)
    uvicorn.filters[:] = [ClientFaults()]
