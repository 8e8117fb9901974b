"""Limits of what is told of refusals under ``$AUDIT/refused``: each with its unit and reason."""

REFUSALS_PER_SECOND_MAX = 5
"""Refusals of anybody written in a second: what a person can read, 170 MB in a year at most, of
which little is kept."""
REFUSALS_OF_ONE_PER_SECOND_MAX = 0.1
"""The same of one user, or of one address that has not signed in, after the first ones."""
REFUSALS_OF_ONE_BURST = 5
"""How many of one are told one by one: a mistake and a few tries; more of them are counted."""
REFUSALS_RATED_MAX = 4_096
"""Users and addresses whose refusals are counted one by one; who is longest silent goes first."""
REFUSALS_KEEP_SECONDS = 90 * 24 * 3600
"""Age to keep: who asks what somebody tried, asks within a quarter."""
REFUSALS_KEEP_EVENTS = 20_000
"""Such events to keep: some 8 MB, whatever strangers do; they push out nothing else."""
