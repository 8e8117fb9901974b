"""Settings of memory: pending writes, the record cache, and what waits for slow readers."""

from typing import Annotated

from pydantic import Field

from rowcast.core.memory_limits import (
    COMMIT_BACKLOG_BYTES_HIGH,
    COMMIT_BATCH_BYTES_MAX,
    COMMIT_CLIENT_BYTES_HIGH,
    RECORD_CACHE_BYTES_MAX,
)
from rowcast.settings.sections import Count, CountFromOne, Section
from rowcast.writes.pending_bytes import WriteBounds


class Memory(Section):
    """Bounds in bytes; each write counts with its payload and 512 bytes."""

    client_write_bytes: CountFromOne = Field(
        default=COMMIT_CLIENT_BYTES_HIGH,
        description="Bytes of one client's pending writes at which the server stops reading from "
        "that client, at most 384 KiB while several write; at four times as many its writes are "
        "refused.",
    )
    write_bytes: CountFromOne = Field(
        default=COMMIT_BACKLOG_BYTES_HIGH,
        description="Bytes of all clients' pending writes at which the server stops reading from "
        "those above the mean; at twice as many all writes are refused.",
    )
    commit_bytes: Annotated[CountFromOne, Field(ge=65_536)] = Field(
        default=COMMIT_BATCH_BYTES_MAX,
        description="Bytes of one transaction, shared by all writers. A smaller value shortens "
        "the wait of small writes behind large ones; a larger one gives a slow disk more "
        "throughput.",
    )

    cache_bytes: CountFromOne = Field(
        default=RECORD_CACHE_BYTES_MAX,
        description="Size of the record cache in bytes, decoded values included.",
    )

    @property
    def bounds(self) -> WriteBounds:
        """The settings in the form of the committer."""
        return WriteBounds(
            client_high=self.client_write_bytes,
            client_max=4 * self.client_write_bytes,
            high=self.write_bytes,
            most=2 * self.write_bytes,
            batch=self.commit_bytes,
        )


class Subscriptions(Section):
    """What waits in memory for one slow reader; logged events beyond it are read from the log."""

    queue_events: Count = Field(
        default=0, description="Events queued for one subscriber; 0 means the default of 8,192."
    )
    queue_bytes: Count = Field(
        default=0,
        description="Payload bytes queued for one subscriber; 0 means the default of 8 MiB.",
    )
