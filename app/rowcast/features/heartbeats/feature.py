"""The feature: sends heartbeats with the head of the log on streams of SSE and WebSocket.

A client that gets none for longer than two periods has lost its connection, and should reconnect
from its last cursor. A heartbeat has no ``id``: the head is not what the client has received, so a
browser's Last-Event-ID does not change.
"""

from typing import Final

from rowcast.features.heartbeats.settings import HeartbeatSettings
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel
from rowcast.seams.seams import StreamNotice

NAME: Final = "heartbeat"


class Heartbeats(Feature):
    """Heartbeats every ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def install(self, kernel: Kernel) -> None:
        """Register the notice of streams."""
        notice = StreamNotice(NAME, self._seconds, lambda: {"head": kernel.head})
        kernel.stream_notices.append(notice)


def heartbeats(settings: HeartbeatSettings) -> Heartbeats | None:
    """Return the feature; None if it is disabled."""
    return Heartbeats(settings.seconds) if settings.seconds else None
