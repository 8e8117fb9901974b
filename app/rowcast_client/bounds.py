"""Bounds of one socket: what it buffers, and how long it waits."""

from dataclasses import dataclass
from typing import Final

from rowcast.core.limits import CLIENT_ANSWER_SECONDS
from rowcast.core.python_client_limits import (
    CLIENT_COMMANDS_MAX,
    CLIENT_PAUSE_SECONDS,
    CLIENT_PING_SECONDS,
    CLIENT_QUEUE_BYTES_MAX,
    CLIENT_QUEUE_EVENTS_MAX,
    CLIENT_SNAPSHOT_BYTES_MAX,
)


@dataclass(frozen=True, slots=True)
class SocketBounds:
    """Bounds of one socket; the reasons are in ``rowcast/core/python_client_limits.py``."""

    answer_seconds: float = CLIENT_ANSWER_SECONDS
    """How long a command waits for its answer, over lost connections too."""
    commands: int = CLIENT_COMMANDS_MAX
    """Commands without an answer; further ones wait for their turn."""
    queue_events: int = CLIENT_QUEUE_EVENTS_MAX
    """Events of one subscription that wait for their reader; further ones stay in the log."""
    queue_bytes: int = CLIENT_QUEUE_BYTES_MAX
    """The bytes of these."""
    snapshot_bytes: int = CLIENT_SNAPSHOT_BYTES_MAX
    """The bytes of current records that wait while answers behind them are waited for."""
    pause_seconds: float = CLIENT_PAUSE_SECONDS
    """How long current records that wait keep the connection from being read."""
    ping_seconds: float = CLIENT_PING_SECONDS
    """Interval of pings, and the time for their answers."""


USUAL: Final = SocketBounds()
