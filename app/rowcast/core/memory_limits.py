"""Limits in bytes of what is in memory: writes in hand, what is held for a client, values.

Value, unit (last in the name) and the reason for the value, as in ``limits``.
"""

# Writes in hand: taken from a client and not answered yet -----------------------------------------
WRITE_BYTES = 512
"""What one write takes beside its payload: event, topic, who waits for it (measured: 500 to 700).
It makes a flood of small writes a flood of bytes."""
COMMIT_BATCH_BYTES_MAX = 1024 * 1024
"""Bytes of one transaction, unless one write has more: some 10 ms of an ordinary disk, which is
what a small write waits beside a client that sends megabytes. Larger ones are not quicker."""
COMMIT_CLIENT_BYTES_HIGH = 8 * 1024 * 1024
"""Bytes in hand of one client before it is not read from: eight transactions, so that the disk
does not wait for the client either; it is read from again at half of that."""
COMMIT_CLIENT_BYTES_MAX = 32 * 1024 * 1024
"""Bytes in hand of one caller before its writes are refused with BUSY: two batches of 10,000
records over HTTP at once, which cannot be stopped in the middle of a body."""
COMMIT_BACKLOG_BYTES_HIGH = 64 * 1024 * 1024
"""Bytes in hand of all clients before those are not read from that have more than the mean."""
COMMIT_BACKLOG_BYTES_MAX = 128 * 1024 * 1024
"""Bytes in hand of all callers before writes are refused with BUSY."""
HOOK_WRITES_BYTES_MAX = 8 * 1024 * 1024
"""Payload bytes of one caller's writes that wait for an asynchronous hook, before more are
refused: as many as may be in hand of one client."""

# Held for one client ------------------------------------------------------------------------------
MQTT_HELD_BYTES_HIGH = 256 * 1024
"""Payload bytes of packets that wait for CONNACK or SUBACK before no more are read: one read of a
socket, from somebody who may still be nobody."""
SOCKET_ANSWERS_BYTES_HIGH = 1024 * 1024
"""Bytes of answers that a WebSocket's client has not taken before no more commands are read: each
may be a whole record."""

# Records and values -------------------------------------------------------------------------------
RECORD_BYTES = 512
"""What one event takes beside its payload and what is made of it."""
VALUE_PART_BYTES = 100
"""What one member of a map or item of a list takes when it is decoded (measured: 8 to 135)."""
RECORD_CACHE_BYTES_MAX = 128 * 1024 * 1024
"""Bytes of current records in memory for hot reads, decoded values included: 100,000 usual ones."""
RECORD_CACHE_PAYLOAD_BYTES_MAX = 16 * 1024
"""A larger record is in that cache as bytes only: what a reader makes of it goes with that reader,
for its parts may be a hundred times as much; reading it again costs a millisecond or more."""
LOG_CACHE_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of pages of the log in memory, decoded values included; the frames made of them take as
much again for each form in use."""
