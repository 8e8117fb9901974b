"""Settings of the list of slow subscriptions."""

from typing import Annotated, Final, Literal

from pydantic import Field

from rowcast.core.slow_limits import SLOW_EXPIRE_SECONDS, SLOW_THRESHOLD_MS, SLOW_TOP, SLOW_TOP_MAX
from rowcast.features.slow_subscribers.slow_subscribers import Measure, SlowSettings
from rowcast.settings.sections import CountFromOne, Number, Seconds, Section


class SlowSection(Section):
    """Who is given messages late, as rows of ``$SYS/slow_subscriptions``."""

    top: Annotated[Number, Field(ge=0, le=SLOW_TOP_MAX)] = Field(
        default=SLOW_TOP,
        description="Length of the list, at most 1,000; 0 disables the measurement.",
    )
    threshold_ms: CountFromOne = Field(
        default=SLOW_THRESHOLD_MS,
        description="Latency from which a delivery is slow, in milliseconds.",
    )
    measure: Literal["whole", "internal", "response"] = Field(
        default="whole",
        description="`whole`: from a message's arrival to its acknowledgement (QoS 0, SSE, "
        "WebSocket: to the write); `internal`: to the write; `response`: from the write to the "
        "acknowledgement.",
    )
    expire_seconds: Seconds = Field(
        default=SLOW_EXPIRE_SECONDS,
        description="Time after its last slow delivery for which an entry stays, in seconds.",
    )

    @property
    def settings(self) -> SlowSettings:
        """What the list works with."""
        measure = Measure(self.measure)
        return SlowSettings(measure, self.threshold_ms, self.top, self.expire_seconds)


SECTIONS: Final = {"slow_subscriptions": SlowSection}
