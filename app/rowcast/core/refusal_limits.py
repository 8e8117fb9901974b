"""Limits of the events of refusals under ``$AUDIT/refused``: each with its unit and reason."""

REFUSALS_PER_SECOND_MAX = 5
"""Refusals written per second: as many as a person can read, 170 MB a year at most, of which little
is kept."""
REFUSALS_OF_ONE_PER_SECOND_MAX = 0.1
"""The same of one user, or of one address that has not signed in, after the first ones."""
REFUSALS_OF_ONE_BURST = 5
"""Refusals of one caller reported individually: a mistake and a few retries; more are counted."""
REFUSALS_RATED_MAX = 4_096
"""Users and addresses with separate counts; the least recently refused is evicted."""
REFUSALS_KEEP_SECONDS = 90 * 24 * 3600
"""Retention by age: investigations start within a quarter."""
REFUSALS_KEEP_EVENTS = 20_000
"""Retention by number: some 8 MB; separate from other audit events."""
