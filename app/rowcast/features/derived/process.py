"""A process of a run: started with a small environment, listened to, and gone in any case.

It tells what it does in lines of JSON on its standard output. Its standard input is a pipe that
closes with the server, so that it can end by itself after a kill. Whatever it writes otherwise has
no effect: only the run that waits for it takes its result.
"""

import asyncio
import json
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from os import killpg

from rowcast.core.derived_limits import JOB_END_SECONDS, JOB_LINE_BYTES_MAX, JOB_OUTPUT_BYTES_MAX


@dataclass(slots=True)
class ProcessOutput:
    """The output of a process: facts, the end of what it printed, and its exit code."""

    facts: dict[str, object] = field(default_factory=dict)
    output: str = ""
    code: int = 0


async def carry_out(
    command: Sequence[str],
    environment: Mapping[str, str] | None,
    on_report: Callable[[Mapping[str, object]], None],
) -> ProcessOutput:
    """Run a process to its end; raises OSError if it cannot be started.

    ``environment`` None: that of the server. When this is cancelled, the process is ended first.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env=environment,
        limit=JOB_LINE_BYTES_MAX,
        start_new_session=True,  # a group of its own: what it has started is ended with it
    )
    found = ProcessOutput()
    try:
        if process.stdout is None or process.stderr is None:
            raise TypeError(process)
        listening = _listen(process.stdout, found.facts, on_report)
        _, printed = await asyncio.gather(listening, _end_of(process.stderr))
        found.output = printed.decode("utf-8", "replace").strip()
        found.code = await process.wait()
    finally:
        await _end(process)
    return found


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process and what it has started: first asked, then killed."""
    if process.returncode is None:
        _signal(process, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(JOB_END_SECONDS):
                await process.wait()
    _signal(process, signal.SIGKILL)
    await process.wait()


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        killpg(process.pid, number)


async def _listen(
    lines: asyncio.StreamReader,
    facts: dict[str, object],
    on_report: Callable[[Mapping[str, object]], None],
) -> None:
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
                facts |= said
                on_report(said)


async def _end_of(lines: asyncio.StreamReader) -> bytes:
    """Return the end of what is written; all of it is read, so that nobody waits to write more."""
    kept = b""
    while piece := await lines.read(JOB_OUTPUT_BYTES_MAX):
        kept = (kept + piece)[-JOB_OUTPUT_BYTES_MAX:]
    return kept
