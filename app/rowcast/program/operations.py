"""Wiring of operations: readiness, overload protection, shutdown.

The components do not know each other.
"""

import asyncio
import logging
import signal
from collections.abc import Coroutine
from typing import Final

from rowcast.core.overload_limits import STOP_SECONDS_MAX
from rowcast.doors.http.documents.readiness import Readiness, ReadProbe, StoreProbe
from rowcast.journal.applier_process import ProcessApplying
from rowcast.journal.journaled_store import JournaledStore
from rowcast.kernel.kernel import Kernel
from rowcast.program.doors import Doors
from rowcast.program.process import cut
from rowcast.routes.figure_rows import Facts, listed_rows

log = logging.getLogger("rowcast")

APPLIER: Final = "$SYS/applier"


def make_ready(readiness: Readiness, kernel: Kernel, doors: Doors) -> None:
    """Register the readiness checks: disk, write backlog, reads, memory and ports."""
    committer, shedding = kernel.committer, kernel.reader.shedding

    def backlog() -> str:
        return f"{committer.backlog} writes wait for the disk" if committer.crowded else ""

    def memory() -> str:
        level = shedding.level
        return f"short of memory: {level.name.lower()} are refused" if level else ""

    def ports() -> str:
        missing = [name for name in doors.wanted if name not in doors.open]
        if doors.closed:
            return "the server is stopping"
        return f"not open yet: {', '.join(missing)}" if missing else ""

    readiness.checks["store"] = StoreProbe(committer, kernel.now)
    readiness.checks["reads"] = ReadProbe(kernel.reader)
    readiness.add("backlog", backlog)
    readiness.add("memory", memory)
    readiness.add("ports", ports)


def tell_of_applier(readiness: Readiness, kernel: Kernel, store: JournaledStore) -> None:
    """Show the process that writes the tables as a row, and what is wrong with it as a warning."""
    applying = store.applying
    if not isinstance(applying, ProcessApplying):
        return

    def facts() -> dict[str, Facts]:
        return {
            "0": {
                "pid": applying.pid,
                "restarts": applying.restarts,
                "hangs": applying.hangs,
                "silent_seconds": applying.silence.seconds,
                "problem": store.tail.problem,
            }
        }

    def problem() -> str:
        silence = applying.silence
        silent = f"the applier has shown no sign of life for {silence.seconds} s"
        return store.tail.problem or (silent if silence.is_long else "")

    readiness.warnings["tables"] = problem
    kernel.rows(APPLIER, listed_rows(APPLIER, facts))


def hear_signals() -> tuple[asyncio.Event, asyncio.Event]:
    """Return what is set at the first SIGINT or SIGTERM, and at the second."""
    stopping, again = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def asked() -> None:
        (again if stopping.is_set() else stopping).set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked)
    return stopping, again


async def end(stop: Coroutine[object, object, None], again: asyncio.Event) -> None:
    """Stop a server gracefully; at a second signal, or after STOP_SECONDS_MAX, exit at once.

    Acknowledged writes are durable either way.
    """
    stopping = asyncio.ensure_future(stop)
    asked = asyncio.ensure_future(again.wait())
    await asyncio.wait(
        (stopping, asked), timeout=STOP_SECONDS_MAX, return_when=asyncio.FIRST_COMPLETED
    )
    asked.cancel()
    if stopping.done():
        stopping.result()
        return
    why = "asked twice" if again.is_set() else f"not done within {STOP_SECONDS_MAX} s"
    log.error("stopping at once: %s", why)
    cut()
