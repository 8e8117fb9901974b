"""Settings of memory: bytes of pending writes, and of the record cache."""

from typing import Annotated

from pydantic import Field

from rowcast.core.memory_limits import (
    COMMIT_BACKLOG_BYTES_HIGH,
    COMMIT_BATCH_BYTES_MAX,
    COMMIT_CLIENT_BYTES_HIGH,
    RECORD_CACHE_BYTES_MAX,
)
from rowcast.kernel.bytes_in_hand import WriteBounds
from rowcast.kernel.settings import CountOfBytes, Section


class Memory(Section):
    """Bounds in bytes; each write counts with its payload and 512 bytes."""

    client_write_bytes: CountOfBytes = Field(
        default=COMMIT_CLIENT_BYTES_HIGH,
        description="Bytes of one client's writes that wait for the disk before it is not read "
        "from; at four times as many its writes are refused.",
    )
    write_bytes: CountOfBytes = Field(
        default=COMMIT_BACKLOG_BYTES_HIGH,
        description="Bytes of all clients' writes that wait for the disk before those with more "
        "than the mean are not read from; at twice as many writes are refused.",
    )
    commit_bytes: Annotated[CountOfBytes, Field(ge=65_536)] = Field(
        default=COMMIT_BATCH_BYTES_MAX,
        description="Bytes of one transaction, shared by those who write: fewer, and small writes "
        "wait less for large ones; more, and a slow disk takes more in all.",
    )

    cache_bytes: CountOfBytes = Field(
        default=RECORD_CACHE_BYTES_MAX,
        description="Bytes of current records in memory for hot reads, decoded values included.",
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
