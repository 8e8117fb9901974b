"""Log output: one line for each record, as text or as JSON."""

import logging
import sys
from typing import Final, Literal

import orjson

CLIENT_FAULTS: Final = frozenset(
    {
        "Invalid HTTP request received.",
        "Invalid UTF-8 sequence received from client.",
        "ASGI callable returned without completing handshake.",  # a WebSocket that was refused
    }
)
"""What uvicorn reports as failures of the server though a client made the mistake."""


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
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(fields).decode()


class ClientFaults(logging.Filter):
    """Tells a client's mistake as information, without a traceback: it is no alarm."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change such a record; whether it is written at its new level."""
        if record.msg not in CLIENT_FAULTS:
            return True
        record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
        record.exc_info = None
        return logging.getLogger().isEnabledFor(logging.INFO)


def configure_logging(level: str, form: Literal["text", "json"]) -> None:
    """Write records of this level and above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Bridges tell once, in their own words, what gmqtt says of each refusal and lost connection.
    logging.getLogger("gmqtt").setLevel(logging.CRITICAL)
    uvicorn = logging.getLogger("uvicorn.error")
    uvicorn.setLevel(logging.WARNING)
    uvicorn.filters[:] = [ClientFaults()]
