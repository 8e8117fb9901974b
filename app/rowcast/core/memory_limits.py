"""Limits of memory in bytes: pending writes, buffers of clients, values.

Value, unit (last in the name) and the reason for the value, as in ``limits``.
"""

from typing import Final

# Pending writes: accepted from a client and not answered yet --------------------------------------
WRITE_BYTES: Final = 512
"""Overhead of one write besides its payload: event, topic, callback (measured: 500 to 700). With
it, the byte limits also bound floods of small writes."""
COMMIT_BATCH_BYTES_MAX: Final = 1024 * 1024
"""Bytes of one transaction, unless one write has more: some 10 ms of an ordinary disk, which is the
wait of a small write next to a client that sends megabytes. Larger ones are not faster."""
COMMIT_CLIENT_BYTES_HIGH: Final = 8 * 1024 * 1024
"""Pending bytes of one client above which reading from it pauses: eight transactions, so that the
disk does not wait for the client; reading resumes at half of that."""
COMMIT_CLIENT_BYTES_MAX: Final = 32 * 1024 * 1024
"""Pending bytes of one caller above which its writes are refused with BUSY: two concurrent batches
of 10,000 records over HTTP, where reading cannot pause within a body."""
COMMIT_BACKLOG_BYTES_HIGH: Final = 64 * 1024 * 1024
"""Pending bytes of all clients above which reading pauses from those with more than the mean."""
COMMIT_BACKLOG_BYTES_MAX: Final = 128 * 1024 * 1024
"""Pending bytes of all callers above which writes are refused with BUSY."""
HOOK_WRITES_BYTES_MAX: Final = 8 * 1024 * 1024
"""Payload bytes of one caller's writes that wait for an asynchronous hook, above which more are
refused: as many as one client may have pending."""
RESOURCE_WRITES_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of one connection's writes at one topic that wait for a resource class: as for a hook."""

# Buffered for one client --------------------------------------------------------------------------
MQTT_HELD_BYTES_HIGH: Final = 256 * 1024
"""Payload bytes of packets that wait for CONNACK or SUBACK, above which reading pauses: one read of
a socket, from a client that may not have signed in yet."""
SOCKET_ANSWERS_BYTES_HIGH: Final = 1024 * 1024
"""Bytes of answers that a WebSocket's client has not read, above which reading commands pauses:
each may be a complete record."""

DELTA_TOPICS_MAX: Final = 10_000
"""Records of which a reader of deltas gets what has changed, some 200 bytes each; of others, whole
values."""
DELTA_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of these records, which are held until the next value comes."""

DEAD_LETTER_BYTES_MAX: Final = 64 * 1024
"""Bytes kept of a value that does not fit its table: enough to see what is wrong with it."""

# Records and values -------------------------------------------------------------------------------
RECORD_BYTES: Final = 512
"""Overhead of one event besides its payload and its cached encodings."""
VALUE_PART_BYTES: Final = 100
"""Size of one decoded member of a map or item of a list (measured: 8 to 135)."""
RECORD_CACHE_RECORDS_MAX: Final = 100_000
"""Current records in memory for hot reads; the bound in bytes below is what usually holds."""
RECORD_CACHE_BYTES_MAX: Final = 128 * 1024 * 1024
"""Bytes of current records in memory for hot reads, decoded values included: 100,000 usual ones.
To keep more of them, raise both."""
RECORD_CACHE_PAYLOAD_BYTES_MAX: Final = 16 * 1024
"""A larger record is cached as bytes only: its decoded value, which may be a hundred times as
large, is freed with its reader; decoding it again costs a millisecond or more."""
LOG_CACHE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of pages of the log in memory, decoded values included; their encoded frames take as much
again for each delivery format in use."""
