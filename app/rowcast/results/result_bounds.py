"""How much one result may change and have in memory, and the error of one that changes more.

It is of one module, so that all who make results have the same bounds; it knows nothing of rows.
"""

from dataclasses import dataclass

from rowcast.core.errors import Code, Error
from rowcast.core.result_limits import (
    RESULT_CHANGES_MAX,
    RESULT_NAMES_BYTES,
    RESULT_STAGED_CHANGES_MIN,
    RESULT_TOPICS_HELD_BYTES,
)

DIVIDE = "Divide it by parts of its keys, each as a job of its own name"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBounds:
    """How much one result may change."""

    changes: int = RESULT_CHANGES_MAX
    """Rows that one result writes or removes."""
    staged_min: int = RESULT_STAGED_CHANGES_MIN
    """A result with more changes is staged."""
    held_bytes: int = RESULT_TOPICS_HELD_BYTES
    """Bytes of its topics in memory, beyond which they go into a file."""
    names_bytes: int = RESULT_NAMES_BYTES
    """Bytes of the names of a job's own records that one batch of the log has."""
    mend: str = DIVIDE
    """What its author can do about too many."""


def too_many_changes(what: str, most: ChangeBounds) -> Error:
    """Return the error of a result that changes too much."""
    return Error(
        Code.TOO_LARGE,
        f"the result has {what}, and one changes at most {most.changes}. {most.mend}, or set "
        "results.changes_max",
    )
