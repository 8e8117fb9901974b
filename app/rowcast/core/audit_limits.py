"""Limits of the events under ``$AUDIT``: each with its unit and reason."""

from typing import Final

AUDIT_KEEP_SECONDS: Final = 365 * 24 * 3600
"""Retention of audit events: auditors come once a year."""
AUDIT_KEEP_EVENTS: Final = 100_000
"""Audit events to keep: nearly three hundred a day, in some 50 MB."""
AUDIT_TEXT_CHARS_MAX: Final = 500
"""Of a topic, a reason or a member's name, which may be a stranger's text."""
AUDIT_MEMBERS_MAX: Final = 64
"""Names of members in one audit event: more than any row has."""

# Refusals, under ``$AUDIT/refused`` ---------------------------------------------------------------
REFUSALS_PER_SECOND_MAX: Final = 5
"""Refusals written per second: as many as a person can read, 170 MB a year at most, of which little
is kept."""
REFUSALS_OF_ONE_PER_SECOND_MAX: Final = 0.1
"""The same of one user, or of one address that has not signed in, after the first ones."""
REFUSALS_OF_ONE_BURST: Final = 5
"""Refusals of one caller reported individually: a mistake and a few retries; more are counted."""
REFUSALS_RATED_MAX: Final = 4_096
"""Users and addresses with separate counts; the least recently refused is evicted."""
REFUSALS_KEEP_SECONDS: Final = 90 * 24 * 3600
"""Retention by age: investigations start within a quarter."""
REFUSALS_KEEP_EVENTS: Final = 20_000
"""Retention by number: some 8 MB; separate from other audit events."""
