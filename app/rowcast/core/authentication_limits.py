"""Limits of users, passwords and their hashes, tokens, tickets and signing in; see ``limits``.

Value, unit (last in the name) and the reason for the value. The rules of ``limits`` apply.
"""

from typing import Final

USER_NAME_BYTES_MAX: Final = 255
"""Longer than any account, host or e-mail address."""
PASSWORD_BYTES_MAX: Final = 1_024
"""Room for a token in the place of a password; MQTT's 65,535 would only cost hashing."""
PASSWORD_ITERATIONS_MIN: Final = 4_096
"""The least that RFC 7677, 4 allows."""
PASSWORD_ITERATIONS: Final = 100_000
"""About 25 ms of one core here, and for a SCRAM client its own: expensive for a dictionary attack,
cheap enough that a thousand devices sign in after a restart within 15 seconds."""
PASSWORD_ITERATIONS_MAX: Final = 1_000_000
"""A verifier with more would occupy a thread for longer than clients wait."""
PASSWORD_SALT_BYTES: Final = 16
"""Enough to be unique."""
PASSWORD_CHECKS_AT_ONCE: Final = 2
"""Processes that hash passwords, at most, and one less than there are cores: a core is left to the
event loop while strangers guess."""
PASSWORD_CHECKS_WAITING_MAX: Final = 500
"""Callers waiting for such a thread: as many as finish before clients time out; others get BUSY."""
PASSWORD_CACHE_ENTRIES_MAX: Final = 8_192
"""Cached successful password checks, which need no hashing: for a fleet that reconnects at once."""
SCRAM_MESSAGE_BYTES_MAX: Final = 4_096
"""One message of an exchange: several times the longest name and nonces."""
SCRAM_NONCE_BYTES: Final = 18
"""Random bytes of a nonce, 24 characters of base64: as in the example of RFC 7677."""
USERS_FILE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A file of users: a few hundred thousand; more belong into a database."""
USERS_FILE_LOOK_SECONDS: Final = 0.5
"""Interval between checks of the users file for changes: a removed user loses access within a
second."""
USERS_SECRET_BYTES: Final = 32
"""As long as a SHA-256 hash, with which it is used."""
USER_ROLES_MAX: Final = 64
"""Roles of one user: more would be the work of a program."""
ROLE_NAME_CHARS_MAX: Final = 64
"""As one level of a topic: a role's row has it as its name."""
USER_ATTRIBUTES_CHARS_MAX: Final = 16_384
"""Attributes of one user, such as its sites: rules compare them for each record."""
HASH_MEMORY_KIB: Final = 19_456
"""Memory of one argon2id: the least that OWASP recommends with two rounds."""
HASH_ROUNDS: Final = 2
"""Passes over that memory, likewise."""
HASH_THREADS: Final = 1
"""Lanes of one hash; several passwords are checked at once instead."""
HASH_BYTES: Final = 32
"""Length of a hash: the usual one of argon2."""
HASH_TEXT_CHARS_MAX: Final = 512
"""A hash with its parameters and salt has about 100."""
TOKEN_BYTES_MAX: Final = 8_192
"""A token: several times those of the great identity providers, with their groups."""
TOKEN_SECONDS: Final = 3_600
"""Default lifetime of a token issued here."""
TOKEN_LEEWAY_SECONDS: Final = 30
"""Tolerated clock difference between an issuer and this server."""
TOKENS_CACHED_MAX: Final = 4_096
"""Cached verified tokens: one for each of a fleet's busiest clients."""
TOKEN_KEY_BYTES_MIN: Final = 32
"""A key for HS256 (RFC 7518, 3.2): as long as the hash."""
TOKEN_KEYS_FILE_BYTES_MAX: Final = 1024 * 1024
"""A file of keys: a hundred certificates."""
WRITERS_CACHED_MAX: Final = 1_024
"""Cached writer properties, one for each user: the busiest ones of a server."""
LOGIN_BODY_BYTES_MAX: Final = 16_384
"""A name and a password in JSON, each as long as it may be, with escapes."""
LOGIN_BODY_SECONDS_MAX: Final = 10
"""Wait for such a body, from a client that has not signed in yet."""
QUESTIONS_MAX: Final = 32
"""Topics in one permission query: a page has a dozen parts."""
TICKET_SECONDS: Final = 30
"""From issuing a ticket to its use: a browser does both within one second (C27)."""
TICKET_BYTES: Final = 32
"""Random bytes of a ticket: it cannot be guessed within its lifetime."""
TICKETS_MAX: Final = 10_000
"""Unused tickets."""
TICKETS_OF_USER_MAX: Final = 200
"""Unused tickets of one user: a page opens a few streams, and no user may take all tickets."""
SETUP_CODE_BYTES: Final = 15
"""Random bytes of the code that creates the first user: 24 characters, which cannot be guessed."""
SETUP_CODE_GROUP_CHARS: Final = 6
"""Characters between two hyphens of it: as many as people remember while they type."""
SIGHTINGS_MAX: Final = 10_000
"""Users with a recorded last login; the least recently seen is dropped first."""
ACCESS_END_SECONDS: Final = 0.1
"""Delay after the expiry of a token, so that all that expire at the same moment are handled
together."""
ACCESS_TIMER_SECONDS_MAX: Final = 86_400.0
"""Longest wait of one timer: clocks are set, and asyncio's own bound is not far beyond."""
