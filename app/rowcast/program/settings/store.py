"""Settings of the store: the database, the log, and how far the tables may be behind it."""

from typing import Annotated, Literal

from pydantic import Field

from rowcast.core.archive_limits import ARCHIVE_CACHE_BYTES, ARCHIVE_CACHE_BYTES_MIN
from rowcast.core.limits import CONFIG_NUMBER_MAX
from rowcast.core.read_limits import QUERY_SECONDS
from rowcast.journal.tail import LAG_EVENTS, LAG_SECONDS, Tail
from rowcast.program.settings.snapshots import StoreOrNone
from rowcast.settings.sections import Count, Number, Seconds, SecondsOrZero, Section


class Store(Section):
    """Where records and the log are kept."""

    url: str = Field(
        default="",
        description="URL of the database; by default a SQLite file in the data directory.",
    )
    query_timeout: SecondsOrZero = Field(
        default=QUERY_SECONDS,
        description="Time limit of one query, or of one page of a streamed list, in seconds; "
        "beyond it the query fails with `busy`. 0 means no limit.",
    )


class Log(Section):
    """The log, and how far the tables may be behind it."""

    qos0: Literal["behind", "before"] = Field(
        default="behind",
        description="When an MQTT message of QoS 0 that is not retained is stored: `behind` its "
        "delivery, so that a crash may take the last milliseconds of such messages from the "
        "history, or `before` it.",
    )
    lag_seconds: Seconds = Field(
        default=LAG_SECONDS,
        description="How far the tables may be behind the log before writers wait, in seconds: "
        "those with many writes on their way at once, the others after a second. Queries and "
        "lists wait as long for what was just written.",
    )
    lag_events: Annotated[Number, Field(ge=1, le=CONFIG_NUMBER_MAX)] = Field(
        default=LAG_EVENTS,
        description="The same in events; they are in memory until the tables have them.",
    )

    archive: bool = Field(
        default=False,
        description="Whether events are written to Parquet files, below `archive` in the data "
        "directory, before they are deleted from the log, and read there ever after.",
    )
    archive_days: Count = Field(
        default=0,
        description="Age limit of archived events, in days; files are deleted when all that is "
        "in them is older. 0 means no limit.",
    )

    archive_location: StoreOrNone = Field(
        default=None,
        description="Place of these files in an object store, such as `s3://bucket/prefix`, "
        "instead of the data directory, which has a cache of them then.",
    )
    archive_cache_bytes: Annotated[
        Number, Field(ge=ARCHIVE_CACHE_BYTES_MIN, le=CONFIG_NUMBER_MAX)
    ] = Field(
        default=ARCHIVE_CACHE_BYTES,
        description="Files of `log.archive_location` that are kept on this disk, in bytes; at "
        "least 268435456.",
    )

    @property
    def tail(self) -> Tail:
        """A tail with these bounds."""
        return Tail(self.lag_seconds, self.lag_events)
