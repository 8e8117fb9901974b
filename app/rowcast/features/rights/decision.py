"""A decision: may it, and what decided that. An answer that cannot say why is no answer."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer, and what decided it."""

    allowed: bool
    because: str
