"""How many rows one result may change, and the error of one that changes more.

A result that is staged is bounded by what is kept in memory of it; one that is a single batch of
the log by how long all other writers wait.
"""

from dataclasses import dataclass

from rowcast.core.errors import Code, Error
from rowcast.core.result_limits import (
    RESULT_CHANGES_MAX,
    RESULT_GROUP_CHANGES_MAX,
    RESULT_STAGED_CHANGES_MIN,
)


@dataclass(frozen=True, slots=True)
class Most:
    """How many rows a result may change, and why it is no more; ``why`` is empty for a setting."""

    changes: int
    why: str = ""
    mend: str = "Divide it by parts of its keys, each as a job of its own name"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBounds:
    """How much one result may change."""

    changes: int = RESULT_CHANGES_MAX
    """Rows that one result writes or removes."""
    together: int = RESULT_GROUP_CHANGES_MAX
    """The same for one that is written in one batch, because it cannot be staged."""
    staged_min: int = RESULT_STAGED_CHANGES_MIN
    """A result with more changes is staged."""

    def most(self, why: str) -> Most:
        """Return how many changes a result may have that cannot be staged for a reason, if any."""
        if not why or self.changes <= self.together:
            return Most(self.changes)
        return Most(self.together, why)


def too_many_changes(what: str, most: Most) -> Error:
    """Return the error of a result that changes too much."""
    mend = most.mend
    if most.why:
        mend += f"; it is so few here because {most.why}, and all others wait for such a result"
    else:
        mend += ", or set results.changes_max"
    return Error(
        Code.TOO_LARGE, f"the result has {what}, and one changes at most {most.changes}. {mend}"
    )
