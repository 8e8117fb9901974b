"""Limits of rules and rights: each a bound with its unit, and why it is that."""

from typing import Final

RULE_TEXT_CHARS_MAX: Final = 2_000
"""Characters of a row rule: more is a program, and nobody could say what it allows."""

RULE_DEPTH_MAX: Final = 8
"""Brackets within brackets in a row rule; each is one call deep when it is read."""

RULE_CLAIM_ITEMS_MAX: Final = 1_000
"""Values of one claim that a rule compares with: each is a parameter of SQL, which takes 32,766."""

RULE_ROWS_MAX: Final = 10_000
"""Rows of ``$SYS/rules``: all are looked at for a topic that was not asked about before."""

RULE_PATTERNS_MAX: Final = 100
"""Topics that one rule becomes for one caller, by a claim with several values."""

SIGHTS_MAX: Final = 4_096
"""Kinds of callers whose rights are kept compiled, each some kilobytes; the oldest goes first."""

SIGHT_TOPICS_MAX: Final = 4_096
"""Topics of which a kind of caller's right is remembered; then they are found out anew."""

SHOWN_COPIES_MAX: Final = 8
"""Copies of one event, without what some may not see, that are kept for other readers."""
