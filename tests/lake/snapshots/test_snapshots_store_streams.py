"""Increments in an object store as files that a plain stream reads: each event once (S15)."""

import io
import random
import re

import pyarrow.parquet as pq
import pytest

from amounts import amount
from exported import Exported
from rowcast.core.errors import Code, Error
from rowcast.core.export_limits import EXPORT_SECONDS_MAX
from rowcast_lake.snapshots.changes import export_changes
from rowcast_lake.snapshots.compaction import compact
from rowcast_lake.snapshots.export import Order, export
from rowcast_lake.snapshots.object_pages import PAGES, ObjectPages
from rowcast_lake.snapshots.object_snapshot_store import ObjectSnapshotStore
from rowcast_lake.snapshots.snapshot_stores import catalogue_of, store_of
from rowcast_lake.snapshots.verify import verify
from rowcast_lake.stores.object_paths import ObjectPath

SCHEMA = "type Dog @table @export { id: ID @primaryKey, n: Int } type Cat @table @export { n: Int }"
STEPS = ("create", "write_bytes", "copy", "remove")


class Killed(BaseException):
    """The end of a program between two requests to the store."""


def kill(*_):
    raise Killed


class Publisher:
    """Exports increments, and is killed before or after one of its requests."""

    def __init__(self, monkeypatch, world, store):
        self.world, self.store = world, store
        self.left, self.late, self.dead = None, False, False
        self.between = lambda: None
        for step in STEPS:
            monkeypatch.setattr(ObjectPath, step, self._step(getattr(ObjectPath, step)))

    def _step(self, real):
        def step(path, *rest):
            if self.dead:
                raise Killed  # whatever it would do in its last moment
            self.left = None if self.left is None else self.left - 1
            self.dead = self.left == 0
            # What is written in a stream is not there before it is closed.
            if self.dead and not (self.late and real.__name__ != "create"):
                raise Killed
            found = real(path, *rest)
            if self.dead:
                raise Killed
            self.between()
            return found

        return step

    def export(self, kill_at=None, *, late=False):
        """Return the increment; None without one, and where it is killed."""
        self.left, self.late = kill_at, late
        try:
            return export_changes(self.order)
        except Killed:
            return None
        finally:
            self.left, self.dead = None, False

    @property
    def order(self):
        return Order(self.world.path / "rowcast.db", self.store, self.world.schema)


class StoreStream:
    """A plain stream over the objects of a table in `changes`: it remembers the names."""

    def __init__(self, store, table="Dog"):
        self._store = store
        self._wanted = re.compile(rf"changes/[^./_][^/]*/{table}/[^/]+\.parquet")
        self.seen = {}

    def poll(self):
        """Return the positions in new objects; one that was read before is what it was."""
        found = []
        for path in (self._store / "changes").rglob():
            name = path.relative_to(self._store).key
            if name in self.seen or not self._wanted.fullmatch(name):
                continue
            self.seen[name] = content = path.read_bytes()
            found += pq.ParquetFile(io.BytesIO(content)).read().column("_seq").to_pylist()
        return found

    def changed(self):
        """Return the names of objects that are not what they were when they were read."""
        return [name for name, was in self.seen.items() if (self._store / name).read_bytes() != was]


@pytest.fixture
def publisher(tmp_path, store, monkeypatch):
    world = Exported(tmp_path, SCHEMA)
    world.put("Dog", "0", {"n": 0})
    made = Publisher(monkeypatch, world, store)
    export(made.order)
    yield made
    world.close()


def write(world, count):
    """Write dogs and cats; return the positions of the dogs."""
    seqs = []
    for _ in range(count):
        world.put("Dog", str(world.seq % 7), {"n": world.seq})
        seqs.append(world.seq)
        world.put("Cat", str(world.seq % 7), {"n": world.seq})
    return seqs


def pages(store):
    return [item for item in catalogue_of(store).items() if item.is_page]


@pytest.mark.slow
@pytest.mark.timeout(600)  # what was killed leaves connections that time out
@pytest.mark.parametrize("late", [False, True])
def test_an_increment_is_read_once_wherever_its_publisher_is_killed(publisher, late):
    """S15, S3: before and after each request; the next export ends what was decided."""
    stream, seqs = StoreStream(publisher.store), []
    read = []
    publisher.between = lambda: read.extend(stream.poll())
    kills = 0
    for kill_at in range(1, 60, amount(long=1, short=2)):
        seqs += write(publisher.world, 1)
        if publisher.export(kill_at, late=late) is not None:
            break
        kills += 1
        read += stream.poll()
    assert kills > amount(long=8, short=4)
    publisher.export()
    read += stream.poll()
    assert read == seqs
    assert stream.changed() == []
    found = pages(publisher.store)
    assert (found[0].from_seq, found[-1].seq) == (2, publisher.world.seq)
    for item in found:
        verify(publisher.store / item.name)
    left = [path for path in (publisher.store / PAGES).rglob() if path.name == "manifest.json"]
    assert left == []


@pytest.mark.slow
@pytest.mark.timeout(600)  # what was killed leaves connections that time out
@pytest.mark.parametrize("seed", range(1))
def test_a_plain_stream_has_each_event_once(publisher, seed):
    """S15, S6: over exports, kills, merges and removals, by chance."""
    chance = random.Random(seed)
    stream, seqs, read = StoreStream(publisher.store), [], []
    for _ in range(12):
        seqs += write(publisher.world, chance.randrange(1, 3))
        kill_at = chance.choice([None, chance.randrange(1, 25)])
        publisher.export(kill_at, late=chance.random() < 0.5)
        read += stream.poll()
        if chance.random() < 0.3:
            compact(publisher.store, everything=True, now=lambda: 4e9)
    publisher.export()
    read += stream.poll()
    assert seqs == sorted(read)


@pytest.mark.slow
def test_leftovers_go_when_no_export_can_write_them_any_more(publisher):
    """S3: files without a manifest; what is decided is published, however old it is."""
    write(publisher.world, 1)
    assert publisher.export(2) is None
    store = publisher.store
    assert list((store / PAGES).rglob())
    ObjectPages(store, lambda: 4e9 + EXPORT_SECONDS_MAX).finish()
    assert not list((store / PAGES).rglob())
    assert store_of(store).pages() == []


@pytest.mark.slow
def test_of_two_publishers_one_gives_way(publisher):
    """S15: the one that decides later; its files go, and those of the other stay."""
    write(publisher.world, 1)
    first = publisher.export()
    staged = ObjectPages(publisher.store, lambda: 0.0)
    place = staged.begin(f"seq={2:018d}-{9:018d}")
    (place / "Dog" / "part-00000.parquet").write_bytes(b"others")
    with pytest.raises(Error, match="another program exports the same events: s3://") as said:
        staged.decide(place, first.manifest.text)
    assert said.value.code is Code.BUSY
    assert not list((publisher.store / PAGES).rglob())
    assert verify(first.place).rows == 2


@pytest.mark.slow
def test_an_increment_that_was_removed_is_not_published_again(publisher, monkeypatch):
    """S15: although its publisher was killed before it had tidied up."""
    write(publisher.world, 1)
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(ObjectPages, "_clear", kill)
        export_changes(publisher.order)
    (name,) = store_of(publisher.store).pages()
    assert [path for path in (publisher.store / PAGES).rglob() if path.name == "manifest.json"]
    ObjectSnapshotStore(publisher.store).remove_page(name)
    with ObjectSnapshotStore(publisher.store).making():
        assert store_of(publisher.store).pages() == []
