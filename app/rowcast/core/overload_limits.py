"""Limits of a server that is short of memory, or stops: each with its unit and its reason."""

OVERLOAD_LOOK_SECONDS = 1.0
"""Between two looks at the memory: a flood fills some hundred megabytes in that time."""
OVERLOAD_BACK_PERCENT = 5
"""How far memory must fall below a watermark before what was shed is offered again."""
OVERLOAD_QUEUE_EVENTS = 64
"""Events that wait for one subscription while messages are shed: one write's worth."""
OVERLOAD_QUEUE_BYTES = 256 * 1024
"""Payload bytes of these."""
OVERLOAD_UNFINISHED_BYTES = 64 * 1024
"""Of a body or packet that is not all there, while new connections are refused: else those that are
open could each hold two megabytes more."""
OVERLOAD_RETRY_SECONDS = 10
"""What those who are sent away are told to wait."""
READY_PROBE_SECONDS = 5.0
"""Between two writes that find out whether the disk takes one, however many ask."""
READY_PROBE_BYTES = 65_536
"""What such a write has while the disk has refused one: more than is left over in a file's room."""
READY_PROBE_BYTES_MAX = 1_048_576
"""The same after a large one was refused."""
READY_RETRY_SECONDS = 5
"""What who finds the server not ready is told to wait."""
READY_WAIT_SECONDS = 2.0
"""For such a write: a disk that is slower is not ready."""
GOODBYE_RETRY_MS_MIN = 500
"""Before a client comes back to a server that said it stops."""
GOODBYE_RETRY_SPREAD_MS = 10_000
"""Random part of that: ten thousand clients come back as a thousand a second."""
STOP_SECONDS_MAX = 30
"""From the signal to the end, whatever still waits: what is acknowledged is on the disk."""
BACKUP_NICENESS = 10
"""A back-up gives way to the server that it copies from."""
LOG_SAME_LINES = 20
"""Lines of the log with the same sentence within LOG_SAME_SECONDS; further ones are counted."""
LOG_SAME_SECONDS = 60
"""Time in which they are counted: an operator sees that it goes on."""
LOG_SAME_SENTENCES_MAX = 256
"""Sentences that are counted at a time: more than the server has."""
LOG_SAME_CHARS_MAX = 300
"""Of a line that is told of again."""
