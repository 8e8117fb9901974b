"""How many rows one result may change, and the error of one that changes more.

It is bounded by what is kept in memory of it: its topics.
"""

from dataclasses import dataclass

from rowcast.core.errors import Code, Error
from rowcast.core.result_limits import RESULT_CHANGES_MAX, RESULT_STAGED_CHANGES_MIN

DIVIDE = "Divide it by parts of its keys, each as a job of its own name"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBounds:
    """How much one result may change."""

    changes: int = RESULT_CHANGES_MAX
    """Rows that one result writes or removes."""
    staged_min: int = RESULT_STAGED_CHANGES_MIN
    """A result with more changes is staged."""
    mend: str = DIVIDE
    """What its author can do about too many."""


def too_many_changes(what: str, most: ChangeBounds) -> Error:
    """Return the error of a result that changes too much."""
    return Error(
        Code.TOO_LARGE,
        f"the result has {what}, and one changes at most {most.changes}. {most.mend}, or set "
        "results.changes_max",
    )
