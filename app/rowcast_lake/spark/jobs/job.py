"""A job: data that says what it reads and which options it takes, and a function of data frames.

The function touches no file and no server, so each job can be tried on two frames made by hand.
Where frames come from and where a result goes is the runner's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from pyspark.sql import DataFrame

from rowcast.core.errors import Code, Error
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast_lake.spark.jobs.kinds import Kind


class Reads(StrEnum):
    """What a job asks for; each is one frame."""

    STATE = "state"
    """The records at the cut of a snapshot."""
    CHANGES = "changes"
    """What happened after that cut: rows of the log, with ``_op``."""
    EVENTS = "events"
    """All that is known to have happened: each event once, the oldest known records too."""


@dataclass(frozen=True, slots=True)
class Option:
    """One thing that a user may choose; ``default`` is text, read as if it had been given."""

    name: str
    kind: Kind
    default: str
    help: str


@dataclass(frozen=True, slots=True)
class Given:
    """What a job works on: frames by what they are, options read, and what is known of the data."""

    frames: Mapping[Reads, DataFrame]
    options: Mapping[str, Any]
    until: datetime
    """When the newest data was cut: intervals that are open then are open in the result."""
    table: Table | None = None
    """The declared table, if the data is of one."""

    known: DataFrame | None = None
    """On a stream: the events that are there when it begins."""

    @property
    def events(self) -> DataFrame:
        """All that happened."""
        return self.frames[Reads.EVENTS]

    @property
    def state(self) -> DataFrame:
        """The records at the cut."""
        return self.frames[Reads.STATE]

    @property
    def changes(self) -> DataFrame:
        """What happened after the cut."""
        return self.frames[Reads.CHANGES]


@dataclass(frozen=True, slots=True)
class Job:
    """Something to compute, by a name that a user types."""

    name: str
    summary: str
    """One sentence."""
    reads: tuple[Reads, ...]
    writes: str
    """The columns of the result, for people."""
    compute: Callable[[Given], DataFrame]
    options: tuple[Option, ...] = ()
    table: str = ""
    """The table that it reads unless another one is named; empty if one must be."""
    streams: bool = False
    """Whether it also runs on a stream of events, for ever."""
    example: str = ""
    order: tuple[str, ...] = ("id",)
    """How rows are sorted when they are printed."""

    def read_options(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Return every option's value; raises Error for what is unknown or cannot be read."""
        known = {option.name for option in self.options}
        for name in given:
            if name not in known:
                hint = did_you_mean(name, known)
                raise Error(
                    Code.UNPROCESSABLE,
                    f"{self.name} has no option --{name}{hint}; it has "
                    f"{', '.join(f'--{x}' for x in sorted(known)) or 'none'}",
                )
        values = {}
        for option in self.options:
            text = given.get(option.name, option.default)
            try:
                values[option.name] = option.kind.read(text)
            except ValueError as error:
                raise Error(
                    Code.UNPROCESSABLE, f"--{option.name} {text!r}: {error}; {option.help}"
                ) from error
        return values
