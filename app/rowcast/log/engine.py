"""The interface of an engine: what keeps the log of several machines, JetStream or PostgreSQL.

An engine knows nothing of batches. It has entries, numbered without gaps, each durable on a
majority of its servers before it answers, and one small *lease*, by which nodes agree who is to
append. The lease is for liveness only: two nodes may believe that they hold it. What keeps them
from writing two histories is that an entry is taken only as the next one (compare-and-set).

``tests/engine_conformance.py`` is this interface as a test suite; every engine passes it. Every
method blocks, and may be called from any thread; each raises BUSY when the engine does not answer
in time. After that nobody knows whether an entry was stored: its writer looks, or appends the same
entry again, which is then stored once (``replicated_log.py``).
"""

from typing import NamedTuple, Protocol

from rowcast.core.errors import Code, Error


class Lease(NamedTuple):
    """Who holds the lease, as one node sees it."""

    version: int = 0
    """Greater after each change; 0 before the first. Who changes it tells the version it knows."""
    holder: bytes = b""
    """What the holder wrote of itself."""


class Engine(Protocol):
    """Entries on several machines, and a lease."""

    @property
    def epoch(self) -> str:
        """Eight hexadecimal digits that name this log; made with it, kept for its life."""

    @property
    def entry_bytes_max(self) -> int:
        """The largest entry that it takes."""

    def bounds(self) -> tuple[int, int]:
        """Return the numbers of the first entry that is there and of the last.

        For a log that has none now, the second is one less than the first.
        """

    def append(self, number: int, data: bytes) -> None:
        """Store an entry, tried once; on return it is durable on a majority.

        Raises CONFLICT unless it is the next one, TOO_LARGE beyond ``entry_bytes_max``, BUSY when
        there is no answer.
        """

    def read(self, after: int, size: int) -> list[bytes]:
        """Return the entries after a number, in order, up to about ``size`` bytes, at least one.

        It may miss the newest, and give fewer. Raises GONE when the next one was let go of.
        """

    def lease(self) -> Lease:
        """Return the lease as it is now; it may be an older one while servers are cut off."""

    def take_lease(self, known: int, holder: bytes) -> Lease:
        """Take the lease, or keep it; ``known`` is its version. Raises CONFLICT at another one."""

    def trim(self, until: int) -> None:
        """Allow to let go of entries up to a number; how many it keeps is the engine's setting."""

    def close(self) -> None:
        """Release connections."""


def no_answer(engine: str, what: str) -> Error:
    """Return the refusal for an engine that is silent; ``what`` is known of it."""
    return Error(
        Code.BUSY,
        f"{engine}, which keeps the log, does not take this now: {what}",
        retry_after_seconds=1,
    )


def not_the_next(number: int) -> Error:
    """Return the refusal of an entry that does not follow the last one."""
    return Error(Code.CONFLICT, f"entry {number} is not the next one: another node has appended")


def too_large(size: int, most: int) -> Error:
    """Return the refusal of an entry that no server would take."""
    return Error(
        Code.TOO_LARGE,
        f"a commit of {size} bytes, where the engine of the cluster takes {most}; write less at "
        "once",
    )
