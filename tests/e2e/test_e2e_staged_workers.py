"""Large results beside workers: every process shows all of one at once, whoever is killed (K1, M5).

Real processes. A result that is staged is in the tables, page by page, before anybody sees it; the
workers read the same tables.
"""

import os
import signal
import sqlite3
import threading
from collections import Counter
from contextlib import closing

import pytest
from test_e2e_workers import Served

from serving import wait_until

ROWS = 6_000
"""More than are written in one batch; six pages."""
LOOK_SECONDS = 0.02
"""Between two looks at a result: without it those who look take all that the machine has."""
SCHEMA = "type Dog @table @export { id: ID @primaryKey, name: String }"


def bring(server, name, cut, table="Dog", **more):
    """Bring a result and commit it; return its receipt."""
    order = {"upload": "up", "table": table, "job": "daily", "cut": cut, "parts": ["0"], **more}
    with server.client() as ask:
        rows = [{"id": f"d{number:05}", "name": name} for number in range(ROWS)]
        brought = ask.put("/$SYS/results/up/0", json={"table": table, "rows": rows})
        assert brought.is_success, brought.text
        answer = ask.post("/$SYS/results/", json=order | {"rows": ROWS})
        assert answer.is_success, answer.text
        return answer.json()


def is_staged(server, table="rowcast_staged"):
    """Whether pages are in the tables that nobody sees, or rows that are to be moved."""
    path = server.folder / "data" / "rowcast.db"
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as file:
            return file.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    except sqlite3.OperationalError:  # not there
        return 0


def are_there(rows, restarts):
    """Whether all workers are ready, and so many were started again, by one look at them."""
    return all(row["ready"] for row in rows) and sum(row["restarts"] for row in rows) == restarts


class Reader(threading.Thread):
    """Reads at workers, over and over: no page of a list is of an older result than the one before.

    Each round begins a connection, so that both workers are asked.
    """

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.wrong = server, []
        self.stopping = threading.Event()

    def run(self):
        while not self.stopping.wait(LOOK_SECONDS):
            try:
                rows = self.server.work("GET", f"/Dog/?limit({2 * ROWS})").json()
            except Exception:  # noqa: BLE001 - the worker is being killed
                continue
            names = [row["name"] for row in rows]
            if len(names) != ROWS or names != sorted(names, reverse=True):
                self.wrong.append(Counter(names))


def events(server, since, got):
    """Read all events of a result at a worker."""
    with server.stream("/Dog/", since) as opened:
        for told in opened:
            if told.kind == "put":
                got.append((told.id, told.value["name"]))
            if len(got) >= ROWS:
                return


@pytest.mark.parametrize("killed", [None, 0, 1], ids=["nobody", "one worker", "both workers"])
def test_k1_workers_show_a_large_result_at_once_and_tell_each_of_its_events(tmp_path, killed):
    with Served(tmp_path, SCHEMA) as server:
        since = bring(server, "old", "1")["position"]
        got, done, failed = [], [], []
        reader = Reader(server)
        reader.start()
        watching = threading.Thread(target=events, args=(server, since, got), daemon=True)
        if killed is None:
            watching.start()
            wait_until(lambda: server.request("GET", "/$SYS/streams/").json(), "a reader")

        def commit():
            try:
                done.append(bring(server, "new", "2"))
            except BaseException as error:  # noqa: BLE001 - told by the main thread
                failed.append(error)

        asking = threading.Thread(target=commit)
        asking.start()
        if killed is not None:
            wait_until(lambda: is_staged(server) or done or failed, "it is being staged")
        dead = server.rows[: 0 if killed is None else killed + 1]
        for row in dead:
            os.kill(row["pid"], signal.SIGKILL)
        wait_until(lambda: are_there(server.rows, len(dead)), "all workers are there")
        asking.join()
        assert not failed, failed
        assert done[0]["written"] == ROWS
        wait_until(
            lambda: (
                {
                    server.work("GET", f"/Dog/d{ROWS - 1:05}").json()["name"],
                    *(row["name"] for row in server.work("GET", f"/Dog/?limit({ROWS})").json()),
                }
                == {"new"}
            ),
            "workers show the result",
        )
        if killed is None:
            watching.join()
            assert {name for _, name in got} == {"new"}
            numbers = [int(position.rpartition(":")[2]) for position, _ in got]
            assert numbers == list(range(numbers[0], numbers[0] + ROWS))
            assert done[0]["position"] == got[-1][0]
        reader.stopping.set()
        reader.join()
        assert not reader.wrong, reader.wrong[:3]
        assert server.work("PUT", "/Dog/d00001", json={"name": "by hand"}).status_code == 204
        assert server.request("GET", "/Dog/d00001").json()["name"] == "by hand"
