"""Limits of durable streams: each with its unit and its reason."""

from typing import Final

DURABLE_STREAMS_MAX: Final = 10_000
"""Default number of streams, about 1 KB each in memory."""
DURABLE_USER_STREAMS_MAX: Final = 5_000
"""Default number of streams of one user: nobody takes the places of all others."""
DURABLE_READ_BYTES: Final = 1024 * 1024
"""Payload bytes of one answer, after which the reader asks for the next: half of a large one."""
DURABLE_PAGE_EVENTS: Final = 200
"""Events of one read of the log: two hundred small messages are one page of the store."""
DURABLE_PRODUCERS_MAX: Final = 1_000
"""Producers that one stream remembers, the last ones to write; about 100 bytes each."""
DURABLE_PRODUCERS_ALL_MAX: Final = 200_000
"""Producers of all streams together, some 30 MB: each stream remembers its share."""
DURABLE_PRODUCERS_LEAST: Final = 20
"""Producers that a stream remembers among however many others."""
DURABLE_EXPIRE_LEAST_SECONDS: Final = 1.0
"""Time until a stream is looked at again whose end was put off by an append."""
DURABLE_NAME_BYTES_MAX: Final = 1_024
"""Bytes of a stream's name, which is a topic and is stored with each event."""
DURABLE_HEADER_CHARS_MAX: Final = 256
"""Characters of Stream-Seq, of a producer's name and of a content type: each is stored."""
DURABLE_FORKS_DEEP_MAX: Final = 16
"""Length of a chain of forks; a read goes through all of them."""
DURABLE_SSE_SECONDS: Final = 60.0
"""Life of a connection of SSE, as the protocol proposes: caches join later readers to it."""
DURABLE_NUMBER_MAX: Final = 2**53 - 1
"""Greatest epoch and number of a producer: what JavaScript counts exactly."""
DURABLE_CURSOR_SECONDS: Final = 20
"""Length of an interval of the cursors for caches (Durable Streams, 8.1)."""
DURABLE_CURSOR_START: Final = 1_728_432_000
"""Begin of the first interval: 2024-10-09 00:00 UTC (Durable Streams, 8.1)."""
DURABLE_WATCH_SECONDS: Final = 15.0
"""Interval at which a waiting reader's rights are checked again, and SSE sends a comment."""
DURABLE_SECONDS_MAX: Final = 10**9
"""Greatest time to live, in seconds: thirty years."""
DURABLE_DISCARDED_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a body that is too large that are read and discarded, so that its sender reads why:
some seconds of a usual line."""
