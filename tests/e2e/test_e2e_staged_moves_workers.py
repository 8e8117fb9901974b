"""A large result that moves to another table, beside workers: one switch for both tables (K1, M5).

Real processes. The job had written 6,000 records of one table; now it writes 6,000 of another one,
so those of before are removed. Each worker shows both at once, and tells each event once.
"""

import os
import signal
import threading

import httpx
import pytest
from test_e2e_staged_workers import LOOK_SECONDS, ROWS, are_there, bring, is_staged
from test_e2e_workers import Served

from serving import wait_until

SCHEMA = """
type Dog @table @export { id: ID @primaryKey, name: String }
type Note @table @export { id: ID @primaryKey, name: String }
"""
RIGHT = {(ROWS, 0, ROWS), (ROWS, 0, 0), (ROWS, ROWS, 0), (0, ROWS, 0)}
"""What is counted of the table of before, of the new one, and of that of before again."""

HEAR_SECONDS = 120
"""All events of a result are told by then: a second, on a machine that has nothing else to do."""


def counts(server):
    """Count the records of both tables at one worker, over one connection."""
    with server.client() as client:
        found = []
        for table in ("Note", "Dog", "Note"):
            url = f"http://127.0.0.1:{server.workers_port}/{table}/?group(count())"
            (row,) = client.get(url).json() or [{"count()": 0}]
            found.append(row["count()"])
    return tuple(found)


class Looker(threading.Thread):
    """Looks at both tables at a worker, over and over; each round may ask another one."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.seen = server, set()
        self.stopping = threading.Event()

    def run(self):
        while not self.stopping.wait(LOOK_SECONDS):
            try:
                self.seen.add(counts(self.server))
            except (httpx.HTTPError, KeyError, TypeError, ValueError):
                continue  # the worker is being killed, or begins


def hear(server, table, since, got):
    """Read a worker's events of a table until all of a result are there."""
    with server.stream(f"/{table}/", since) as opened:
        for told in opened:
            got.append((int(told.id.rpartition(":")[2]), table, told.kind))
            if len(got) == ROWS:
                return


@pytest.mark.parametrize("killed", [False, True], ids=["nobody", "both workers"])
def test_k1_workers_show_a_result_that_moves_to_another_table_at_once(tmp_path, killed):
    """K1, M5: also if all of them are killed while it is staged."""
    with Served(tmp_path, SCHEMA) as server:
        since = bring(server, "old", "1", "Note", replace=True)["position"]
        wait_until(lambda: counts(server) == (ROWS, 0, ROWS), "workers show the first result")
        looker, heard = Looker(server), ([], [])
        ears = [
            threading.Thread(target=hear, args=(server, table, since, got), daemon=True)
            for table, got in zip(("Note", "Dog"), heard, strict=True)
        ]
        if not killed:
            for ear in ears:
                ear.start()
            wait_until(lambda: len(server.request("GET", "/$SYS/streams/").json()) == 2, "readers")
        looker.start()
        done = []
        asking = threading.Thread(
            target=lambda: done.append(bring(server, "new", "2", "Dog", replace=True))
        )
        asking.start()
        wait_until(lambda: is_staged(server) or not asking.is_alive(), "it is being staged")
        dead = server.rows if killed else []
        for row in dead:
            os.kill(row["pid"], signal.SIGKILL)
        wait_until(lambda: are_there(server.rows, len(dead)), "all workers are there")
        asking.join()
        assert (done[0]["written"], done[0]["removed"]) == (ROWS, ROWS)
        if killed:  # those that come later read the same from the log
            for ear in ears:
                ear.start()
        for ear in ears:
            ear.join(HEAR_SECONDS)
            assert not ear.is_alive(), [len(got) for got in heard]
        wait_until(lambda: counts(server) == (0, ROWS, 0), "workers show the result")
        looker.stopping.set()
        looker.join()
        assert looker.seen <= RIGHT, looker.seen - RIGHT
        check(heard, done[0])
        assert server.work("PUT", "/Note/d00001", json={"name": "by hand"}).status_code == 201
        assert server.request("GET", "/Note/d00001").json()["name"] == "by hand"


def check(heard, receipt):
    """Each event was told once, of one range of numbers, whose last one is the receipt's."""
    notes, dogs = heard
    assert {(table, kind) for _, table, kind in notes} == {("Note", "delete")}
    assert {(table, kind) for _, table, kind in dogs} == {("Dog", "put")}
    numbers = sorted(number for number, *_ in (*notes, *dogs))
    assert numbers == list(range(numbers[0], numbers[0] + 2 * ROWS))
    assert receipt["position"].endswith(f":{numbers[-1]}")
