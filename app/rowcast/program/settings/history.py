"""Settings of history: retention of the log for each table."""

from pydantic import Field

from rowcast.settings.sections import Count, Seconds, Section
from rowcast.store.store import Keep


class HistorySettings(Section):
    """How much of the log is kept; a table's own declaration may ask for longer."""

    keep_seconds: Count = Field(
        default=7 * 24 * 3600, description="Age limit of events, in seconds; 0 means no limit."
    )
    keep_events: Count = Field(
        default=0, description="Events kept of each table; 0 means no limit."
    )
    keep_bytes: Count = Field(
        default=1024**3, description="Payload bytes kept of each table; 0 means no limit."
    )
    sweep_seconds: Seconds = Field(
        default=60,
        description="Interval at which events beyond these limits are deleted, in seconds. "
        "Expired records are deleted when they expire, whatever is set here; they are also "
        "searched for so often.",
    )

    @property
    def keep(self) -> Keep:
        """The default limits of a table."""
        return Keep(self.keep_seconds, self.keep_events, self.keep_bytes)
