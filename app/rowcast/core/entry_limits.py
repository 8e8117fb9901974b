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
USERS_FILE_LOOK_SECONDS = 0.5
"""Between two looks whether the file of users was changed: who was removed is gone
within a second."""
USERS_SECRET_BYTES = 32
"""As long as what SHA-256 gives, with which it is used."""
USER_ROLES_MAX = 64
"""Roles of one user: more would be the work of a program."""
ROLE_NAME_CHARS_MAX = 64
"""As one level of a topic: a role's row has it as its name."""
USER_ATTRIBUTES_CHARS_MAX = 16_384
"""Attributes of one user, such as its sites: rules look at them for each record."""
HASH_MEMORY_KIB = 19_456
"""Memory of one argon2id: the least that OWASP recommends with two rounds."""
HASH_ROUNDS = 2
"""Passes over that memory, likewise."""
HASH_THREADS = 1
"""Lanes of one hash; several passwords are checked at once instead."""
HASH_BYTES = 32
"""Length of a hash: the usual one of argon2."""
HASH_TEXT_CHARS_MAX = 512
"""A hash with its parameters and salt has about 100."""
TOKEN_BYTES_MAX = 8_192
"""A token: several times those of the great identity providers, with their groups."""
TOKEN_SECONDS = 3_600
"""How long a token holds that is made here, unless the operator says otherwise."""
TOKEN_LEEWAY_SECONDS = 30
"""Clocks of an issuer and of this server may differ so much."""
TOKENS_CACHED_MAX = 4_096
"""Tokens that were judged and are recognised: one for each of a fleet's busiest clients."""
TOKEN_KEY_BYTES_MIN = 32
"""A key for HS256 (RFC 7518, 3.2): as long as the hash."""
TOKEN_KEYS_FILE_BYTES_MAX = 1024 * 1024
"""A file of keys: a hundred certificates."""
WRITERS_CACHED_MAX = 1_024
"""Users whose name, as it stands with what they wrote, is ready: the busiest ones of a server."""
AUDIT_KEEP_SECONDS = 365 * 24 * 3600
"""Age to keep of what administrators did: auditors come once a year."""
AUDIT_KEEP_EVENTS = 100_000
"""Such events to keep: nearly three hundred a day, in some 50 MB."""
AUDIT_TEXT_CHARS_MAX = 500
"""Of a topic, a reason or a member's name, which may be a stranger's text."""
AUDIT_MEMBERS_MAX = 64
"""Names of members that are told: more than any row has."""
LOGIN_BODY_BYTES_MAX = 16_384
"""A name and a password in JSON, each as long as it may be, with escapes."""
LOGIN_BODY_SECONDS_MAX = 10
"""Wait for such a body, from somebody who is nobody yet."""
QUESTIONS_MAX = 32
"""Topics that one request asks about, whether they may be read: a page has a dozen parts."""
HOSTS_CACHED_MAX = 256
"""Names in Host headers of which is remembered whether they are served: a server has a few."""
PEERS_CACHED_MAX = 1_024
"""Addresses of which is remembered whether they are this machine's: reading one costs a connection
as much as its CONNECT, and the many come from few."""
TICKET_SECONDS = 30
"""From asking for a ticket to showing it: a browser does both within one (C27)."""
TICKET_BYTES = 32
"""Chance in a ticket: nobody guesses it within its time."""
TICKETS_MAX = 10_000
"""Tickets that nobody has shown yet."""
TICKETS_OF_USER_MAX = 200
"""Tickets that one user has not shown yet: a page opens a few streams, and others want some too."""
SETUP_CODE_BYTES = 15
"""Chance in the code that makes the first user: 24 characters, which nobody guesses."""
SETUP_CODE_GROUP_CHARS = 6
"""Characters between two hyphens of it: as many as people keep in mind while they type."""
SIGHTINGS_MAX = 10_000
"""Users of whom is remembered when they were here; the one longest not seen goes first."""
ACCESS_END_SECONDS = 0.1
"""After the moment a token is over, so that all that end in the same moment end together."""
ACCESS_TIMER_SECONDS_MAX = 86_400.0
"""Longest wait of one timer: clocks are set, and asyncio's own bound is not far beyond."""

# Listening ----------------------------------------------------------------------------------------
LISTEN_BACKLOG = 2_048
"""Connections that wait to be accepted on one port: a browser farm's reconnect in one second."""

# TLS ----------------------------------------------------------------------------------------------
TLS_HANDSHAKE_SECONDS = 10
"""From the connection to the end of its handshake; as long as for CONNECT (D7)."""
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
