"""Topics in a file without a name, distributed over shards by a hash: one is read at a time.

It exists so that two large sets of topics can be compared without having either in memory: what is
in one shard of the first can only be in the same shard of the second. A few topics stay in memory.
"""

import asyncio
from array import array
from collections.abc import Iterable
from zlib import crc32

from rowcast.core.result_limits import RESULT_SHARDS, RESULT_TOPIC_BYTES, RESULT_TOPICS_HELD_BYTES
from rowcast.results.row_file import Page, RowFile

SEPARATOR = "\0"
"""No topic has it (MQTT 5, 4.7.3)."""


def shard_of(topic: str) -> int:
    """Return the number of the shard of a topic."""
    return crc32(topic.encode()) % RESULT_SHARDS


class TopicShards:
    """Topics, each as often as it was added; ``held_bytes`` of them are in memory, at most."""

    def __init__(self, directory: str | None, held_bytes: int = RESULT_TOPICS_HELD_BYTES) -> None:
        self._file = RowFile(directory)
        self._held_bytes_max = held_bytes
        self._held: dict[int, list[str]] = {}
        self.held_bytes = 0
        """Bytes of the topics that are in memory, about."""
        self._bundles: list[tuple[Page, array[int]]] = []
        """What is in the file: pages, and where in them each shard begins and the last one ends."""
        self.count = 0
        """How many were added."""

    async def add(self, topics: Iterable[str]) -> None:
        """Add topics. Raises BUSY when the disk refuses them."""
        for topic in topics:
            self._held.setdefault(shard_of(topic), []).append(topic)
            self.held_bytes += RESULT_TOPIC_BYTES + len(topic)
            self.count += 1
        if self.held_bytes > self._held_bytes_max:
            await self._store()

    async def _store(self) -> None:
        places, pieces = array("Q", [0]), list[bytes]()
        for number in range(RESULT_SHARDS):
            pieces.append(SEPARATOR.join(self._held.get(number, ())).encode())
            places.append(places[-1] + len(pieces[-1]))
        page = self._file.page_of(b"".join(pieces), 0)
        self._bundles.append((page, places))
        self._held, self.held_bytes = {}, 0
        await asyncio.to_thread(self._file.write, page)

    async def shard(self, number: int) -> list[str]:
        """Return what is in a shard; a thread reads the file, if there is one."""
        found = list(self._held.get(number, ()))
        if self._bundles:
            found += await asyncio.to_thread(self._read, number)
        return found

    def _read(self, number: int) -> list[str]:
        found: list[str] = []
        for page, places in self._bundles:
            first, end = places[number], places[number + 1]
            if first < end:
                data = self._file.bytes_at(page.at + first, end - first)
                found += data.decode().split(SEPARATOR)
        return found

    def close(self) -> None:
        """Give back the disk; in a thread, as it blocks."""
        self._file.close()

    def discard(self) -> None:
        """Refuse all further reads and writes, at once."""
        self._file.discard()
