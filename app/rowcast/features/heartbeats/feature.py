"""The feature: sends heartbeats with the head of the log on streams of SSE and WebSocket.

A client that hears none for longer than two periods has lost its connection, and connects anew from
its last cursor. A heartbeat carries no ``id``: the head says how far the log is, not what the
client has, so a browser's Last-Event-ID stays where it was.
"""

from typing import Final

from rowcast.features.heartbeats.settings import HeartbeatSettings
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel
from rowcast.kernel.seams import StreamNotice

NAME: Final = "heartbeat"


class Heartbeats(Feature):
    """Heartbeats every ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def install(self, kernel: Kernel) -> None:
        """Have streams send them."""
        notice = StreamNotice(NAME, self._seconds, lambda: {"head": kernel.head})
        kernel.stream_notices.append(notice)


def heartbeats(settings: HeartbeatSettings) -> Heartbeats | None:
    """Return the feature, None where none are to be sent."""
    return Heartbeats(settings.seconds) if settings.seconds else None
