"""Settings of heartbeats."""

from typing import Final

from pydantic import Field

from rowcast.settings.sections import SecondsOrZero, Section


class HeartbeatSettings(Section):
    """Events that show that a stream lives."""

    seconds: SecondsOrZero = Field(
        default=0,
        description="Interval of `heartbeat` events, which carry the newest cursor of the log, on "
        "each SSE and WebSocket stream, in seconds; 0 sends none.",
    )


SECTIONS: Final = {"heartbeats": HeartbeatSettings}
