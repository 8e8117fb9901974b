"""A result of 60,000 rows that removes 52,000 records of another table, over HTTP (M5).

Others read and write meanwhile. Who looks at both tables, one after the other, sees that they
change at the same moment.
"""

import threading

import httpx
import pytest
from test_e2e_staged_workers import LOOK_SECONDS, is_staged

from serving import Server, wait_until
from talking import Events

ROWS, BEFORE, PART = 60_000, 52_000, 4_000
SCHEMA = """
type Dog @table @export { id: ID @primaryKey, name: String @indexed }
type Note @table @export { id: ID @primaryKey, name: String }
type Other @table @export { id: ID @primaryKey, name: String }
"""


def bring(server, table, count, cut):
    """Commit a result that replaces the one of before; return its receipt."""
    place, parts = f"/$SYS/results/up{cut}", [str(at) for at in range(0, count, PART)]
    with server.client() as ask:
        declared = {"table": table, "rows": count, "job": "daily", "replace": True}
        assert ask.put(place, json=declared).is_success
        for at in parts:
            rows = [{"id": f"d{int(at) + more:06}", "name": f"n{more}"} for more in range(PART)]
            brought = ask.put(f"{place}/{at}", json={"table": table, "rows": rows})
            assert brought.is_success, brought.text
        order = {"upload": f"up{cut}", "table": table, "job": "daily", "cut": str(cut)}
        order |= {"parts": parts, "rows": count, "replace": True}
        answer = ask.post("/$SYS/results/", json=order, timeout=600)
        assert answer.is_success, answer.text
        return answer.json()


def count(ask, table):
    (row,) = ask.get(f"/{table}/?group(count())").json() or [{"count()": 0}]
    return row["count()"]


RIGHT = {(BEFORE, 0, BEFORE), (BEFORE, 0, 0), (BEFORE, ROWS, 0), (0, ROWS, 0)}
"""What is counted of the other table, of its own, and of the other one again."""


class Neighbour(threading.Thread):
    """Looks at both tables in both orders, and writes in a third, again and again."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.looks, self.wrong = server, 0, []
        self.stopping = threading.Event()

    def run(self):
        with self.server.client() as ask:
            while not self.stopping.wait(LOOK_SECONDS):
                try:
                    notes, dogs, later = (count(ask, name) for name in ("Note", "Dog", "Note"))
                    written = ask.put("/Other/a", json={"name": f"n{self.looks}"}).status_code
                except (httpx.HTTPError, KeyError, ValueError) as error:
                    self.wrong.append(repr(error))
                    continue
                self.looks += 1
                if (notes, dogs, later) not in RIGHT or written not in {201, 204}:
                    self.wrong.append((notes, dogs, later, written))


@pytest.mark.slow
def test_m5_a_result_may_remove_more_than_50_000_records_of_another_table(tmp_path):
    with Server(tmp_path, SCHEMA) as server:
        since = bring(server, "Note", BEFORE, 1)["position"]
        neighbour = Neighbour(server)
        neighbour.start()
        receipt = bring(server, "Dog", ROWS, 2)
        assert (receipt["written"], receipt["removed"]) == (ROWS, BEFORE)
        with server.client() as ask:
            assert [count(ask, name) for name in ("Dog", "Note")] == [ROWS, 0]
        neighbour.stopping.set()
        neighbour.join()
        assert not neighbour.wrong, neighbour.wrong[:5]
        assert neighbour.looks > 3
        for table, kind, wanted in (("Dog", "put", ROWS), ("Note", "delete", BEFORE)):
            got = set()
            with Events(server, f"/{table}/", since) as stream:
                for event in stream:
                    if event.kind == kind:
                        got.add(event.id)
                    if len(got) == wanted:
                        break
            assert len(got) == wanted
        wait_until(lambda: not is_staged(server), "the rows are in their tables")
        with server.client() as ask:
            assert [count(ask, name) for name in ("Dog", "Note")] == [ROWS, 0]
