"""At which topics a large transaction writes, as bits at their hashes: of one size for any number.

A bit may be that of another topic, too: so it may say yes of a topic at which nothing is written,
and never no of one where something is. Who asks does a little in vain then, such as looking into
the log once. Python's hashes of text are of one process, and nobody can choose equal ones.
"""

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

from rowcast.core.result_limits import RESULT_MARKS_BYTES


class TopicMarks:
    """A set of topics that can only grow; ``size_bytes`` is a power of two."""

    __slots__ = ("_bits", "_mask", "count")

    def __init__(self, size_bytes: int = RESULT_MARKS_BYTES) -> None:
        flags = MAP_PRIVATE | MAP_ANONYMOUS
        self._bits = mmap(-1, size_bytes, flags=flags)  # takes memory where there are marks
        self._mask = size_bytes * 8 - 1
        self.count = 0
        """How often one was added."""

    def add(self, topic: str) -> None:
        """Add a topic."""
        at = hash(topic) & self._mask
        self._bits[at >> 3] |= 1 << (at & 7)
        self.count += 1

    def has(self, topic: str) -> bool:
        """Whether a topic may be one of them."""
        at = hash(topic) & self._mask
        return self._bits[at >> 3] >> (at & 7) & 1 == 1
