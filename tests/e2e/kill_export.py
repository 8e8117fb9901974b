"""Kills exports of the real program under full-rate writes, while a reader reads the newest.

Each writer moves one at a time from its account in one table to its account in the other, so at
any cut the two have what they had at first, or one less. A reader opens the newest snapshot over
and over: it must never fail, nor mix two cuts. Some exports are killed at a random moment: the
newest snapshot is then what it was, and the next export removes what was left (S2, S3).
Behind each export the changes are written, some of these killed too; each snapshot brought forward
with them is the newest, by digest (M2, S6). A plain stream over their files has each move once,
while they are merged, too (S15).
"""

import argparse
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from file_stream import FileStream
from rowcast.features.snapshots.catalogue import Catalogue
from rowcast.features.snapshots.snapshot_directory import SnapshotDirectory
from rowcast.mqtt.packets import Puback, Publish
from rowcast_lake.snapshots.compaction import compact
from rowcast_lake.snapshots.fold import differences
from rowcast_lake.snapshots.verify import verify
from serving import PATIENCE_SECONDS, Server, rowcast
from talking import Mqtt

# ruff: noqa: T201 - a program that talks to people

SCHEMA = """
type Here @table @export { id: ID @primaryKey, n: Long! }
type There @table @export { id: ID @primaryKey, n: Long! }
type Ballast @table @export { id: ID @primaryKey, text: String }
"""
WRITERS = 3
SUM = 1_000_000
"""What the accounts of a writer have together."""
WINDOW = 50
"""Moves of one writer that are on the way at a time."""
LOOK_SECONDS = 0.02
"""Between two looks at the newest snapshot."""


class World:
    """A server, its writers and its reader; what was wrong with them."""

    def __init__(self, server: Server, rows: int, pace: float) -> None:
        self.server = server
        self.pace = pace
        self.snapshot_store = SnapshotDirectory(server.folder / "data" / "snapshots")
        self.rows = rows
        self.stopping = threading.Event()
        self.failures: list[BaseException] = []
        self.moved = 0
        self.reads = 0
        self.stream = FileStream(self.snapshot_store.directory, "Here")
        self.streamed: list[tuple[int, str, int]] = []

    def ballast(self) -> None:
        """Give an export something to do."""
        with closing(sqlite3.connect(self.server.folder / "data" / "rowcast.db")) as database:
            database.execute(
                "INSERT INTO Ballast (id,text,_seq,_version) WITH RECURSIVE n(i) AS "
                "(SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<?) "
                "SELECT printf('%09d',i),hex(randomblob(16)),1,1 FROM n",
                (self.rows,),
            )
            database.commit()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Let writers and the reader work meanwhile."""
        jobs = [*(lambda name=str(n): self.move(name) for n in range(WRITERS)), self.read]
        threads = [threading.Thread(target=self.noting, args=(job,)) for job in jobs]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stopping.set()
            for thread in threads:
                thread.join()
        assert not self.failures, self.failures

    def noting(self, job: Callable[[], None]) -> None:
        """Do a job; keep what is wrong for the main thread."""
        try:
            job()
        except BaseException as failure:  # noqa: BLE001 - told by the main thread
            self.failures.append(failure)

    def move(self, name: str) -> None:
        """Move one at a time from here to there, in windows of acknowledged publishes."""
        here, there = SUM, 0
        with Mqtt(self.server.mqtt_port, 5, f"writer-{name}") as client:
            while not self.stopping.wait(self.pace):
                open_ids = set()
                for _ in range(WINDOW):
                    here, there = here - 1, there + 1
                    for table, n in (("Here", here), ("There", there)):
                        packet_id = client.next_id()
                        open_ids.add(packet_id)
                        value = b'{"n":%d}' % n
                        client.send(
                            Publish(f"{table}/{name}", value, 1, True, False, packet_id, None)
                        )
                while open_ids:
                    answer = client.receive()
                    assert isinstance(answer, Puback), answer
                    assert 0 == answer.reason, answer
                    open_ids.remove(answer.packet_id)
                self.moved += WINDOW

    def read(self) -> None:
        """Look at the newest snapshot, over and over: it is whole and of one cut."""
        while not self.stopping.wait(LOOK_SECONDS):
            if self.snapshot_store.newest() is None:
                continue
            with self.snapshot_store.pin("newest") as place:
                check(place, self.rows)
            self.reads += 1


def check(place: Path, rows: int) -> int:
    """Check that a snapshot is of one cut; return how much was moved by then."""
    ballast = pq.read_metadata(place / "Ballast" / "part-00000.parquet").num_rows
    assert rows == ballast, (place, rows, ballast)
    here, there = (
        {row["id"]: row for row in pq.read_table(place / table).to_pylist()}
        for table in ("Here", "There")
    )
    for name, row in here.items():
        moved = there[name]["n"] if name in there else 0
        assert row["n"] + moved in {SUM, SUM - 1}, (place, row, there.get(name))
        assert row["_seq"] <= int(place.name[:18]), (place, row)
    return sum(row["n"] for row in there.values())


def prove(world: World) -> int:
    """Check that each snapshot with the changes after it is the newest; return how many.

    Changes begin behind the snapshot that was the newest then.
    """
    items = Catalogue(world.snapshot_store.directory).items()
    begin = min(item.from_seq for item in items if item.is_page) - 1
    *names, last = [name for name in world.snapshot_store.names() if int(name[:18]) >= begin]
    for first in names:
        assert differences(world.snapshot_store.directory, items, first, last) == {}, (first, last)
    return len(names)


def follow(world: World) -> None:
    """Check that a stream over files, begun anew, has every move once since the first increment."""
    world.stream = FileStream(world.snapshot_store.directory, "Here", world.stream.seen)
    for rows in world.stream.poll():
        found = [(row["_seq"], row["id"], row["n"]) for row in rows]
        assert found == sorted(found)
        world.streamed += found
    for name in map(str, range(WRITERS)):
        left = [n for _, writer, n in sorted(world.streamed) if writer == name]
        assert left == [*range(left[0], left[0] - len(left), -1)] if left else True, name


def export(folder: Path, kill_after: float | None, *options: object) -> bool:
    """Run one export; tell whether it came to its end."""
    places = ("--data", folder / "data", "--schema", folder / "schema.graphql")
    try:
        done = rowcast("export", *places, *options, patience=kill_after or 5 * PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        assert kill_after, "an export took too long"
        return False
    assert done.returncode == 0, done.stderr
    return True


def run(
    folder: Path,
    exports: int,
    kills: int,
    rows: int,
    seed: int,
    say: Callable[[str], object] = print,
    pace: float = 0.0,
) -> tuple[int, int]:
    """Make exports, some of them killed; return how many were, and how often the reader looked.

    ``pace``: seconds that a writer waits between two windows of moves.
    """
    rng = random.Random(seed)
    to_kill = set(rng.sample(range(1, exports), kills))
    killed, cut_short, proved, amounts = 0, 0, 0, [0]
    with Server(folder, schema=SCHEMA) as server:
        world = World(server, rows, pace)
        world.ballast()
        took = time.monotonic()
        assert export(folder, None)
        took = time.monotonic() - took
        with world.working():
            for number in range(exports):
                after = rng.uniform(0.1, 1.1) * took if number in to_kill else None
                began = time.monotonic()
                if export(folder, after, "--keep", 3):
                    took = min(took, time.monotonic() - began)  # the first one may be slow
                    place = world.snapshot_store.place("newest")
                    amounts.append(check(place, rows))
                    assert amounts[-1] >= amounts[-2], amounts
                    assert len(world.snapshot_store.names()) <= 5, world.snapshot_store.names()
                    left = [item.name for item in world.snapshot_store.directory.glob(".making*")]
                    assert left == [], left
                else:
                    killed += 1
                    check(world.snapshot_store.place("newest"), rows)
                after = rng.uniform(0.1, 1.1) * took if rng.random() < kills / exports else None
                changes = export(folder, after, "--changes")
                follow(world)
                if changes:
                    proved += prove(world)
                else:
                    cut_short += 1
                say(
                    f"export {number + 1}: {killed} killed, {world.moved} moved; changes: "
                    f"{cut_short} killed, {proved} snapshots proved"
                )
                assert not world.failures, world.failures
        for name in world.snapshot_store.names():
            verify(world.snapshot_store.place(name))
        assert export(folder, None)
        assert export(folder, None, "--changes")
        assert prove(world) > 0
        compact(world.snapshot_store.directory, everything=True)
        follow(world)
        assert world.streamed
    return killed, world.reads


def main() -> None:
    """Make the exports that the command line asks for."""
    parser = argparse.ArgumentParser(prog="scripts/kill export")
    parser.add_argument("rounds", nargs="?", type=int, default=50)
    parser.add_argument("--kills", type=int, default=None)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    kills = options.rounds * 2 // 5 if options.kills is None else options.kills
    print(f"{options.rounds} exports, --seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="rowcast-kill-") as folder:
        killed, reads = run(
            Path(folder), options.rounds, kills, options.rows, options.seed,
            lambda line: print(line, flush=True),
        )  # fmt: skip
    print(f"{killed} exports were killed; {reads} reads saw whole snapshots of one cut")


if __name__ == "__main__":
    sys.exit(main())
