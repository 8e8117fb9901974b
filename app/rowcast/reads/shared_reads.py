"""Reads that several readers wait for together: clients that join at a time cost one read (C25).

A reader may share a read that begins after it asked: it sees everything that was there then. A read
that had begun before may lack that, so the reader waits for the next one, with all others who do.
So any number of equal reads that are asked for at a time take two turns of a thread. When a shared
read fails, or its first reader leaves, the others read for themselves.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar, cast

T = TypeVar("T")


class _Flight(Generic[T]):
    """One read on its way."""

    __slots__ = ("answer", "begun", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.begun = False
        """Whether a thread has begun; set by the thread, before it reads."""
        self.answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        """Cancelled when the read failed."""


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
        """Return what ``call`` returns on a thread of ``run``; equal keys are equal reads."""
        came = self._number
        while (flight := self._flights.get(key)) is not None:
            is_later = flight.number > came or not flight.begun
            await asyncio.wait((flight.answer,))  # which is not cancelled with one of its readers
            if is_later and not flight.answer.cancelled():
                self.shared += 1
                return cast("T", flight.answer.result())
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
            flight.answer.set_result(found)
            return found
        finally:
            if not flight.answer.done():
                flight.answer.cancel()
            if self._flights.get(key) is flight:
                del self._flights[key]
