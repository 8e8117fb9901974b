"""Stale tables: ``$stale/<table>`` is a record while the job of a table is late or has failed.

The same words as those of a missed deadline of a record (M4), one level up.
"""

from typing import Final

from rowcast.codecs import JSON, encode
from rowcast.core.callers import SERVER
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.freshness import STALE_PREFIX
from rowcast.features.derived.job import Job
from rowcast.features.derived.writing import WRITER
from rowcast.kernel.kernel import Kernel
from rowcast.routes.system_rows import time_text
from rowcast.writes.write import Outcome

_WAITS: Final = None
"""A word is on its way to the log: it is not known which holds."""


class Staleness:
    """Which tables are told to be stale."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._reported: dict[str, bool | None] = {}

    async def read(self, job: Job) -> None:
        """Read what an earlier run of the server told."""
        try:
            await self._kernel.read(STALE_PREFIX + job.topic, SERVER)
            self._reported[job.name] = True
        except Error as error:
            if error.code is not Code.NOT_FOUND:
                raise
            self._reported[job.name] = False

    def look(self, job: Job, now: float) -> bool:
        """Tell what is no longer as it was told; return whether something was."""
        stale = job.is_stale(now)
        was_stale = self._reported.get(job.name, False)
        if was_stale is _WAITS or was_stale == stale:
            return False
        self._reported[job.name] = _WAITS

        def done(outcome: Outcome) -> None:
            self._reported[job.name] = (not stale) if isinstance(outcome, Error) else stale

        self._kernel.submit(_event(job, stale=stale), WRITER, done)
        return True


def _event(job: Job, *, stale: bool) -> Event:
    topic = STALE_PREFIX + job.topic
    if not stale:
        return Event(topic, DELETE, b"", None, 1, True)
    facts = {"last_seen": time_text(job.done_at), "deadline_seconds": job.fresh_seconds}
    return Event(topic, PUT, encode(facts, JSON), JSON, 1, True)
