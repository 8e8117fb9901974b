"""Kills a server many times during each of a few large results, which go on after each kill.

One job brings a result and has it committed; it is never begun anew, whatever happens to its
server. The kills are spread over what happens to a result: its upload, the comparison, the staging,
the switch, and the move of its rows. After each one the table has all of the result or nothing, by
one read of counts and sums, and a subscriber has been told nothing of a result that is not there.
"""

import contextlib
import random
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from kill_results import begin_job
from kill_results_large import KEPT, LOOK_SECONDS, Memory, Watcher, logged

from serving import Server, wait_until

# ruff: noqa: T201 - a program that talks to people

SCHEMA: Final = """
type Hourly @table @export { id: ID @primaryKey, round: Int!, text: String, check: Long! }
"""
SETTINGS: Final = KEPT | {"store.query_timeout": 600}
PATIENCE: Final = 3_600.0
"""Of a phase of one result: staging five million rows takes ten minutes."""
SHARES: Final = {"upload": 0.54, "compare": 0.14, "stage": 0.08, "switch": 0.04, "move": 0.2}
"""Of the kills: a commit that is killed begins anew, so there are few where most of it is lost."""
AROUND_SECONDS: Final = 0.6
"""Kills around a switch come within so long after the last page is staged."""
AFTER = "SELECT CAST(value AS INTEGER) FROM rowcast_meta WHERE name='staged_after'"
JOB = """
import sys
from itertools import islice
import pyarrow as pa
from rowcast_lake.spark.options import Options
from rowcast_lake.spark import sink
url, number, rows, receipt = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
options = Options({"url": url, "table": "Hourly", "job": "hourly", "receipt": receipt})
bringer = sink.Bringer(options, replace=True)
some = (
    {"id": f"{n:08d}", "round": number, "text": f"row {n}", "check": (n * 7919 + number) % 65_521}
    for n in range(rows)
)
def batches():
    while part := [*islice(some, 10_000)]:
        yield pa.RecordBatch.from_pylist(part)
print("begin", flush=True)
messages = [bringer.bring(batches())]
print("brought", flush=True)
bringer.commit(messages, f"0badcafe:{number}")
"""


class Play:
    """A server, its subscriber, and what is known of its results of so many rows."""

    def __init__(self, server: Server, rows: int, dice: random.Random) -> None:
        self.server, self.rows, self.dice = server, rows, dice
        self.memory, self.watcher = Memory(server), Watcher(server, rows)
        self.figures = Counter[str]()
        self.compare_seconds = self.move_seconds = 0.0
        self._sums = Counter[int]()

    def sum_of(self, number: int) -> int:
        """The sum of what all rows of a result have as their check."""
        if number not in self._sums:
            rows = range(self.rows)
            self._sums[number] = sum((row * 7919 + number) % 65_521 for row in rows)
        return self._sums[number]

    def seen(self) -> int:
        """Return which result the table has, by one read; raises AssertionError for a part."""
        with self.server.client() as client:
            client.timeout = PATIENCE
            answer = client.get("/Hourly/?group(round,count(),sum(check))")
            assert answer.is_success, answer.text
        groups = [[*group.values()] for group in answer.json()]
        ((number, count, total),) = groups or [(0, 0, 0)]
        assert count == (self.rows if number else 0), groups
        assert not number or total == self.sum_of(number), groups
        return int(number)

    # -- what happens to a result ------------------------------------------------------------------

    def asked(self, text: str) -> int:
        """Ask the file of the tables, which the server may be writing."""
        path = self.server.folder / "data" / "rowcast.db"
        try:
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as file:
                return int((file.execute(text).fetchone() or [0])[0] or 0)
        except sqlite3.OperationalError:
            return 0

    def brought(self) -> int:
        """Return how many rows the server has of what is being uploaded."""
        with self.server.client() as client:
            return sum(row["rows"] for row in client.get("/$SYS/results/").json())

    def committing(self) -> bool:
        """Return whether an upload is being committed."""
        with self.server.client() as client:
            return any(row["committing"] for row in client.get("/$SYS/results/").json())

    def staged(self) -> int:
        """Return how many rows are staged of a result that is not switched yet."""
        after = self.asked(AFTER)
        return max(0, self.asked("SELECT max(seq) FROM rowcast_log") - after) if after else 0

    @property
    def moving(self) -> bool:
        """Whether rows of a result that was switched are not in their table yet."""
        return bool(self.asked("SELECT count(*) FROM rowcast_meta WHERE name='overlay'"))

    # -- one result --------------------------------------------------------------------------------

    def begin(self, number: int) -> "subprocess.Popen[str]":
        """Start the job of a result."""
        receipt = str(self.server.folder / f"receipt {number}")
        return begin_job(self.server, number, self.rows, receipt, JOB)

    def finish(self, number: int) -> None:
        """Run a job to its end without a kill, and note how long its rows are moved."""
        began = time.monotonic()
        with self.begin(number) as job:
            assert job.stdout is not None
            job.stdout.readline()
            uploaded = time.monotonic()
            self._until(lambda: self.staged() or job.poll() is not None, "rows are staged")
            self.compare_seconds = time.monotonic() - uploaded
            assert job.wait(PATIENCE) == 0
        ended = time.monotonic()
        self._until(lambda: not self.moving, "its rows are moved")
        self.move_seconds = time.monotonic() - ended
        print(
            f"result {number}: uploaded in {uploaded - began:.0f} s, compared in "
            f"{self.compare_seconds:.0f} s, committed in {ended - uploaded:.0f} s with that, "
            f"moved {self.move_seconds:.0f} s later",
            flush=True,
        )

    def strike(self, number: int, strikes: int) -> None:
        """Kill the server so often during one result, whose job goes on each time."""
        began, job = time.monotonic(), self.begin(number)
        plan = planned(strikes)
        for phase, moment in self._moments(job, plan):
            moment()
            assert job.poll() in {None, 0}
            late = job.poll() is not None and phase != "move"
            self._kill(number, "too late" if late else phase)
        assert job.wait(PATIENCE) == 0
        job.communicate()
        assert self.seen() == number
        print(f"result {number}: {time.monotonic() - began:.0f} s", flush=True)

    def _moments(
        self, job: "subprocess.Popen[str]", plan: Counter[str]
    ) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yield what to wait for before each kill, in order."""
        for share in sorted(self.dice.random() for _ in range(plan["upload"])):
            yield "upload", lambda share=share: self._while_brought(job, share)
        for _ in range(plan["compare"]):
            yield "compare", lambda: self._while_compared(job)
        for _ in range(plan["stage"]):
            some = 1 + int(self.dice.random() * 0.98 * self.rows)
            yield "stage", lambda some=some: self._while_staged(job, some)
        for _ in range(plan["switch"]):
            yield "switch", lambda: self._around_switch(job)
        for _ in range(plan["move"]):
            yield "move", lambda: self._while_moved(job, plan["move"])

    def _until(self, holds: Callable[[], object], what: str) -> None:
        begun = time.monotonic()
        while not holds():
            assert time.monotonic() - begun < PATIENCE, what
            self.watcher.stopping.wait(LOOK_SECONDS)

    def _while_brought(self, job: "subprocess.Popen[str]", share: float) -> None:
        wanted = share * 0.98 * self.rows
        self._until(lambda: self.brought() >= wanted or job.poll() is not None, "it is brought")
        self.watcher.stopping.wait(self.dice.random() * LOOK_SECONDS)

    def _while_compared(self, job: "subprocess.Popen[str]") -> None:
        self._until(lambda: self.committing() or job.poll() is not None, "its commit is asked for")
        end = time.monotonic() + self.dice.random() * self.compare_seconds
        self._until(lambda: time.monotonic() > end or self._is_decided(job, 1), "it is compared")

    def _is_decided(self, job: "subprocess.Popen[str]", some: int) -> bool:
        """Return whether so many rows are staged, or all of them were."""
        return self.staged() >= some or self.moving or job.poll() is not None

    def _while_staged(self, job: "subprocess.Popen[str]", some: int) -> None:
        self._until(lambda: self._is_decided(job, some), "so much is staged")

    def _around_switch(self, job: "subprocess.Popen[str]") -> None:
        last = self.rows - self.rows % 1_000 or self.rows
        self._until(lambda: self._is_decided(job, last), "all is staged")
        self.watcher.stopping.wait(self.dice.random() * AROUND_SECONDS)

    def _while_moved(self, job: "subprocess.Popen[str]", kills: int) -> None:
        self._until(lambda: self.moving or job.poll() is not None, "it is switched")
        self.watcher.stopping.wait(self.dice.random() * 2 * self.move_seconds / (kills + 1))

    def _kill(self, number: int, phase: str) -> None:
        """Kill the server, with or without its applier, and look what is there after a restart."""
        both = self.dice.random() < 0.25
        was_moving = self.moving
        self.server.kill(children=both)
        began = time.monotonic()
        self.server.launch()  # and takes long where millions of staged rows are swept first
        self._until(self.server._ports, "it starts again")
        self.figures["seconds of the slowest start"] = max(
            self.figures["seconds of the slowest start"], int(time.monotonic() - began)
        )
        told = self.watcher.rounds[-1:] == [number]
        found = self.seen()
        assert found in {number - 1, number}, f"result {found} while {number} is written"
        assert found == number or not told, f"{number} was told and is not there"
        self.figures[f"killed, {phase}{', moving' if was_moving else ''}"] += 1
        self.figures["new results at a look"] += found == number
        print(f"  {phase}: {'new' if found == number else 'old'}", flush=True)


def planned(strikes: int) -> Counter[str]:
    """Return how many kills each phase gets; each has one where there are enough."""
    plan = Counter({phase: max(1, int(strikes * share)) for phase, share in SHARES.items()})
    plan["upload"] = max(0, plan["upload"] + strikes - plan.total())
    for phase in ("move", "compare", "switch", "stage"):
        plan[phase] -= max(0, min(plan[phase], plan.total() - strikes))
    return plan


def run_often(folder: Path, kills: int, seed: int, rows: int, strikes: int) -> dict[str, int]:
    """Kill so often, ``strikes`` times during each result; return what was counted."""
    dice, end, began = random.Random(seed), 1 + -(-kills // strikes), time.monotonic()
    with Server(folder, SCHEMA, settings=SETTINGS) as server:
        play = Play(server, rows, dice)
        play.memory.start()
        play.finish(1)
        play.watcher.start()
        wait_until(play.watcher.begun.is_set, "it watches")
        for number in range(2, end + 1):
            play.strike(number, min(strikes, kills - (number - 2) * strikes))
        play.watcher.await_all_of(end)
        assert not play.watcher.wrong, play.watcher.wrong[:5]
        assert play.watcher.rounds == [*range(2, end + 1)]
        play.memory.stopping.set()
        play.memory.join()
        with contextlib.suppress(subprocess.TimeoutExpired):
            assert server.stop() == 0
        assert logged(server, SCHEMA) == [(number, rows) for number in range(1, end + 1)]
        figures = play.figures
        figures["times that a watcher came back"] = play.watcher.reconnects
        figures["seconds in all"] = int(time.monotonic() - began)
        figures |= {f"MB of {name}": most for name, most in play.memory.most.items()}
    return dict(figures)
