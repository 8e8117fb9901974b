"""A job: the rule of a derived table, and what is known of its runs.

What must outlive the server is one fact per table: the number of the last run and of the last
period that was served, and the last result. It changes in the transaction of the result.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from rowcast.codecs import CBOR, decode, encode
from rowcast.core.derivations import DerivedRule
from rowcast.core.derived_limits import DERIVED_LATE_PERIODS
from rowcast.core.tables import Table
from rowcast.routes.system_rows import time_text
from rowcast.store.store import Change

OWNER: Final = "derived/"
"""The owner of the facts of jobs."""
WAITING: Final = "waiting"
RUNNING: Final = "running"
DONE: Final = "done"
FAILED: Final = "failed"
LATE: Final = "late"
OFF: Final = "off"

COUNTS: Final = ("rows_in", "rows_out", "changed", "removed")
_KEPT: Final = (
    "run", "period", "began_at", "ended_at", "done_at", "done_run", "cut", "error", *COUNTS,
)  # fmt: skip


@dataclass(slots=True)
class Job:
    """The job of one table; times in seconds since 1970 (UTC)."""

    table: Table
    rule: DerivedRule
    known_since: float
    """When this server first knew the job: until a first result it is late from then on."""
    run: int = 0
    """The number of the last run: no result of another run is taken."""
    period: int | None = None
    """The number of the last period that a run has served, since 1970; None: none yet."""
    began_at: float | None = None
    ended_at: float | None = None
    done_at: float | None = None
    """When the last result was committed."""
    done_run: int | None = None
    """The run that made it, whose directory stays; None: none yet, or an earlier version kept it
    without."""
    cut: str = ""
    """The cut of the last result."""
    rows_in: int | None = None
    rows_out: int | None = None
    changed: int | None = None
    removed: int | None = None
    error: str | None = None
    """Why the last run failed, for everybody; None if it did not."""
    output: str = ""
    """The end of what the last run printed, for administrators."""
    running: bool = False
    queued: bool = False
    progress: float | None = None
    reading: Mapping[str, object] = field(default_factory=dict)
    """What the running process has told."""

    @property
    def name(self) -> str:
        """The name of the table, which is the name of its job."""
        return self.table.name

    @property
    def topic(self) -> str:
        """The topic of the table."""
        return self.table.path or ""

    def restore(self, value: bytes) -> None:
        """Restore what is kept."""
        facts = cast("dict[str, object]", decode(value, CBOR))
        for name in _KEPT:
            if name in facts:
                setattr(self, name, facts[name])
        done = self.done_at is not None and self.done_at == self.ended_at and self.error is None
        if "done_run" not in facts and done:
            self.done_run = self.run

    def fact(self) -> Change:
        """Return what is kept, as a change of facts."""
        kept = {name: getattr(self, name) for name in _KEPT}
        return Change(OWNER, self.name, encode(kept, CBOR))

    def period_at(self, now: float) -> int:
        """Return the number of the period of a time: a restart does not shift them."""
        return int(now // self.rule.every_seconds)

    def is_due(self, now: float) -> bool:
        """Whether a run is due: at once for a new table, then once each period.

        A period that is yet to come was counted by another rule or a wrong clock; but the next one
        may have been served just before the clock was put right.
        """
        number = self.period_at(now)
        return self.period is None or number > self.period or number < self.period - 1

    def due_at(self, now: float) -> float:
        """Return when the next run is due; 0 for at once."""
        if self.period is None or self.is_due(now):
            return 0.0
        return (self.period + 1) * self.rule.every_seconds

    @property
    def fresh_seconds(self) -> float:
        """How old a result may be."""
        return self.rule.every_seconds * DERIVED_LATE_PERIODS

    def is_late(self, now: float) -> bool:
        """Whether the result is too old."""
        return now - max(self.done_at or 0.0, self.known_since * (self.done_at is None)) > (
            self.fresh_seconds
        )

    def is_stale(self, now: float) -> bool:
        """Whether the table is stale: its job is late, or has failed."""
        return self.error is not None or self.is_late(now)

    def state(self, now: float) -> str:
        """Return the word for what it does."""
        if self.running:
            return RUNNING
        if self.queued:
            return WAITING
        if self.error is not None:
            return FAILED
        if self.is_late(now):
            return LATE
        return WAITING if self.done_at is None else DONE

    def row(self, now: float, *, enabled: bool) -> dict[str, object]:
        """Return what everybody sees of it who may read the row."""
        ended = self.ended_at if not self.running else now
        took = None if self.began_at is None or ended is None else round(ended - self.began_at, 3)
        return {
            "id": self.name,
            "job": self.rule.job,
            "from": list(self.rule.sources),
            "every_seconds": self.rule.every_seconds,
            "state": self.state(now) if enabled else OFF,
            "stale": self.is_stale(now),
            "run": self.run,
            "progress": self.progress,
            "started": time_text(self.began_at),
            "ended": None if self.running else time_text(self.ended_at),
            "duration_seconds": took,
            "done": time_text(self.done_at),
            "cut": self.cut or None,
            **{name: self.reading.get(name, getattr(self, name)) for name in COUNTS},
            "error": self.error,
            "due": time_text(self.due_at(now) or None) if enabled else None,
        }
