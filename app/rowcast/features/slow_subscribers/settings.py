"""Settings of the list of slow subscriptions."""

from typing import Annotated, Final, Literal

from pydantic import Field

from rowcast.core.slow_limits import SLOW_EXPIRE_SECONDS, SLOW_THRESHOLD_MS, SLOW_TOP, SLOW_TOP_MAX
from rowcast.features.slow_subscribers.slow_subscribers import Measure, SlowSettings
from rowcast.kernel.settings import Number, Seconds, Section


class SlowSection(Section):
    """Who is given messages late, as rows of ``$SYS/slow_subscriptions``."""

    top: Annotated[Number, Field(ge=0, le=SLOW_TOP_MAX)] = Field(
        default=SLOW_TOP,
        description="Entries of `$SYS/slow_subscriptions`, the slowest readers and topics, at most "
        "1,000; 0 measures nothing.",
    )
    threshold_ms: Annotated[Number, Field(ge=1)] = Field(
        default=SLOW_THRESHOLD_MS,
        description="Milliseconds from which on a delivery is slow.",
    )
    measure: Literal["whole", "internal", "response"] = Field(
        default="whole",
        description="From when to when: `whole` from a message's arrival until it is acknowledged "
        "(QoS 0, SSE, WebSocket: written), `internal` until it is written, `response` from then "
        "until it is acknowledged.",
    )
    expire_seconds: Seconds = Field(
        default=SLOW_EXPIRE_SECONDS,
        description="How long an entry stays when it was not slow again.",
    )

    @property
    def settings(self) -> SlowSettings:
        """What the list works with."""
        measure = Measure(self.measure)
        return SlowSettings(measure, self.threshold_ms, self.top, self.expire_seconds)


SECTIONS: Final = {"slow_subscriptions": SlowSection}
