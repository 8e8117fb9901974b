"""Limits that keep the work of one client from delaying the others; see ``limits``."""

from typing import Final

# Batches of writes --------------------------------------------------------------------------------
SHARED_BATCH_EVENTS_MAX: Final = 256
"""Writes of one transaction while several callers write: some three milliseconds, which a write of
another caller waits for twice. Who writes alone has larger ones, with fewer syncs."""
SHARED_BATCH_CALLER_EVENTS: Final = 8
"""The same for each caller that has writes waiting, so that many callers are still one batch."""
SHARED_BATCH_BYTES_MAX: Final = 512 * 1024
"""Bytes of such a transaction: as long on an ordinary disk."""
SHARED_UNAWAITED_EVENTS_MAX: Final = 64
"""Writes of such a transaction that has QoS 0 messages of a flood, which nobody waits for, while
somebody else waits for the disk: a fifth of a millisecond beside the sync. Its flood is slower."""
SHARED_UNAWAITED_BYTES_MAX: Final = 128 * 1024
"""Bytes of it: a fraction of what the sync takes."""
SHARED_CLIENT_BYTES_HIGH: Final = 384 * 1024
"""Pending bytes of one client while several callers write, above which reading from it pauses:
three such transactions of small writes. What a flood has waiting beyond them is read and sorted in
one go, for many milliseconds, and is not written sooner."""
SHARED_ANSWER_SECONDS: Final = 0.005
"""For which announcing and answering such a transaction may hold the loop, ten times what it
usually takes; then the next ones are half as large: an event may match thousands of filters."""
SHARED_BATCH_FITTED_EVENTS: Final = 16
"""The fewest that it comes to: the sync is shared by some at least."""
SHARED_SECONDS: Final = 10.0
"""For which a second caller counts after it had a write waiting: one that writes every few seconds
is not to find a large batch each time."""
FEW_WRITE_BYTES: Final = 8 * 1024
"""Waiting bytes of a caller that has few: some fifteen small writes. It need not wait for tables
that are behind because of others."""
BEHIND_SECONDS_MAX: Final = 1.0
"""For which writers with more wait aside for tables that are behind; then all wait for them."""
BEHIND_LOOK_SECONDS: Final = 0.005
"""Between two looks whether they still are: a twentieth of the lag that they may have."""

GATHER_SECONDS: Final = 0.002
"""For which messages of QoS 0 that are announced first are gathered, unless somebody waits: a crash
takes no more than these milliseconds (``log.qos0``), and a client that sends one at a time has ten
or more of them in one append, which alone would take longer than all else that is done for one."""
GATHER_EVENTS: Final = 256
"""Messages of which the append begins at once: more gain little."""

# Child processes ----------------------------------------------------------------------------------
WORKER_CALL_SECONDS_MAX: Final = 60.0
"""Of one call: hundreds of times what one takes on an idle machine; a child that hangs is ended."""
WORKER_IDLE_SECONDS: Final = 60.0
"""Without a call, until a child ends: it starts again in a tenth of a second, and its memory is
given back."""

# Filters ------------------------------------------------------------------------------------------
SUBSCRIPTION_MATCHES_CACHED_MAX: Final = 131_072
"""Cached matches of one subscription, a megabyte: with ten thousand filters each topic may match
all of them."""
SUBSCRIPTION_INDEXED_FILTERS_MIN: Final = 32
"""Filters of one subscription from which an index finds those of a topic: with fewer, a comparison
with each of them takes less time, and no memory."""
SUBSCRIPTION_TAKE_MATCHES_MAX: Final = 1_000
"""Matches of filters with the events of one hand-over, after which it ends: about a millisecond.
With ten thousand filters one event may match all of them."""
SUBSCRIPTION_LEAVE_TURN_FILTERS: Final = 200
"""Filters of one subscription that ends, above which they leave the bus in slices: fewer take some
two milliseconds."""
SUBSCRIPTION_RESUME_TURN_FILTERS: Final = 100
"""Filters of a session that goes on, above which they are authorised in slices before: fewer take
some two milliseconds."""
MQTT_SUBSCRIBE_TURN_FILTERS: Final = 20
"""Filters of one client, or of one UNSUBSCRIBE, above which they are changed in slices: fewer take
some two milliseconds."""

# Pages --------------------------------------------------------------------------------------------
READ_TURN_EVENTS_MIN: Final = 200
"""Events or records of a page that was read, from which it is sorted in a turn of the loop of its
own: fewer take some two hundred microseconds, and thirty readers may have waited for one page."""
READ_TURN_SCANS_MIN: Final = 16
"""Filters that one read has the current records of, from which such reads are in single file, each
begun in a turn of its own: it has the interpreter's lock for half a millisecond and more, and five
threads with such reads keep the writer thread waiting each time that it comes from the disk."""

# Large values -------------------------------------------------------------------------------------
LARGE_VALUE_BYTES_MIN: Final = 64 * 1024
"""From which a value is checked in a child process: a smaller one takes three milliseconds at most,
which is what the way there and back takes of the loop for some of a megabyte."""
LARGE_VALUE_PROCESSES: Final = 1
"""Child processes for large values: one core at most is busy with them."""
LARGE_VALUE_STOP_SECONDS: Final = 5.0
"""For waiting large values when the server stops: some fifty of the largest; the rest is
refused."""

# Connections --------------------------------------------------------------------------------------
ACCEPTED_AT_ONCE: Final = 16
"""Connections accepted on one port in one turn of the loop: some milliseconds."""

# Threads ------------------------------------------------------------------------------------------
LOCK_SECONDS: Final = 0.001
"""For which a thread keeps the interpreter's lock while others want it. With Python's own 5 ms the
event loop comes back after eleven beside two searches, with this after one (median, of two cores);
the CPU time of a write stays the same."""
