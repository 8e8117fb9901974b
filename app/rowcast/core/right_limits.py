"""Limits of rules and rights: each with its unit and its reason."""

from typing import Final

RULE_TEXT_CHARS_MAX: Final = 2_000
"""Characters of a row rule: a longer one is unreadable."""

RULE_DEPTH_MAX: Final = 8
"""Nested brackets in a row rule; the parser recurses once for each."""

RULE_CLAIM_ITEMS_MAX: Final = 1_000
"""Values of one claim that a rule compares with: each is a parameter of SQL, which takes 32,766."""

RULE_ROWS_MAX: Final = 10_000
"""Rows of ``$SYS/rules``: all are checked for a topic that is not cached."""

RULE_PATTERNS_MAX: Final = 100
"""Topics that one rule expands to for one caller, by a claim with several values."""

COMPILED_POLICIES_MAX: Final = 4_096
"""Cached compiled policies, one for each kind of caller, some kilobytes each; the oldest is
evicted."""

SIGHT_TOPICS_MAX: Final = 4_096
"""Cached decisions by topic in one compiled policy; cleared when full."""

SHOWN_COPIES_MAX: Final = 8
"""Cached redacted copies of one event, for other readers."""
