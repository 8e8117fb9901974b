"""A decision, with the rule that caused it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer, and its cause."""

    allowed: bool
    because: str
