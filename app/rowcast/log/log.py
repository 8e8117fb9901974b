"""The interface of a log, for every engine: local files, NATS JetStream, PostgreSQL.

A log is a list of batches numbered from 1 without gaps. Each writer has a term (a fencing token),
greater than that of every earlier writer, and names with each append the batch that it believes to
be the last one. If that is wrong, the append is refused (compare-and-swap), so a former writer
cannot write after a new one began. ``tests/log/log_conformance.py`` is this interface as a test
suite; every engine passes it.

Every method blocks and may be called from any thread; ``append`` and ``trim`` by one at a time.
"""

from typing import NamedTuple, Protocol

from rowcast.core.errors import Code, Error
from rowcast.log.batch import Batch


class Head(NamedTuple):
    """Where a log ends."""

    number: int = 0
    """The number of the last batch; 0 for a new log."""
    last: int = 0
    """The number of the last event."""


def fenced(why: str = "another node has appended to the log") -> Error:
    """Return the refusal of a writer whose term is over."""
    return Error(
        Code.BUSY,
        f"{why}, so this node is no longer the sequencer; connect again, to the one that is",
        retry_after_seconds=1,
        elsewhere=True,
    )


class Log(Protocol):
    """The one order of events."""

    @property
    def epoch(self) -> str:
        """Eight hexadecimal digits that name this log; made with it, kept for its life."""

    @property
    def term(self) -> int:
        """The term of this writer, which its batches must have."""

    @property
    def head(self) -> Head:
        """The end of the log: everything up to here is durable."""

    @property
    def trimmed(self) -> int:
        """The number of the last batch that may be trimmed; every later one exists."""

    def append(self, batch: Batch) -> None:
        """Append a batch; on return it is durable.

        Raises CONFLICT when it is not the next of this writer's term: another one appended, or this
        one does not know of all it has appended itself. Raises BUSY when the disk refuses; then
        nothing is in the log, and the same may succeed later.
        """

    def read(self, after: int, size: int) -> list[Batch]:
        """Return the batches after a number, in order, up to about ``size`` bytes, at least one.

        Empty at the end of the log. Raises GONE when some of them were trimmed, and INVALID, naming
        the place, when one is damaged.
        """

    def wait(self, after: int, seconds: float) -> bool:
        """Wait until the log has a batch after a number, at most so long; tell whether it has."""

    def trim(self, until: int) -> None:
        """Let go of batches up to a number, which everybody has read; maybe fewer are removed."""

    def close(self) -> None:
        """Release files; what was appended stays."""
