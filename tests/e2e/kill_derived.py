"""Kills the jobs of a derived table, and their server, at random moments (W4, M5).

A job makes some hundred rows of one record, or so many that its result is staged. Whatever is
killed when: who reads over REST, and who watches over SSE and MQTT, sees the old result or the new
one whole; the log has all events of a result or none; the job again makes what it made, without an
event; no process stays behind.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

from killing import GONE

from rowcast.core.limits import HTTP_LIMIT_LINKED_RECORDS_MAX
from rowcast.features.derived.places import RunPlaces
from serving import Server, environment, wait_until
from talking import Events, Mqtt

# ruff: noqa: T201 - a program that talks to people

SCHEMA = """
type Round @table @export { id: ID @primaryKey, n: Int! }
type Hourly @table @export @derived(job: "jobs/hourly.py", from: ["Round"], every: "31d") {
  id: ID @primaryKey, round: Int!, text: String
}
"""
ROWS = 400
STAGED_ROWS = 6_000
"""More than are written in one batch; six pages."""
JOB = """
def derive(tables):
    (row,) = tables["Round"].rows()
    return [{"id": str(n), "round": row["n"], "text": "x" * 300} for n in range(ROWS)]
"""
ROW = "/$SYS/jobs/Hourly"
PROGRAM = b"rowcast_lake.commands.derive"
AGAIN_SECONDS = 0.02
"""Before each try to watch at the server, which is away while it starts."""
LOOK_SECONDS = 0.2
"""Between two reads of a table: without it a reader takes all that the machine has."""


def processes(folder: Path) -> list[int]:
    """Return the processes of jobs in a folder (proc(5), cmdline)."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (place / "cmdline").read_bytes()
            if PROGRAM in words and os.fsencode(folder) in words:
                found.append(int(place.name))
    return found


class Watcher(threading.Thread):
    """Watches or reads until it is stopped, at whichever life of the server."""

    def __init__(self, server: Server, size: int) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.size = size
        """Rows of a result."""
        self.stopping = threading.Event()
        self.wrong: list[object] = []
        self.rounds: list[int] = []
        """The round of each event, in order, once."""
        self.looks = 0

    def run(self) -> None:
        while not self.stopping.wait(AGAIN_SECONDS):
            with suppress(*GONE, AssertionError):  # the server is being killed
                self.watch()

    def watch(self) -> None:
        """Watch until the server ends."""
        raise NotImplementedError

    def whole(self) -> bool:
        """Whether each result but the last came whole, and none between rows of another."""
        counts = Counter(self.rounds)
        return self.rounds == sorted(self.rounds) and set(counts.values()) <= {self.size}


class Reader(Watcher):
    """Reads the whole table over and over, in one page, so as of one position."""

    def watch(self) -> None:
        limit = min(2 * self.size, HTTP_LIMIT_LINKED_RECORDS_MAX)
        with self.server.client() as client:
            while not self.stopping.wait(LOOK_SECONDS):
                answer = client.get(f"/Hourly/?limit({limit})")
                if answer.status_code != 200:
                    continue
                rows = answer.json()
                seen = Counter(row["round"] for row in rows)
                self.looks += 1
                if len(seen) > 1 or set(seen.values()) - {self.size}:
                    self.wrong.append(seen)


class Stream(Watcher):
    """Reads Server-Sent Events, and goes on where it was."""

    since = ""

    def watch(self) -> None:
        if not self.since:  # current records have no cursor: a stream cut among them begins anew
            self.rounds.clear()
        with Events(self.server, "/Hourly/", self.since) as events:
            for told in events:
                if told.id:
                    self.since = told.id
                if isinstance(told.value, dict) and "round" in told.value:
                    self.rounds.append(told.value["round"])
                    self.looks += 1


class Session(Watcher):
    """A durable session of MQTT: what is delivered again is counted once."""

    def __init__(self, server: Server, size: int) -> None:
        super().__init__(server, size)
        self.known: set[tuple[str, int]] = set()

    def watch(self) -> None:
        kept = {"session_expiry_interval": 3_600}
        with Mqtt(self.server.mqtt_port, 5, "watcher", kept, clean_start=False) as client:
            client.subscribe("Hourly/#", 1, retain_handling=1)
            while True:
                packet = client.message()
                told = (packet.topic, json.loads(packet.payload)["round"])
                if told not in self.known:
                    self.known.add(told)
                    self.rounds.append(told[1])
                    self.looks += 1


def row(server: Server) -> dict[str, object]:
    """Return the row of the job."""
    found: dict[str, object] = server.request("GET", ROW).json()
    return found


def write(server: Server, number: int) -> None:
    """Begin a round; a server that has just begun may be busy."""

    def written() -> bool:
        return server.request("PUT", "/Round/1", json={"n": number}).is_success

    wait_until(written, f"round {number} is written")


def begin(server: Server) -> None:
    """Have the job run, if it does not already."""
    answer = server.request("PUT", ROW, json={"run": True})
    assert answer.status_code in {200, 201, 204, 409}, answer.text


def finish(server: Server, number: int, size: int) -> float:
    """Have the job run until its result is of a round; return how long it took."""
    started = time.monotonic()

    def done() -> bool:
        found = row(server)
        if found["state"] in {"running", "waiting"} and found["run"]:
            return False
        if found["state"] == "done" and current(server, size) == {number: size}:
            return True
        begin(server)
        return False

    wait_until(done, f"the result of round {number}")
    return time.monotonic() - started


def current(server: Server, size: int) -> Counter[int]:
    """Return how many rows there are of each round."""
    rows = server.request("GET", f"/Hourly/?limit({2 * size})").json()
    return Counter(row["round"] for row in rows)


def check(server: Server, size: int) -> list[int]:
    """Look at the log: each result is in it whole, in one piece, and once; return the rounds."""
    with server.client() as client:
        told = client.get("/Hourly/?from=0").json()
    rounds = [event["value"]["round"] for event in told]
    wrong = {number: count for number, count in Counter(rounds).items() if count != size}
    assert not wrong, f"events of results that are not whole: {wrong}"
    assert rounds == sorted(rounds), "two results are mixed"
    cuts = {(event["value"]["round"], event["_from_cut"]) for event in told}
    assert len(cuts) == len(set(rounds)), "rows of one result have several cuts"
    return rounds


def recompute(server: Server, size: int) -> None:
    """Run the job by hand on the snapshot that is kept: it gives the rows that are there."""
    folder = server.folder / "data" / "jobs" / "Hourly"
    (kept,) = folder.iterdir()
    snapshot = RunPlaces.snapshot_of(kept)
    out = server.folder / "again.ndjson"
    command = [sys.executable, "-m", PROGRAM.decode(), "--job", server.folder / "jobs/hourly.py"]
    command += ["--input", snapshot, "--output", out]
    subprocess.run(command, check=True, env=environment(), stdin=subprocess.PIPE, timeout=180)
    again = {one["id"]: one for one in map(json.loads, out.read_text().splitlines())}
    there = server.request("GET", f"/Hourly/?limit({2 * size})").json()
    assert again == {one["id"]: one for one in there}


def kill_something(server: Server, dice: random.Random, figures: Counter[str]) -> None:
    """Kill the job, the server, or the one and then the other."""
    jobs = processes(server.folder)
    if dice.random() < 0.6:
        for pid in jobs:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                figures["jobs killed"] += 1
    if not jobs or dice.random() < 0.4:
        server.kill(children=dice.random() < 0.5)
        server.start()
        figures["servers killed"] += 1


def run(folder: Path, kills: int, seed: int, size: int = ROWS) -> dict[str, int]:
    """Kill so many times, with results of so many rows; return what was counted."""
    dice = random.Random(seed)
    figures = Counter[str]()
    (folder / "jobs").mkdir()
    (folder / "jobs" / "hourly.py").write_text(f"ROWS = {size}\n{JOB}")
    with Server(folder, SCHEMA) as server, ExitStack() as watching:
        write(server, 1)
        takes = finish(server, 1, size)
        watchers = [it(server, size) for it in (Reader, Stream, Session)]
        for watcher in watchers:
            watching.callback(watcher.stopping.set)  # it outlives no failure
            watcher.start()
        number = 1
        for _ in range(kills):
            number += 1
            write(server, number)
            begin(server)
            watchers[0].stopping.wait(dice.random() * takes * 1.1)
            kill_something(server, dice, figures)
            if dice.random() < 0.4:
                finish(server, number, size)
        finish(server, number, size)
        rounds = check(server, size)
        before = row(server)["run"]
        begin(server)
        wait_until(
            lambda: row(server)["run"] != before and row(server)["state"] == "done", "once more"
        )
        assert (0, 0) == (row(server)["changed"], row(server)["removed"])
        assert rounds == check(server, size), "a result that is equal made events"
        recompute(server, size)
        for watcher in watchers[1:]:
            wait_until(lambda it=watcher: it.rounds[-1:] == [number] and it.whole(), str(watcher))
        for watcher in watchers:
            watcher.stopping.set()
            assert not watcher.wrong, f"a reader saw {watcher.wrong[:3]}"
            figures[f"{type(watcher).__name__} looks"] = watcher.looks
        figures["results"] = len(set(rounds))
        server.kill()
        wait_until(lambda: not processes(folder), "no process of a job is left")
    return dict(figures)


def main() -> None:
    """Run as many rounds as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=50)
    parser.add_argument("--rows", type=int, default=ROWS, help="of a result")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    print(f"seed {given.seed}")
    with tempfile.TemporaryDirectory() as folder:
        print(run(Path(folder), given.kills, given.seed, given.rows))


if __name__ == "__main__":
    main()
