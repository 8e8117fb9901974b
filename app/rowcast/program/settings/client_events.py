"""Settings of the client event log under ``$SYS/events``: whether it is enabled, and retention."""

from pydantic import Field

from rowcast.core.event_limits import EVENTS_KEEP_BYTES, EVENTS_KEEP_EVENTS, EVENTS_KEEP_SECONDS
from rowcast.settings.sections import Count, Section
from rowcast.store.store import Keep


class ClientEventsSettings(Section):
    """What happened to clients and to the server, as messages."""

    enabled: bool = Field(
        default=True,
        description="Whether connections, refusals, subscriptions and disconnects are logged at "
        "`$SYS/events`.",
    )
    keep_seconds: Count = Field(
        default=EVENTS_KEEP_SECONDS,
        description="Age limit of client events, in seconds; 0 means no limit.",
    )
    keep_events: Count = Field(
        default=EVENTS_KEEP_EVENTS, description="Client events kept; 0 means no limit."
    )
    keep_bytes: Count = Field(
        default=EVENTS_KEEP_BYTES, description="Bytes of client events kept; 0 means no limit."
    )

    @property
    def keep(self) -> Keep:
        """The limits of its part of the log."""
        return Keep(self.keep_seconds, self.keep_events, self.keep_bytes)
