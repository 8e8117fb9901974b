"""A job: its inputs and options as data, and a function of data frames.

The function uses no file and no server, so each job can be tested on two handmade frames. The
runner reads the frames and writes the result.
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
    """The inputs of a job; each is one frame."""

    STATE = "state"
    """The records at the cut of a snapshot."""
    CHANGES = "changes"
    """The events after that cut: rows of the log, with ``_op``."""
    EVENTS = "events"
    """All known events, each once, including the oldest known records."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a job; ``default`` is text, parsed like a given value."""

    name: str
    kind: Kind
    default: str
    help: str


@dataclass(frozen=True, slots=True)
class Given:
    """The input of a job: frames by kind, parsed options, and facts about the data."""

    frames: Mapping[Reads, DataFrame]
    options: Mapping[str, Any]
    until: datetime
    """The cut of the newest data: intervals open at that time are open in the result."""
    table: Table | None = None
    """The declared table, if the data is of one."""

    known: DataFrame | None = None
    """On a stream: the events present at its start."""

    @property
    def events(self) -> DataFrame:
        """All events."""
        return self.frames[Reads.EVENTS]

    @property
    def state(self) -> DataFrame:
        """The records at the cut."""
        return self.frames[Reads.STATE]

    @property
    def changes(self) -> DataFrame:
        """The events after the cut."""
        return self.frames[Reads.CHANGES]


@dataclass(frozen=True, slots=True)
class Job:
    """A computation, with the name that a user types."""

    name: str
    summary: str
    """One sentence."""
    reads: tuple[Reads, ...]
    writes: str
    """The columns of the result, for people."""
    compute: Callable[[Given], DataFrame]
    options: tuple[Option, ...] = ()
    table: str = ""
    """The default table; empty if the user must name one."""
    streams: bool = False
    """Whether it also runs on an endless stream of events."""
    example: str = ""
    order: tuple[str, ...] = ("id",)
    """The sort order of printed rows."""

    def read_options(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Return every option's value; raises Error for unknown options and invalid values."""
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
