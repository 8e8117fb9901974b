"""Limits of bridges to other brokers and of producers; see ``limits``.

Value, unit (last in the name) and the reason for the value. The rules of ``limits`` apply.
"""

from typing import Final

# Producers ----------------------------------------------------------------------------------------
PRODUCERS_MAX: Final = 10_000
"""Producers with remembered numbers; the one longest silent of a user with many is evicted."""
PRODUCER_NUMBERS_MAX: Final = 20_000
"""Numbers of one producer that are remembered: twice what a bridge may have open."""
PRODUCER_NUMBERS_FORGOTTEN: Final = 2_000
"""The oldest of them evicted at once when there are more: a tenth, which amortises the cost."""
PRODUCER_NUMBER_MAX: Final = 2**63 - 1
"""Greatest epoch or number of a producer: the database's integer range."""
PRODUCER_NAME_CHARS_MAX: Final = 200
"""Length of a producer's name, which is stored in each of its events."""

# Gateway ------------------------------------------------------------------------------------------
GATEWAY_BACKOFF_SECONDS_MAX: Final = 30
"""Longest wait before a refused event is sent again (H10)."""
GATEWAY_ITEMS_MAX: Final = 10_000
"""Events of one bridge that are read and not finished: a failing topic may block many, of which
only the numbers are kept."""
GATEWAY_TOPIC_EVENTS_HELD_MAX: Final = 32
"""Events of one topic buffered behind one in flight; the rest is read again."""
GATEWAY_FLYING_MAX: Final = 100
"""Unacknowledged publishes to a broker, unless it allows fewer: hides a millisecond of latency, and
few are sent twice after a lost connection."""
GATEWAY_HEARD_MAX: Final = 100
"""Messages from a remote broker that are not stored here yet: announced as Receive Maximum on MQTT
5; above it, reading pauses. Enough for one transaction."""
GATEWAY_HEARD_BYTES_HIGH: Final = 4 * 1024 * 1024
"""Bytes of these messages above which reading pauses."""
GATEWAY_CONNECT_SECONDS: Final = 5
"""Time for a remote broker to accept a connection and to answer CONNECT."""
GATEWAY_WRITE_BYTES_HIGH: Final = 1024 * 1024
"""Bytes buffered for a remote broker's socket above which sending pauses: QoS 0 has no other
bound."""
GATEWAY_QUEUE_EVENTS: Final = 65_536
"""Events in memory for one bridge, unless configured for it or for all subscriptions (H19); their
bytes have a separate bound."""
GATEWAY_CROWDED_SECONDS: Final = 0.01
"""Interval between checks whether a slow broker has read: there is no notification."""
GATEWAY_GATHER_SECONDS: Final = 0.001
"""Minimum interval between a bridge's reads of new events: faster writes are sent together, a delay
far below the network's latency."""
GATEWAY_RECONNECT_SECONDS_MAX: Final = 60
"""Longest wait between two attempts to connect to a remote broker (H19)."""
GATEWAY_RECONNECT_SECONDS_MIN: Final = 0.25
"""Wait after a lost connection before the first reconnect: finding the event that makes a broker
disconnect takes several."""
GATEWAY_REFUSED_SECONDS: Final = 5
"""Retry-after for a writer refused because the backlog is full: as long as a bridge waits before it
reconnects."""
GATEWAY_SESSION_SECONDS: Final = 7 * 86_400
"""Session expiry requested from a remote broker: as long as the log is kept here by default."""
GATEWAY_SAVE_SECONDS: Final = 0.5
"""Interval between saves of a bridge's position: a kill repeats at most that much."""
GATEWAY_TAKE_EVENTS: Final = 100
"""Events that a bridge reads from the log in one loop turn."""
GATEWAY_STATUS_SECONDS: Final = 1
"""Interval between updates of a bridge's status rows."""
GATEWAY_LETTER_PAYLOAD_BYTES_MAX: Final = 64 * 1024
"""Largest payload within a dead letter; a larger one is a separate record."""
GATEWAY_LAG_SECONDS_HIGH: Final = 60
"""Age of the oldest undelivered event that raises a bridge's alarm (H37)."""
GATEWAY_BLOCKS: Final = 100
"""Blocks of a bridge's backlog cap: the backlog is counted and dropped in blocks."""
GATEWAY_BLOCK_EVENTS: Final = 10_000
"""Events per block if no cap on events is set: a long outage takes little memory."""
GATEWAY_FORESEEN_SECONDS_MAX: Final = 30 * 86_400
"""A cap is not reported if at the current rate it is reached later than this."""
GATEWAY_HOLES_MAX: Final = 1_000
"""Ranges that a bridge dropped behind a waiting event; beyond these it drops nothing."""
