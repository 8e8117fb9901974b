"""Settings of the client event log under ``$SYS/events``: whether it is enabled, and retention."""

from pydantic import Field

from rowcast.core.event_limits import EVENTS_KEEP_BYTES, EVENTS_KEEP_EVENTS, EVENTS_KEEP_SECONDS
from rowcast.kernel.settings import Count, Section
from rowcast.store.store import Keep


class ClientEventsSettings(Section):
    """What happened to clients and to the server, as messages."""

    enabled: bool = Field(
        default=True,
        description="Whether it is logged under `$SYS/events` who connects, is refused, subscribes "
        "and leaves.",
    )
    keep_seconds: Count = Field(
        default=EVENTS_KEEP_SECONDS, description="Age to keep of that; 0 means any."
    )
    keep_events: Count = Field(
        default=EVENTS_KEEP_EVENTS, description="Events to keep of it; 0 means any number."
    )
    keep_bytes: Count = Field(
        default=EVENTS_KEEP_BYTES, description="Bytes to keep of it; 0 means any number."
    )

    @property
    def keep(self) -> Keep:
        """The limits of its part of the log."""
        return Keep(self.keep_seconds, self.keep_events, self.keep_bytes)
