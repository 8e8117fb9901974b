"""The most frequent of many, in bounded memory: the Space-Saving sketch (Metwally et al., 2005).

It has room for ``size`` names. One that is new when there is no room takes the place, and the
count, of the least one; that count is its ``error``. So of a total weight N: a count is never too
small, it is too large by at most the error, no error is above N / size, and every name that came
with more than N / size in all has a place.
"""

from heapq import heappop, heappush
from typing import Generic, TypeVar


class Counted:
    """One name's place; extended by what else is to be kept of it."""

    __slots__ = ("count", "error", "name")

    def __init__(self, name: str, error: int) -> None:
        self.name = name
        self.count = self.error = error


C = TypeVar("C", bound=Counted)


class Top(Generic[C]):
    """The places, by name. Who counts adds to the count of a place and to ``total``."""

    __slots__ = ("_heap", "_make", "places", "size", "total")

    def __init__(self, size: int, make: type[C]) -> None:
        self.size = size
        self._make = make
        self.places: dict[str, C] = {}
        self._heap: list[tuple[int, str]] = []
        """Counts as they once were; what is out of date is put right when it is the least."""
        self.total = 0
        """The weight of all that came."""

    def place(self, name: str) -> C:
        """Make a place for a name that has none."""
        error = 0
        if len(self.places) >= self.size:
            least = self._least()
            error = least.count
            del self.places[least.name]
        place = self.places[name] = self._make(name, error)
        heappush(self._heap, (error, name))
        return place

    def _least(self) -> C:
        """Take the least one's entry off the heap."""
        while True:
            count, name = heappop(self._heap)
            place = self.places[name]
            if place.count == count:
                return place
            heappush(self._heap, (place.count, name))
