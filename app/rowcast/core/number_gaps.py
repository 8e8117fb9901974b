"""Gaps in the numbers of the log: numbers that no event has, and none will ever have.

Numbers are reserved on disk before they are used, and a start begins after those reserved by the
run before, so it leaves up to ``SEQ_RESERVE`` of them unused; a large result leaves some, too.
Whoever tells how many events a reader is behind subtracts them.
"""

import struct
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

GAPS_MAX: Final = 1_000
"""Gaps that are kept, the newest: one for each start and each large result, 16 kB on disk. Numbers
of older ones are counted as events, by readers that have been away for that long."""
_GAP: Final = struct.Struct(">QQ")


class NumberGaps:
    """Ranges of numbers, in order; an object never changes, so all threads may read it.

    ``gaps`` are pairs: the number before the first one that is missing, and the last one missing.
    """

    __slots__ = ("_afters", "_lasts", "_totals")

    def __init__(self, gaps: Sequence[tuple[int, int]] = ()) -> None:
        kept = list(gaps)[-GAPS_MAX:]
        self._afters = [after for after, _ in kept]
        self._lasts = [last for _, last in kept]
        self._totals = list(accumulate((last - after for after, last in kept), initial=0))

    @classmethod
    def read(cls, data: bytes, head: int) -> "NumberGaps":
        """Return what ``encoded`` returned; without gaps that no event up to ``head`` follows.

        Those are of a history that a restore has undone. Bytes that are no gaps are none: nothing
        but counts depends on them.
        """
        if len(data) % _GAP.size:
            return cls()
        gaps = [(after, last) for after, last in _GAP.iter_unpack(data) if after < last < head]
        following = all(one[1] < other[0] for one, other in pairwise(gaps))
        return cls(gaps if following else ())

    def encoded(self) -> bytes:
        """Return these gaps as bytes."""
        pairs = zip(self._afters, self._lasts, strict=True)
        return b"".join(_GAP.pack(after, last) for after, last in pairs)

    def with_gap(self, head: int, last: int) -> "NumberGaps":
        """Return these gaps and one more: the numbers after the log's ``head``, up to ``last``."""
        gaps = [pair for pair in zip(self._afters, self._lasts, strict=True) if pair[1] < head]
        return NumberGaps([*gaps, (head, last)])

    def missing(self, after: int, until: int) -> int:
        """Return how many numbers after one, up to another, no event has."""
        return self._missing_up_to(until) - self._missing_up_to(after)

    def _missing_up_to(self, number: int) -> int:
        index = bisect_left(self._afters, number)
        if not index:
            return 0
        last = index - 1
        return self._totals[last] + min(self._lasts[last], number) - self._afters[last]
