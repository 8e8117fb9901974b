"""Kills jobs that write back large results, and their server, while subscribers follow the table.

Each result replaces every row of the one before. Whatever is killed when: the table has one result
or the other, whole; a subscriber that comes back to where it was gets each result that was
committed whole, once, in one piece, and nothing of one that was not; and the server's memory does
not grow with the rows.
"""

import contextlib
import random
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path

from kill_results import SCHEMA, begin_job

from rowcast.journal.log_replay import replay_log
from rowcast.schema import parse_schema
from serving import PATIENCE_SECONDS, Server, _children, wait_until

KEPT = {"history.keep_seconds": 86_400, "history.keep_bytes": 0}
TRIES = 5
"""Reads of a table that changes to another result meanwhile."""
LOG = """
    SELECT CAST(json_extract(CAST(payload AS TEXT), '$.round') AS INTEGER) AS round,
        count(*), min(seq), max(seq) FROM rowcast_log AS l JOIN rowcast_tables AS t
    ON t.id = l.table_id WHERE t.name = 'Hourly' GROUP BY round ORDER BY min(seq)
"""
PATIENCE = 30 * PATIENCE_SECONDS
"""Of a job: a million rows take minutes."""
LOOK_SECONDS = 0.05
JOB = """
import sys
from itertools import islice
import pyarrow as pa
from rowcast_lake.spark.options import Options
from rowcast_lake.spark import sink
url, number, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
options = Options({"url": url, "table": "Hourly", "job": "hourly"})
bringer = sink.Bringer(options, replace=True, patience_seconds=60)
some = ({"id": f"{n:08d}", "round": number, "text": f"row {n}"} for n in range(rows))
def batches():
    while part := [*islice(some, 10_000)]:
        yield pa.RecordBatch.from_pylist(part)
print("begin", flush=True)
messages = [bringer.bring(batches())]
print("brought", flush=True)
bringer.commit(messages, f"0badcafe:{number}")
"""


class Watcher(threading.Thread):
    """Follows the table over Server-Sent Events, and comes back with its cursor after a kill."""

    def __init__(self, server: Server, rows: int) -> None:
        super().__init__(daemon=True)
        self._server, self._rows = server, rows
        self.begun, self.stopping = threading.Event(), threading.Event()
        self.rounds: list[int] = []
        self.wrong: list[str] = []
        self.reconnects = 0
        self._seen, self._count, self._cursor = bytearray(rows), 0, ""

    def run(self) -> None:
        while not self.stopping.is_set():
            with contextlib.suppress(Exception):  # the server is being killed
                self._follow()
            self.reconnects += 1
            self.stopping.wait(LOOK_SECONDS)

    def _follow(self) -> None:
        headers = {"accept": "text/event-stream"}
        headers |= {"last-event-id": self._cursor} if self._cursor else {}
        with (
            self._server.client() as client,
            client.stream("GET", "/Hourly/?start=new", headers=headers) as answer,
        ):
            answer.raise_for_status()
            cursor = ""
            for line in answer.iter_lines():
                if self.stopping.is_set():
                    return
                if line.startswith("id:"):
                    cursor = line[3:].strip()
                    self._cursor = self._cursor or cursor
                    self.begun.set()
                elif line.startswith("data:") and '"round":' in line:
                    self._take(line)
                elif not line and cursor:
                    self._cursor = cursor

    def _take(self, line: str) -> None:
        number = int(line.partition('"round":')[2].partition(",")[0])
        key = int(line.partition('"id":"')[2][:8])
        if not self.rounds or number != self.rounds[-1]:
            if self.rounds and self._count != self._rows:
                self.wrong.append(f"{self._count} rows of {self.rounds[-1]}, then {number}")
            if number in self.rounds:
                self.wrong.append(f"{number} comes again after {self.rounds[-1]}")
            self.rounds.append(number)
            self._seen, self._count = bytearray(self._rows), 0
        if self._seen[key]:
            self.wrong.append(f"row {key} of {number} twice")
        self._seen[key] = 1
        self._count += 1

    def await_all_of(self, number: int) -> None:
        """Wait until it has seen a result whole, and end it."""
        begun = time.monotonic()
        while not (self.rounds[-1:] == [number] and self._count == self._rows):
            assert time.monotonic() - begun < PATIENCE, (self.rounds, self._count)
            self.stopping.wait(LOOK_SECONDS)
        self.stopping.set()
        self.join()


class Memory(threading.Thread):
    """Notes the most memory that the processes of a server have used, in MB by their names."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self._server = server
        self.stopping = threading.Event()
        self.most = Counter[str]()

    def run(self) -> None:
        while not self.stopping.wait(LOOK_SECONDS * 4):
            with contextlib.suppress(OSError, AssertionError, KeyError):
                pid = self._server.running.pid
                for each in (pid, *_children(pid)):
                    text = Path(f"/proc/{each}/status").read_text()
                    facts = dict(line.split(":", 1) for line in text.splitlines())
                    name = facts["Name"].strip() + ("" if each == pid else ", a child")
                    most = int(facts["VmHWM"].split()[0]) // 1024
                    self.most[name] = max(self.most[name], most)


def begin(server: Server, number: int, rows: int) -> "subprocess.Popen[str]":
    """Start a job, and wait until it is about to bring the first rows."""
    return begin_job(server, number, rows, program=JOB)


def finish(server: Server, number: int, rows: int) -> float:
    """Run a job to its end; return how long its commit took."""
    with begin(server, number, rows) as job:
        assert job.stdout is not None
        job.stdout.readline()
        brought = time.monotonic()
        assert job.wait(PATIENCE) == 0
        return time.monotonic() - brought


def whole(server: Server, rows: int, numbers: Sequence[int]) -> int:
    """Return which of some results the table has; raises AssertionError for a part of one.

    The server may go on with a result whose job is dead, and then change from one to the other
    between two of these reads: they are repeated.
    """
    with server.client() as client:
        for _ in range(TRIES):
            found = {
                number: client.get(f"/Hourly/?round=={number}&count").json()["count"]
                for number in numbers
            }
            if Counter(found.values()) == {rows: 1, 0: len(numbers) - 1}:
                return max(numbers, key=lambda number: found[number])
    raise AssertionError(f"parts of results: {found}")


def logged(server: Server, schema: str = SCHEMA) -> list[tuple[int, int]]:
    """Return the number of each result in the log and how many events it has, in their order.

    The server of this schema has ended. Raises AssertionError where two results are mixed.
    """
    database = server.folder / "data" / "rowcast.db"
    replay_log(database, parse_schema(schema).tables)
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as file:
        found = file.execute(LOG).fetchall()
    for (_, _, _, last), (number, _, first, _) in pairwise(found):
        assert last < first, f"result {number} begins before the one before it ends"
    return [(number, count) for number, count, _, _ in found]


def strike(server: Server, job: "subprocess.Popen[str]", takes: float, dice: random.Random) -> str:
    """Kill the job, the server or both, mostly while the result is committed, which ``takes``."""
    assert job.stdout is not None
    if dice.random() < 0.7:
        job.stdout.readline()
    with contextlib.suppress(subprocess.TimeoutExpired):
        job.wait(dice.random() * takes * 1.2)
    victim = dice.choice(["job", "server", "server and applier", "job and server"])
    if "job" in victim or job.poll() is not None:
        job.kill()
    if "server" in victim:
        server.kill(children="applier" in victim)
        server.start()
    with contextlib.suppress(subprocess.TimeoutExpired):
        job.wait(PATIENCE if dice.random() < 0.3 else 0)
    job.kill()
    job.communicate()
    return victim


def run(folder: Path, kills: int, seed: int, rows: int, watchers: int = 2) -> dict[str, int]:
    """Kill so often; return what was counted."""
    dice, figures, end = random.Random(seed), Counter[str](), kills + 2
    with Server(folder, SCHEMA, settings=KEPT) as server:
        memory, watching = Memory(server), [Watcher(server, rows) for _ in range(watchers)]
        takes = finish(server, 1, rows)
        for thread in (memory, *watching):
            thread.start()
        wait_until(lambda: all(one.begun.is_set() for one in watching), "they watch")
        maybe = [1]
        for number in range(2, end):
            victim = strike(server, begin(server, number, rows), takes, dice)
            figures[f"killed {victim}"] += 1
            maybe.append(number)
            figures["new results at a look"] += whole(server, rows, maybe) != maybe[0]
            if dice.random() < 0.5:
                finish(server, number, rows)
                maybe = [number]
        finish(server, end, rows)
        assert whole(server, rows, [*maybe, end]) == end
        for one in watching:
            one.await_all_of(end)
            assert not one.wrong, one.wrong[:5]
            figures["times that a watcher came back"] += one.reconnects
        memory.stopping.set()
        memory.join()
        assert server.stop() == 0
        results = logged(server)
        assert {count for _, count in results} == {rows}, results
        for one in watching:
            assert one.rounds == [number for number, _ in results[1:]], (one.rounds, results)
        figures["results in the log"] = len(results)
        figures |= {f"MB of {name}": most for name, most in memory.most.items()}
    return dict(figures)
