"""The requests of an import: each has one effect, however often it is sent.

Each carries an idempotency key of its own: the import's name, the number of rows before it, and
whether it has one row of a table that takes them one by one. So a request whose answer was lost is
sent again, and the server answers with the receipt of the first, also to another process that goes
on with the import. A server that is busy, restarts or cannot be reached is asked again a bounded
number of times. It knows neither files nor tables.
"""

import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from rowcast.core.errors import Code, Error
from rowcast.core.export_limits import (
    IMPORT_ATTEMPTS,
    IMPORT_RETRY_SECONDS_MAX,
    IMPORT_RETRY_SECONDS_MIN,
)
from rowcast_client import SyncRowcast
from rowcast_client.problem import Problem

_PLACE: Final = re.compile(r"([0-9a-f]{32}):([0-9]{1,15})")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an import goes on: its name, and the rows that are written already."""

    name: str
    rows: int = 0

    @classmethod
    def of(cls, text: str) -> "Place":
        """Return the place that an import told when it ended early; raises INVALID."""
        found = _PLACE.fullmatch(text)
        if found is None:
            raise Error(
                Code.INVALID,
                f"{text[:80]!r} is no place of an import; take what it wrote after --resume when "
                "it ended",
            )
        return cls(found[1], int(found[2]))

    @classmethod
    def start(cls) -> "Place":
        """Return the beginning of a new import."""
        return cls(uuid4().hex)

    def __str__(self) -> str:
        return f"{self.name}:{self.rows}"


@dataclass(frozen=True, slots=True)
class Patience:
    """How often one request is sent, and the delays in between, in seconds."""

    attempts: int = IMPORT_ATTEMPTS
    seconds_min: float = IMPORT_RETRY_SECONDS_MIN
    seconds_max: float = IMPORT_RETRY_SECONDS_MAX

    def pause(self, attempt: int, asked: float) -> float:
        """Return the delay after an attempt (from 1), after which the server asked for one."""
        return min(max(self.seconds_min * (1 << (attempt - 1)), asked), self.seconds_max)


PATIENCE: Final = Patience()


class ImportRequests:
    """Sends the writes of one import, each until it is answered."""

    def __init__(
        self,
        client: SyncRowcast,
        patience: Patience = PATIENCE,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._patience = patience
        self._wait = wait
        self._met = False
        """Whether a server was reached."""

    def put(self, path: str, body: bytes, headers: Mapping[str, str], key: str) -> None:
        """Write once for each key; raises the Problem of a refusal, or of the last attempt."""
        marked = {**headers, "Idempotency-Key": f'"import-{key}"'}
        attempt = 1
        while True:
            try:
                self._client.request("PUT", path, body, marked)
            except Problem as problem:
                self._met = self._met or not problem.is_unsent
                if attempt >= self._patience.attempts or not self._may_help(problem):
                    raise
                self._pause(attempt, problem)
            else:
                self._met = True
                return
            attempt += 1

    def _may_help(self, problem: Problem) -> bool:
        """Whether another attempt may succeed; not at an address where nobody ever answered.

        409 with Retry-After: an earlier attempt is still being carried out.
        """
        return self._met and (not problem.is_final or problem.retry_after > 0)

    def _pause(self, attempt: int, problem: Problem) -> None:
        seconds = self._patience.pause(attempt, problem.retry_after)
        print(
            f"{problem.message}; attempt {attempt + 1} of {self._patience.attempts} "
            f"in {seconds:g} seconds",
            file=sys.stderr,
        )
        self._wait(seconds)
