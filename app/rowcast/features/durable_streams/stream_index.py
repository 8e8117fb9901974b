"""The streams of a server by topic, with what is counted of them: forks, and streams of a user."""

from collections import Counter
from collections.abc import Iterator

from rowcast.features.durable_streams.stream import Stream


class StreamIndex:
    """All streams, those that are kept for their forks too."""

    def __init__(self) -> None:
        self._topics: dict[str, Stream] = {}
        self._lives: dict[str, Stream] = {}
        self._forks: Counter[str] = Counter()
        self._users: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[Stream]:
        return iter(list(self._topics.values()))

    def get(self, topic: str) -> Stream | None:
        """Return the stream at a topic."""
        return self._topics.get(topic)

    def has(self, stream: Stream) -> bool:
        """Whether it is this stream that is at its topic."""
        return self._topics.get(stream.topic) is stream

    def add(self, stream: Stream) -> None:
        """Add a stream at a topic that has none."""
        self._topics[stream.topic] = self._lives[stream.life] = stream
        self._forks[stream.parent] += 1
        self._users[stream.user] += 1

    def remove(self, stream: Stream) -> None:
        """Remove a stream."""
        del self._topics[stream.topic], self._lives[stream.life]
        for counted, name in ((self._forks, stream.parent), (self._users, stream.user)):
            counted[name] -= 1
            if not counted[name]:
                del counted[name]

    def of_user(self, user: str) -> int:
        """Return how many streams a user has created."""
        return self._users[user]

    def ending(self, stream: Stream) -> list[Stream]:
        """Return what goes with a stream: itself, and sources that were kept for it alone.

        Nothing where it has forks, for which it is kept.
        """
        found: list[Stream] = []
        last: Stream | None = None if self._forks[stream.life] else stream
        while last is not None:
            found.append(last)
            source = self._lives.get(last.parent)
            is_kept = source is not None and source.deleted and self._forks[source.life] == 1
            last = source if is_kept else None
        return found
