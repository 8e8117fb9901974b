"""Limits of listening sockets, their peers, and TLS; see ``limits``.

Value, unit (last in the name) and the reason for the value. The rules of ``limits`` apply.
"""

from typing import Final

HOSTS_CACHED_MAX: Final = 256
"""Cached decisions on names in Host headers: a server has a few."""
PEERS_CACHED_MAX: Final = 1_024
"""Cached decisions whether an address is this machine's: parsing one costs a connection as much as
its CONNECT, and most connections come from few addresses."""
LISTEN_BACKLOG: Final = 2_048
"""Connections that wait to be accepted on one port: the reconnects of a browser farm in one
second."""
TLS_HANDSHAKE_SECONDS: Final = 10
"""From the connection to the end of its handshake; as long as for CONNECT (D7)."""
TLS_HANDSHAKES_MAX: Final = 2_048
"""Concurrent handshakes on one port: as many as connections wait to be accepted. Each uses some 50
KiB; a further one takes the place of the oldest of the network with the most, or is closed."""
TLS_SHUTDOWN_SECONDS: Final = 3
"""Wait for the peer's close_notify: less than any door waits for its connections to close."""
TLS_WRITE_BUFFER_BYTES_HIGH: Final = 64 * 1024
"""Bytes buffered above TLS before its protocol is paused: as without TLS; asyncio's default for TLS
is eight times that."""
TLS_FAILURE_LOG_SECONDS: Final = 60
"""Interval between log lines about failed handshakes of one port: a port scanner must not fill the
log."""
TLS_LOOK_SECONDS: Final = 10
"""Interval between checks of certificate files for changes: a few calls of stat."""
TLS_FILE_BYTES_MAX: Final = 4 * 1024 * 1024
"""A file of certificates: the bundles of all public authorities are a tenth of that."""
TLS_EXPIRY_WARNING_DAYS: Final = 14
"""Days before expiry of a certificate from which to warn: renewal programs begin at 30."""
