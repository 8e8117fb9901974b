"""Limits of replays: each with its unit and its reason."""

from typing import Final

REPLAYS_PER_USER_MAX: Final = 16
"""Replays of one user, or of one address without a user: a page with a time bar has one or two, and
each reads a page of the log again and again."""

REPLAYS_MAX: Final = 200
"""Replays of all users, and rows of shared ones: each keeps a page of the log in memory, about as
much as a reader that catches up."""

REPLAY_AHEAD_EVENTS_MAX: Final = 256
"""Events of one replay that wait for its reader: more than one write to a socket takes."""

REPLAY_AHEAD_BYTES_MAX: Final = 256 * 1024
"""Payload bytes that wait likewise; one event may be larger."""

REPLAY_TURN_EVENTS: Final = 256
"""Events of a page that are looked at in one turn of the loop: about a millisecond."""
