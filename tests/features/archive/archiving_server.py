"""A server whose retention archives, beside a twin with the same events that never trims."""

from build import Server, Threads
from rowcast.core.topic_tables import TopicRoot, TopicTable
from rowcast.core.topics import TopicFilter
from rowcast.features.archive.archiver import ArchiverBounds
from rowcast.features.archive.disk_place import DiskPlace
from rowcast.features.archive.feature import LogArchive
from rowcast.features.retention.retention import Retention, RetentionSettings
from rowcast.store.older_rows import OldestRoom
from rowcast.store.sqlite import SqlStore
from rowcast.store.store import Keep
from rowcast_lake.archive.log_files import ParquetFiles

TOPICS = ("Note/1", "Note/2", "Dog/1", "Dog/2", "home/temp", "home/hum", "work/x", "alone")
PLACES = ("Note/1", "Note/#", "home/temp", "home/#", "work/#", "alone", "home/+", "Dog/#")
"""Filters that a URL can name."""
FILTERS = (*PLACES, "#", "+/1")
LEVELS = ("home", None)
"""Of the topic tables that are made; `work` has none."""


class Archiving:
    """A server with an archive in a folder; small files and groups, so that a few events are many.

    ``files`` replaces the format; ``features`` those of the server; ``stored`` makes a place in a
    store of an epoch. ``place`` is that of several servers, or of a node, and has folders by name.
    """

    def __init__(
        self,
        folder,
        keep=5,
        files=None,
        step=6,
        days=0,
        file_bytes=40_000,
        features=(),
        stored=None,
        place=None,
        removal_now=None,
    ):
        self.folder = folder
        self.store = SqlStore(f"sqlite:///{folder / 'log.db'}")
        self.room = room = Server(store=self.store, undeclared="table", features=features)
        if removal_now is not None:
            room.kernel.removal_now = removal_now
        self.files = files or ParquetFiles(group_events=4)
        bounds = ArchiverBounds(OldestRoom(step, 10_000), file_bytes, 100, days * 86_400)
        shared = place is not None
        place = place or DiskPlace(folder / "archive" / room.store.epoch)
        if stored is not None:
            place = self.files = stored(room.store.epoch)
        self.feature = LogArchive(room.store, place, self.files, bounds, shared=shared)
        self.feature.install(room.kernel)
        self.feature._executor.shutdown()
        self.feature.archiver._executor = Threads()
        self.feature._look()
        settings = RetentionSettings(Keep(events=keep), 0, step_events=3)
        self.retention = Retention(room.kernel, room.tables, settings, room.now)

    async def sweep(self):
        """Trim each part, also those of topic tables; return of how many events."""
        total = await self.retention.sweep()
        for table in self.store.topic_tables():
            total += await self.retention._trim(table.branch, self.retention._settings.keep)
        return total

    def paths(self):
        """Return the archived files, by their place in the archive."""
        place = self.feature.index.place.directory
        return sorted(str(x.relative_to(place)) for x in place.rglob("*.parquet"))

    def close(self):
        self.store.close()


def define(room):
    """Make topic tables of some branches."""
    for level in LEVELS:
        room.store.define(TopicTable(f"mqtt_{level or 'messages'}", TopicRoot(level)))


async def happen(chance, rooms):
    """Let one thing happen in each room, at the same time, under the same number."""
    topic, kind = chance.choice(TOPICS), chance.random()
    payload = b'{"age": %d, "name": "%s"}' % (chance.randrange(9), b"x" * chance.randrange(40))
    step = chance.choice([0.001, 0.5, 60, 4000])
    for room in rooms:
        room.time = round(room.time + step, 3)
        if kind < 0.2:
            await room.delete(topic)
        elif kind < 0.4:
            odd = {"content_type": "application/x-odd"} if topic.islower() else {}
            await room.say(topic, b"\xff" + payload if odd else payload, qos=1, **odd)
        else:
            await room.put(topic, payload)
    assert 1 == len({room.store.head() for room in rooms})


async def written(world, count=20, topic="Note/1"):
    """Write so many events at a topic; return their numbers."""
    numbers = []
    for _ in range(count):
        world.room.time += 1
        numbers.append((await world.room.put(topic)).event.seq)
    return numbers


def every(world, topic="Note/1"):
    """Return the numbers of all events at a topic, as a reader gets them."""
    (source,) = world.room.reader.sources(TopicFilter(topic))
    return [event.seq for event in world.room.store.follow(source, topic, 0, 10_000)]


def ranges(world, number=None):
    """Return the range of each file of a part, in order."""
    index = world.feature.index
    numbers = sorted(index.numbers()) if number is None else [number]
    return [(x.after, x.last) for n in numbers for x in index.chain(n)]
