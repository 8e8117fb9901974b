"""Settings of heartbeats."""

from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from rowcast.core.limits import CONFIG_SECONDS_MAX
from rowcast.settings.sections import Section, not_a_switch

Period = Annotated[float, BeforeValidator(not_a_switch), Field(ge=0, le=CONFIG_SECONDS_MAX)]


class HeartbeatSettings(Section):
    """Events that show that a stream lives."""

    seconds: Period = Field(
        default=0,
        description="Interval of `heartbeat` events, which carry the newest cursor of the log, on "
        "each SSE and WebSocket stream, in seconds; 0 sends none.",
    )


SECTIONS: Final = {"heartbeats": HeartbeatSettings}
