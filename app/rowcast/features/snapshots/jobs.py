"""Jobs: one export each, carried out by a process of its own (S1).

The process tells how far it is in lines of JSON on its standard output, each an object with any of
``table``, ``rows``, ``of``, ``bytes``, ``cut``, ``snapshot``, ``page``, and ``code``, that of its
error. Its exit code says whether it did what it should, the end of its standard error why not. It
is ended with the server, and when it takes too long; what it leaves behind then has a name that no
reader looks at.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from rowcast.core.export_limits import (
    EXPORT_COMPLAINT_BYTES_MAX,
    EXPORT_LINE_BYTES_MAX,
    EXPORT_SECONDS_MAX,
)
from rowcast.routes.system_rows import time_text

WAITING: Final = "waiting"
RUNNING: Final = "running"
DONE: Final = "done"
FAILED: Final = "failed"
STOPPED: Final = "stopped"
log = logging.getLogger("rowcast_lake.snapshots")

_PLACES: Final = {
    "--out": "the directory of snapshots",
    "--data": "the data directory",
    "--schema": "the schema",
}
"""What is said instead of the places that the command of an export names."""
_TOLD: Final[dict[str, type]] = {
    "table": str,
    "rows": int,
    "of": int,
    "bytes": int,
    "cut": str,
    "snapshot": str,
    "page": str,
    "code": str,
}
"""What a process may tell. The rows of a table, of about how many; in the end those of all."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be exported: these tables, or all; whole, or only what the log has since.

    ``audience`` is the role that may see it, and has a place of its own; empty: administrators.
    """

    tables: tuple[str, ...] = ()
    changes: bool = False
    audience: str = ""


@dataclass(slots=True)
class Job:
    """One export: what was ordered, and what is known of it."""

    name: str
    order: Order
    began_at: float
    state: str = WAITING
    ended_at: float | None = None
    error: str | None = None
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def row(self) -> dict[str, object]:
        """What is shown of it."""
        return {
            "id": self.name,
            "kind": "job",
            "state": self.state,
            "changes": self.order.changes,
            "audience": self.order.audience or None,
            "tables": list(self.order.tables) or None,
            **{name: self.facts.get(name) for name in _TOLD},
            "began": time_text(self.began_at),
            "ended": time_text(self.ended_at),
            "error": self.error,
        }


async def carry_out(
    job: Job,
    command_of: Callable[[Order], Sequence[str]],
    now: Callable[[], float],
    changed: Callable[[], None],
) -> None:
    """Run a job to its end, whatever that is; ``changed`` is called when its row is another.

    ``command_of`` is called in a thread: what is too long for a command line it writes to a file.
    """
    job.state = RUNNING
    changed()
    try:
        async with asyncio.timeout(EXPORT_SECONDS_MAX):
            command = await asyncio.to_thread(command_of, job.order)
            job.error = await _run(job, command, changed)
        job.state = FAILED if job.error else DONE
    except TimeoutError:
        job.state = FAILED
        job.error = f"it took more than {EXPORT_SECONDS_MAX} seconds and was ended"
    except OSError as error:
        job.state, job.error = FAILED, f"the export cannot be started: {error.strerror}"
    except asyncio.CancelledError:
        job.state, job.error = STOPPED, "it was ended before it was done"
        raise
    finally:
        job.ended_at = now()
        changed()


async def _run(job: Job, command: Sequence[str], changed: Callable[[], None]) -> str | None:
    """Run the process; return why it failed, None when it did not. It is gone in any case."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *command, stdin=nothing, stdout=pipe, stderr=pipe, limit=EXPORT_LINE_BYTES_MAX
    )
    try:
        if process.stdout is None or process.stderr is None:
            raise TypeError(process)
        _, complaint = await asyncio.gather(
            _listen(job, process.stdout, changed), _last(process.stderr)
        )
        code = await process.wait()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if code == 0:
        return None
    said = complaint.decode("utf-8", "replace").strip().rpartition("\n")[2]
    if said:
        log.warning("an export failed: %s", said)
    return (
        without_places(said.removeprefix("rowcast: "), command)
        or f"the export ended with code {code} and said nothing"
    )


def without_places(said: str, command: Sequence[str]) -> str:
    """Return what an export said, without where on this machine its files are: rows show it."""
    named = pairwise(command)
    places = {place: _PLACES[option] for option, place in named if option in _PLACES}
    for place in sorted(places, key=len, reverse=True):  # the one within another first
        if place.startswith("/"):
            said = said.replace(place, places[place])
    return said


async def _listen(job: Job, lines: asyncio.StreamReader, changed: Callable[[], None]) -> None:
    """Take in what the process tells; what is no such line is of no use, and passed over."""
    while True:
        try:
            line = await lines.readline()
        except ValueError:  # longer than any that it should write
            continue
        if not line:
            return
        with suppress(ValueError):
            said = json.loads(line)
            if isinstance(said, dict):
                job.facts |= {
                    name: said[name]
                    for name, kind in _TOLD.items()
                    if isinstance(said.get(name), kind)
                }
                changed()


async def _last(lines: asyncio.StreamReader) -> bytes:
    """Return the end of what is written; all of it is read, so that nobody waits to write more."""
    kept = b""
    while piece := await lines.read(EXPORT_COMPLAINT_BYTES_MAX):
        kept = (kept + piece)[-EXPORT_COMPLAINT_BYTES_MAX:]
    return kept
