"""Limits of the Python client's sockets: each with its unit and its reason; see ``limits``."""

from typing import Final

from rowcast.core.limits import CLIENT_EVENT_BYTES_MAX

CLIENT_COMMANDS_MAX: Final = 256
"""Unanswered commands of one socket: as many as the server takes before it stops reading."""
CLIENT_QUEUE_EVENTS_MAX: Final = 1_024
"""Events of one subscription of a socket that wait for its reader: four batches of the server."""
CLIENT_QUEUE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Their bytes: as many as the server keeps for a reader before it reads the log instead."""
CLIENT_SNAPSHOT_BYTES_MAX: Final = CLIENT_EVENT_BYTES_MAX
"""Bytes of current records that may wait while an answer behind them is waited for: as many as one
event may have."""
CLIENT_PAUSE_SECONDS: Final = 10
"""How long a socket is not read because current records wait for their reader: less than the time
in which its ping must be answered."""
CLIENT_PING_SECONDS: Final = 20
"""Interval of a socket's pings, and the time for each answer: proxies end connections that are
silent for 60 seconds."""
CLIENT_CLOSE_SECONDS: Final = 5
"""Time for the server to answer a close frame: as long as its own shutdown may take."""
CLIENT_FRAMES_MAX: Final = 16
"""Frames received and not yet taken apart: hides a turn of the loop, and costs little memory."""
CLIENT_MARKS_STEP: Final = 100
"""Writes of a socket after which the server may forget the marks of earlier ones: each time costs a
change of a fact."""
PRESENCE_SECONDS_MIN: Final = 1
"""Between two writes of one presence: two programs with one record do not write without end."""
