"""Bounds of bridges to other brokers and of producers; the rest of ``limits`` and by its rules.

Value, unit (last in the name) and the reason for the value. These are apart only because there are
so many; what is said in ``limits`` about names and about operators holds here too.
"""

# Producers ----------------------------------------------------------------------------------------
PRODUCERS_MAX = 10_000
"""Producers whose numbers are known; who has not written for the longest time is forgotten."""
PRODUCER_NUMBERS_MAX = 20_000
"""Numbers of one producer that are remembered: twice what a bridge may have open."""
PRODUCER_NUMBERS_FORGOTTEN = 2_000
"""The oldest of them that are forgotten at once when there are more: a tenth, so that nobody pays
for it with each write."""
PRODUCER_NUMBER_MAX = 2**63 - 1
"""Greatest epoch or number of a producer: what an integer of the database holds."""
PRODUCER_NAME_CHARS_MAX = 200
"""The name of a producer stands in each of its events."""

# Gateway ------------------------------------------------------------------------------------------
GATEWAY_BACKOFF_SECONDS_MAX = 30
"""Longest wait before a refused event is sent again (H10)."""
GATEWAY_ITEMS_MAX = 10_000
"""Events of one bridge that are taken and not done: behind a topic that fails there may be many, of
which only the numbers are kept."""
GATEWAY_TOPIC_EVENTS_HELD_MAX = 32
"""Events of one topic in memory behind one that is on the way; the rest is read again."""
GATEWAY_FLYING_MAX = 100
"""Publishes to a broker that are not acknowledged, unless it allows fewer: hides a millisecond of
distance, and few are sent twice after a lost connection."""
GATEWAY_HEARD_MAX = 100
"""Messages from a remote broker that are not stored here yet: on MQTT 5 it is told so, and with
more than that nothing is read from it. Enough for one transaction of the disk."""
GATEWAY_HEARD_BYTES_HIGH = 4 * 1024 * 1024
"""Bytes of these messages before nothing more is read from it."""
GATEWAY_CONNECT_SECONDS = 5
"""Time for a remote broker to accept a connection and to answer CONNECT."""
GATEWAY_WRITE_BYTES_HIGH = 1024 * 1024
"""Bytes that wait for a remote broker's socket before no more is sent: QoS 0 has no other bound."""
GATEWAY_QUEUE_EVENTS = 65_536
"""Events in memory for one bridge, unless it or all subscriptions are told another number (H19);
their bytes have a bound of their own."""
GATEWAY_CROWDED_SECONDS = 0.01
"""Time between two looks whether a broker that reads slowly has made room: nothing tells of it."""
GATEWAY_GATHER_SECONDS = 0.001
"""Shortest time between two looks of a bridge at what is new: what is written faster is sent
together, which nobody notices beside the way to another broker."""
GATEWAY_RECONNECT_SECONDS_MAX = 60
"""Longest wait between two attempts to connect to a remote broker (H19)."""
GATEWAY_RECONNECT_SECONDS_MIN = 0.25
"""Wait after a connection was lost, before the first new one: finding out which event makes a
broker disconnect takes several."""
GATEWAY_REFUSED_SECONDS = 5
"""What a writer that is refused because too much waits is told to wait: as a bridge does before it
connects again."""
GATEWAY_SESSION_SECONDS = 7 * 86_400
"""How long a remote broker is asked to keep what comes while a bridge is away: as long as the log
is kept here by default."""
GATEWAY_SAVE_SECONDS = 0.5
"""How long a bridge's place may be behind: a kill repeats at most that much."""
GATEWAY_TAKE_EVENTS = 100
"""Events that a bridge takes from the log in one turn."""
GATEWAY_STATUS_SECONDS = 1
"""Time between two looks at what a bridge is doing, for those who watch it."""
GATEWAY_LETTER_PAYLOAD_BYTES_MAX = 64 * 1024
"""Payload that stands in a dead letter itself; a larger one is a record beside it."""
GATEWAY_LAG_SECONDS_HIGH = 60
"""Age of what a bridge has not delivered from which its alarm is on (H37)."""
GATEWAY_BLOCKS = 100
"""Parts of a cap on what waits for a bridge: it is counted in them, and what is too much goes by
them."""
GATEWAY_BLOCK_EVENTS = 10_000
"""Events of such a part where no number of events is set: a long outage takes little memory."""
GATEWAY_FORESEEN_SECONDS_MAX = 30 * 86_400
"""A cap that is reached later than this, if all goes on as it does, is not spoken of."""
GATEWAY_HOLES_MAX = 1_000
"""Ranges that a bridge dropped behind something that waits; beyond these it drops nothing."""
