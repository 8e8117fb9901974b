"""Reads that several readers wait for together: clients that join at a time cost one read (C25).

A reader may share a read that begins after it asked: it sees everything that was there then. A read
that had begun before may lack that, so the reader waits for the next one, with all others who do.
So any number of equal reads that are asked for at a time take two turns of a thread. When a shared
read fails, or its first reader leaves, the next one reads for all others. Who has waited for two
reads that failed reads for itself: else the last of many would wait as long as all of them take.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar, cast

from rowcast.core.queries import Query
from rowcast.core.read_limits import SHARED_READ_FAILURES_MAX
from rowcast.core.tables import Table
from rowcast.store.store import Scan

T = TypeVar("T")


class _Flight(Generic[T]):
    """One read on its way."""

    __slots__ = ("answer", "begun", "failed", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.begun = False
        """Whether a thread has begun; set by the thread, before it reads."""
        self.answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        """Cancelled when the read has no answer."""
        self.failed = False
        """Whether the read failed; else its first reader has left."""


class SharedReads:
    """The reads of one process that may be shared."""

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[object]] = {}
        self._number = 0
        self.shared = 0
        """Reads that were not made, because another one had the answer."""

    async def read(
        self,
        key: Hashable,
        call: Callable[[], T],
        run: Callable[[Callable[[], T]], Awaitable[T]],
    ) -> T:
        """Return what ``call`` returns on a thread of ``run``; equal keys are equal reads.

        Without a key it is not shared.
        """
        if key is None:
            return await run(call)
        came, failures = self._number, 0
        while (flight := self._flights.get(key)) is not None:
            is_later = flight.number > came or not flight.begun
            await asyncio.wait((flight.answer,))  # which is not cancelled with one of its readers
            if is_later and not flight.answer.cancelled():
                self.shared += 1
                return cast("T", flight.answer.result())
            failures += flight.failed
            if failures >= SHARED_READ_FAILURES_MAX:
                return await run(call)
        return await self._lead(key, call, run)

    async def _lead(
        self,
        key: Hashable,
        call: Callable[[], T],
        run: Callable[[Callable[[], T]], Awaitable[T]],
    ) -> T:
        self._number += 1
        flight: _Flight[object] = _Flight(self._number)
        self._flights[key] = flight

        def begin() -> T:
            flight.begun = True
            return call()

        try:
            found = await run(begin)
        except Exception:
            flight.failed = True
            raise
        else:
            flight.answer.set_result(found)
            return found
        finally:
            if not flight.answer.done():
                flight.answer.cancel()
            if self._flights.get(key) is flight:
                del self._flights[key]


def scans_key(scans: Sequence[Scan], limit: int) -> Hashable:
    """Return the key of a page of one pattern; None for several, and for single topics."""
    (asked, *others) = scans
    if others or asked.topics.exact:
        return None
    # By name: the hash of a table is that of all its attributes.
    table = asked.table.name if asked.table is not None else None
    return table, asked.topics.text, asked.after, limit


def query_key(table: Table, query: Query) -> Hashable:
    """Return the key of a query; None for one with a condition on a list or an object.

    Values that Python takes for equal, such as 1 and true, differ in their text.
    """
    try:
        return table.name, hash(query), query, repr(query)
    except TypeError:
        return None
