"""Bounds of who may come in: users, listening and TLS; the rest of ``limits`` and by its rules.

Value, unit (last in the name) and the reason for the value. These are apart only because there are
so many; what is said in ``limits`` about names and about operators holds here too.
"""

# Users --------------------------------------------------------------------------------------------
USER_NAME_BYTES_MAX = 255
"""Longer than any account, host or e-mail address."""
PASSWORD_BYTES_MAX = 1_024
"""Room for a token in the place of a password; MQTT's 65,535 would only cost hashing."""
PASSWORD_ITERATIONS_MIN = 4_096
"""The least that RFC 7677, 4 allows."""
PASSWORD_ITERATIONS = 100_000
"""About 25 ms of one core here, and for a SCRAM client its own: dear to try a list of words on,
cheap enough that a thousand devices sign in after a restart within a quarter of a minute."""
PASSWORD_ITERATIONS_MAX = 1_000_000
"""A verifier that asks for more would keep a thread busy for longer than clients wait."""
PASSWORD_SALT_BYTES = 16
"""Never the same twice by chance."""
PASSWORD_CHECKS_AT_ONCE = 2
"""Threads that hash passwords, so that the disk and the loop get their share of the machine."""
PASSWORD_CHECKS_WAITING_MAX = 500
"""Callers that wait for them: what is done within a client's patience; more are told BUSY."""
PASSWORD_CACHE_ENTRIES_MAX = 8_192
"""Passwords found right that are recognised without hashing: a fleet that reconnects at once."""
SCRAM_MESSAGE_BYTES_MAX = 4_096
"""One message of an exchange: several times the longest name and nonces."""
SCRAM_NONCE_BYTES = 18
"""Chance in a nonce, 24 characters of base64: as in the example of RFC 7677."""
USERS_FILE_BYTES_MAX = 64 * 1024 * 1024
"""A file of users: a few hundred thousand; more belong into a database."""
USERS_FILE_LOOK_SECONDS = 1
"""Between two looks whether the file of users was changed, when somebody signs in."""
ACCESS_END_SECONDS = 0.1
"""After the moment a token is over, so that all that end in the same moment end together."""
ACCESS_TIMER_SECONDS_MAX = 86_400.0
"""Longest wait of one timer: clocks are set, and asyncio's own bound is not far beyond."""

# Listening ----------------------------------------------------------------------------------------
LISTEN_BACKLOG = 2_048
"""Connections that wait to be accepted on one port: a browser farm's reconnect in one second."""

# TLS ----------------------------------------------------------------------------------------------
TLS_HANDSHAKE_SECONDS = 10
"""From the connection to the end of its handshake; as long as for CONNECT (FEATURES D7)."""
TLS_HANDSHAKES_MAX = 2_048
"""Handshakes under way on one port: as many connections as wait to be accepted. Each holds some 50
KiB; more are closed at once."""
TLS_SHUTDOWN_SECONDS = 3
"""Wait for the peer's close_notify: less than any door waits for its connections to end."""
TLS_WRITE_BUFFER_BYTES_HIGH = 64 * 1024
"""Bytes waiting above TLS before its protocol is told to stop: as without TLS; asyncio's default
for TLS is eight times that."""
TLS_FAILURE_LOG_SECONDS = 60
"""Between two lines about failed handshakes of one port: a port scanner must not fill the log."""
TLS_LOOK_SECONDS = 10
"""Between two looks whether certificate files have changed: a few calls of stat."""
TLS_FILE_BYTES_MAX = 4 * 1024 * 1024
"""A file of certificates: the bundles of all public authorities are a tenth of that."""
TLS_EXPIRY_WARNING_DAYS = 14
"""Days before the end of a certificate that are worth a warning: renewal programs begin at 30."""
