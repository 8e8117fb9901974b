"""Kills the driver of a Spark stream, and the server that it reads and writes, at random moments.

A stream of rollups reads every reading that is put, and writes the sums back as records. Each round
kills the driver with its Java and its workers once, and the server once, while readings come. At
the end the records are compared with what the log of readings gives, each number exactly; and the
log of the records shows that no batch was lost, doubled or half: a sum is only followed by one of
more readings, and all rows of a batch have positions of one piece (M5, S13, S14).
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from serving import PATIENCE_SECONDS, ROWCAST, Server, _children, environment, wait_until

# ruff: noqa: T201 - a program that talks to people

SCHEMA = """
type Reading @table @export { id: ID @primaryKey, sensor: String!, at: Date!, v: Long! }
type Summed @table @export {
  id: ID @primaryKey, sensor: String, measure: String, every: String, start: Date, end: Date,
  count: Long, min: Float, max: Float, mean: Float, p50: Float
}
"""
OPTIONS = {
    "by": "sensor", "values": "v", "time": "at", "every": "1h", "percentiles": "0.5",
    "late": "30d",
}  # fmt: skip
SENSORS = ("a", "b", "c")
HOURS = 40
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
PAUSE_SECONDS = 0.02
"""Between two readings: without it they take all that the machine has."""
START_SECONDS = 300.0
"""Of a driver: Spark alone takes half a minute on a busy machine."""
SETTINGS = """
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.sql.shuffle.partitions 2
"""
"""A driver that is killed does not live long enough to repay what the second compiler costs."""


def put(client: httpx.Client, number: int, dice: random.Random) -> None:
    """Put a reading."""
    at = EPOCH + timedelta(minutes=dice.randrange(HOURS * 60))
    row = {"sensor": dice.choice(SENSORS), "at": at.isoformat(), "v": dice.randrange(-1000, 1000)}
    client.put(f"/Reading/{number}", json=row).raise_for_status()


class Feed(threading.Thread):
    """Puts readings, each with an id of its own; what is unanswered may be there or not."""

    def __init__(self, server: Server, seed: int) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._dice = random.Random(seed)
        self.stopping = threading.Event()
        self.answered = 0

    def run(self) -> None:
        with self._server.client() as client:
            number = 0
            while not self.stopping.wait(PAUSE_SECONDS):
                number += 1
                with contextlib.suppress(Exception):  # the server is being killed
                    put(client, number, self._dice)
                    self.answered += 1


class Driver:
    """``rowcast pipeline run rollup --stream`` as a process."""

    def __init__(self, server: Server, *words: str) -> None:
        settings = server.folder / "spark"
        settings.mkdir(exist_ok=True)
        (settings / "spark-defaults.conf").write_text(SETTINGS)
        options = [f"--{name}={value}" for name, value in OPTIONS.items()]
        command = [str(ROWCAST), "pipeline", "run", "rollup", "--url", server.url, *options]
        command += ["--table", "Reading", "--to", "Summed", "--master", "local[2]", *words]
        self.log = server.folder / "driver.log"
        self._checkpoint = server.folder / "checkpoint"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--checkpoint", str(self._checkpoint)],
                env=environment() | {"SPARK_CONF_DIR": str(settings)},
                cwd=server.folder,
                stdout=log,
                stderr=log,
            )

    @property
    def is_planned(self) -> bool:
        """Whether it or one before it has begun a batch."""
        return (self._checkpoint / "offsets" / "0").exists()

    @property
    def said(self) -> str:
        """The end of what it and those before it have written."""
        return self.log.read_text(errors="replace")[-2000:]

    def lives_for(self, seconds: float) -> bool:
        """Let it run for some time; return whether it still does."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode is None

    def wait(self) -> int:
        """Wait for its end."""
        return self._process.wait(START_SECONDS)

    def kill(self) -> None:
        """End it at once, with its Java and the workers of that."""
        pids = [self._process.pid, *_children(self._process.pid)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(PATIENCE_SECONDS)


def export(server: Server) -> None:
    """Make a snapshot: a stream begins with one."""
    with server.client() as client:
        job = client.post("/$SYS/snapshots/", json={}).raise_for_status().headers["location"]
        wait_until(lambda: client.get(job).json()["state"] == "done", "the snapshot is there")


def told(server: Server, table: str) -> list[dict[str, object]]:
    """Return all events of a table, from its log."""
    rows: list[dict[str, object]] = server.request("GET", f"/{table}/?from=0").json()
    return rows


def written(server: Server) -> int:
    """Return the position of the last row that was written back; 0 without any, or a server."""
    with contextlib.suppress(Exception):
        last = server.request("GET", "/Summed/?last=1").json()
        return int(last[0]["_seq"]) if last else 0
    return 0


def sums(readings: list[dict[str, object]]) -> dict[str, tuple[object, ...]]:
    """Return what the readings give, by the ids of the result's rows."""
    groups = defaultdict(list)
    for event in readings:
        row = event["value"]
        start = datetime.fromisoformat(row["at"]).replace(minute=0)  # type: ignore[index]
        groups[row["sensor"], start].append(row["v"])  # type: ignore[index]
    found = {}
    for (sensor, start), values in groups.items():
        values.sort()
        middle = values[(len(values) - 1) // 2]
        when = start.isoformat().replace("+00:00", "Z")
        mean = float(f"{sum(values) / len(values):.12g}")  # as jobs round it
        facts = (len(values), min(values), max(values), mean, middle)
        found[f"{sensor}/v/1h/{when}"] = facts
    return found


def check(server: Server) -> Counter[str]:
    """Compare the result with the log of readings; raises AssertionError at a difference."""
    readings, events = told(server, "Reading"), told(server, "Summed")
    rows = server.request("GET", "/Summed/?limit(10000)").json()
    names = ("count", "min", "max", "mean", "p50")
    found = {row["id"]: tuple(row[name] for name in names) for row in rows}
    wanted = sums(readings)
    assert found.keys() == wanted.keys(), found.keys() ^ wanted.keys()
    wrong = {key: (found[key], wanted[key]) for key in wanted if found[key] != wanted[key]}
    assert not wrong, [*wrong.items()][:5]
    counts, cuts = dict[str, int](), list[str]()
    for event in events:
        row = event["value"]
        key, count = row["id"], row["count"]  # type: ignore[index]
        assert count > counts.get(key, 0), f"{key}: {count} readings after {counts[key]}"
        counts[key] = count
        if not cuts or cuts[-1] != event["_from_cut"]:
            cuts.append(str(event["_from_cut"]))
    assert len(cuts) == len(set(cuts)), "rows of one batch are in several pieces"
    numbers = [int(cut.rpartition("#")[2]) for cut in cuts]
    assert numbers == sorted(numbers), numbers
    return Counter(readings=len(readings), rows=len(found), events=len(events), batches=len(cuts))


def await_batch(server: Server, driver: Driver, after: int) -> None:
    """Wait until a row is written back after a position."""
    begun = time.monotonic()
    while written(server) <= after:
        assert driver.lives_for(0.2), driver.said
        assert time.monotonic() - begun < START_SECONDS, driver.said


def await_plan(driver: Driver) -> None:
    """Wait until the first batch is planned: what it has to read is in the checkpoint."""
    begun = time.monotonic()
    while not driver.is_planned:
        assert driver.lives_for(0.2), driver.said
        assert time.monotonic() - begun < START_SECONDS, driver.said


def strike(server: Server, driver: Driver, victim: str, dice: random.Random) -> None:
    """Kill the driver or the server, in most cases some time after a batch was written back."""
    if dice.random() < 0.8:
        await_batch(server, driver, written(server))
    driver.lives_for(dice.random() * 3)
    if victim == "driver":
        driver.kill()
    else:
        server.kill(children=dice.random() < 0.5)
        server.start()


def run(folder: Path, rounds: int, seed: int, say: Callable[[str], object] = print) -> Counter[str]:
    """Kill a driver and a server in each round; return what was counted."""
    dice, figures, begun = random.Random(seed), Counter[str](), time.monotonic()
    with Server(folder, SCHEMA) as server:
        export(server)
        feed = Feed(server, seed)
        feed.start()
        driver = Driver(server, "--stream")
        try:
            for number in range(rounds):
                for victim in dice.sample(["driver", "server"], 2):
                    strike(server, driver, victim, dice)
                    figures[f"{victim}s killed"] += 1
                    if victim == "driver":
                        driver = Driver(server, "--stream")
                    say(
                        f"{time.monotonic() - begun:.0f} s, round {number + 1}: {victim} killed, "
                        f"{feed.answered} readings"
                    )
        finally:
            driver.kill()
        feed.stopping.set()
        feed.join()
        last = Driver(server, "--once")
        assert last.wait() == 0, last.said
        return figures + check(server)


def main() -> None:
    """Run as many rounds as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", type=int, nargs="?", default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    print(f"seed {given.seed}")
    with tempfile.TemporaryDirectory() as folder:
        print(dict(run(Path(folder), given.rounds, given.seed)))


if __name__ == "__main__":
    main()
