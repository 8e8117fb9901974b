"""Kills jobs that write results back, and the server that takes them, at random moments (M5).

A job brings the rows of a result in parts and has them committed, as Spark's tasks and driver do,
with the same code. Whatever is killed when: a reader sees the old result or the new one whole, the
log has all events of a result or none, and the same job again ends what was begun, once.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

from serving import PATIENCE_SECONDS, Server, environment

# ruff: noqa: T201 - a program that talks to people

SCHEMA = "type Hourly @table @export { id: ID @primaryKey, round: Int!, text: String }"
ROWS = 400
LOOK_SECONDS = 0.02
"""Between two reads of the table: without it a reader takes all that the machine has."""
JOB = """
import sys
import pyarrow as pa
from rowcast_lake.spark.options import Options
from rowcast_lake.spark import sink
url, number, rows, those = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
options = Options({"url": url, "table": "Hourly", "job": "hourly"})
bringer = sink.Bringer(options, replace=True, part_rows=max(100, rows // 10))
print("begin", flush=True)
some = [{"id": str(n), "round": number, "text": "x" * 300} for n in range(rows)
        if eval(those)]
messages = [bringer.bring(iter([pa.RecordBatch.from_pylist(some)]))]
bringer.commit(messages, f"0badcafe:{number}")
print("done", flush=True)
"""


class Reader(threading.Thread):
    """Reads the whole table over and over: all of it is of one result."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.stopping = threading.Event()
        self.reads = 0
        self.mixed: list[Counter[int]] = []

    def run(self) -> None:
        with self.server.client() as client:
            while not self.stopping.wait(LOOK_SECONDS):
                try:
                    rows = client.get(f"/Hourly/?limit({2 * ROWS})").json()
                except Exception:  # noqa: BLE001 - the server is being killed
                    continue
                seen = Counter(row["round"] for row in rows)
                self.reads += 1
                if len(seen) > 1 or any(count != ROWS for count in seen.values()):
                    self.mixed.append(seen)


def begin(server: Server, number: int) -> "subprocess.Popen[str]":
    """Start a job, and wait until it is about to bring the first rows."""
    return begin_job(server, number, ROWS)


def begin_job(
    server: Server, number: int, rows: int, those: str = "True", program: str = JOB
) -> "subprocess.Popen[str]":
    """Start a job of so many rows, of which it brings ``those``; wait as ``begin`` does."""
    job = subprocess.Popen(
        [sys.executable, "-c", program, server.url, str(number), str(rows), those],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert job.stdout is not None
    assert job.stdout.readline() == "begin\n"
    return job


def finish(server: Server, number: int) -> float:
    """Run a job to its end; return how long it took."""
    with begin(server, number) as job:
        started = time.monotonic()
        assert job.wait(PATIENCE_SECONDS) == 0
        return time.monotonic() - started


def check(server: Server, last: int) -> None:
    """Look at the log: each result is in it whole, in one piece, and once."""
    with server.client() as client:
        told = client.get("/Hourly/?from=0").json()
        rounds = [event["value"]["round"] for event in told]
        wrong = {number: count for number, count in Counter(rounds).items() if count != ROWS}
        assert not wrong, f"events of results that are not whole: {wrong}"
        assert rounds == sorted(rounds), "two results are mixed"
        cuts = {event["_from_cut"] for event in told}
        assert cuts == {f"0badcafe:{number}" for number in set(rounds)}
        now = Counter(row["round"] for row in client.get(f"/Hourly/?limit({2 * ROWS})").json())
        assert now == {last: ROWS}, now


def run(folder: Path, kills: int, seed: int, log: object = print) -> dict[str, int]:
    """Kill so many jobs, every third time the server; return what was counted."""
    dice = random.Random(seed)
    figures = Counter[str]()
    with Server(folder, SCHEMA) as server:
        takes = max(finish(server, number) for number in (1, 2))
        reader = Reader(server)
        reader.start()
        number = 2
        for _ in range(kills):
            number += 1
            job = begin(server, number)
            try:
                job.wait(dice.random() * takes * 1.2)
            except subprocess.TimeoutExpired:
                figures["killed"] += 1
            else:
                figures["too late"] += 1
            if dice.random() < 1 / 3:
                server.kill()
                server.start()
                figures["servers killed"] += 1
            job.kill()
            job.communicate()
            if dice.random() < 0.5:  # the next cut comes first, or the same job again
                finish(server, number)
                finish(server, number)
        number += 1
        finish(server, number)
        check(server, number)
        reader.stopping.set()
        reader.join()
        assert not reader.mixed, f"a reader saw {reader.mixed[:3]}"
        figures["reads"] = reader.reads
        figures["results"] = number
    return dict(figures)


def main() -> None:
    """Run as many rounds as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--sites", action="store_true", help="large ones, at two synced sites")
    parser.add_argument("--rows", type=int, help="results of so many, followed by subscribers")
    parser.add_argument("--strikes", type=int, help="kills during each of these, which go on")
    given = parser.parse_args()
    if given.sites:
        from kill_results_sites import run as play  # which needs this module
    elif given.strikes:
        from kill_results_often import run_often

        play = partial(run_often, rows=given.rows, strikes=given.strikes)
    elif given.rows:
        from kill_results_large import run as run_large

        play = partial(run_large, rows=given.rows)
    else:
        play = run
    print(f"seed {given.seed}")
    with tempfile.TemporaryDirectory() as folder:
        print(play(Path(folder), given.kills, given.seed))


if __name__ == "__main__":
    main()
