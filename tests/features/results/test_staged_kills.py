"""A large result, and kills of the server, of its applier or of both, at any moment of it.

Whatever is killed at whichever moment, all of the result is there afterwards, or nothing of it, and
it is committed without being brought again.
"""

import contextlib
import os
import signal
import sqlite3
import threading
from contextlib import closing

import httpx
import pytest

from serving import Server, wait_until

ROWS = 6_000
"""More than are written in one batch; six pages."""
ORDER = {"upload": "up", "table": "Dog", "job": "daily", "cut": "1", "parts": ["0"], "rows": ROWS}
MOVES = ORDER | {"cut": "2", "replace": True}
"""The same, where its job has written another table before."""

EVENTS = """
    SELECT count(*) FROM rowcast_log JOIN rowcast_tables AS t ON t.id=table_id WHERE t.name='%s'
"""
SCHEMA = """
type Dog @table @export { id: ID @primaryKey, name: String }
type Note @table @export { id: ID @primaryKey, name: String }
"""


def bring(server, table="Dog"):
    with server.client() as ask:
        rows = [{"id": f"d{number:05}", "name": "new"} for number in range(ROWS)]
        brought = ask.put("/$SYS/results/up/0", json={"table": table, "rows": rows})
        assert brought.is_success, brought.text


def commit(server, answers, order=ORDER):
    with contextlib.suppress(httpx.HTTPError), server.client() as ask:
        answers.append(ask.post("/$SYS/results/", json=order).json())


def file_says(server, text):
    """Ask the file of the tables, which the server may be writing."""
    path = server.folder / "data" / "rowcast.db"
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as file:
            return file.execute(text).fetchone()[0]
    except sqlite3.OperationalError:  # the table is not there, or no longer
        return 0


def staged(rows, table="rowcast_staged"):
    return lambda server: file_says(server, f"SELECT count(*) FROM {table}") >= rows


def removed(rows):
    """Whether so many removals are staged, in the other table."""
    return staged(rows, "rowcast_staged_1")


def switched(server):
    return file_says(server, "SELECT count(*) FROM rowcast_meta WHERE name='overlay'")


def dogs(server, table="Dog"):
    """Return how many records and events there are, as everybody sees them."""
    with server.client() as ask:
        records = len(ask.get(f"/{table}/?select(id)&limit(20000)").json())
    return records, file_says(server, EVENTS % table)


def in_both(server):
    return dogs(server), dogs(server, "Note")


BEFORE, AFTER = ((0, 0), (ROWS, ROWS)), ((ROWS, ROWS), (0, 2 * ROWS))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "both"),
    [(staged(1), True), (staged(5_000), False), (switched, False), (switched, True)],
    ids=["begun, both", "half, server", "switched, server", "switched, both"],
)
def test_m5_a_kill_leaves_all_of_a_large_result_or_nothing(tmp_path, moment, both):
    with Server(tmp_path) as server:
        bring(server)
        answers = []
        asking = threading.Thread(target=commit, args=(server, answers))
        asking.start()
        wait_until(lambda: moment(server) or answers, "the result is so far")
        server.kill(children=both)
        asking.join()
        server.start()
        found = dogs(server)
        assert found in {(0, 0), (ROWS, ROWS)}
        assert found[0] or not answers
        commit(server, answers)  # of what was brought before the kill
        assert answers[-1]["repeat"] is bool(found[0])
        assert dogs(server) == (ROWS, ROWS)
        wait_until(lambda: not switched(server), "the rows are in their table")
        assert dogs(server) == (ROWS, ROWS)


@pytest.mark.slow
def test_a_result_goes_on_when_the_applier_is_killed(tmp_path):
    with Server(tmp_path) as server:
        bring(server)
        answers = []
        asking = threading.Thread(target=commit, args=(server, answers))
        asking.start()
        for rows in (1, 5_000):
            wait_until(lambda rows=rows: staged(rows)(server) or answers, "the result is so far")
            for pid in server.children:
                os.kill(pid, signal.SIGKILL)
        asking.join()
        assert answers[0]["written"] == ROWS
        assert dogs(server) == (ROWS, ROWS)


def begin_to_move(server, answers):
    """Have a result written in one table, and begin to commit the next one in the other."""
    bring(server, "Note")
    commit(server, answers, MOVES | {"table": "Note", "cut": "1"})
    assert answers.pop()["written"] == ROWS
    assert in_both(server) == BEFORE
    bring(server)
    asking = threading.Thread(target=commit, args=(server, answers, MOVES))
    asking.start()
    return asking


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "both"),
    [
        (staged(5_000), False),
        (removed(1), True),
        (removed(5_000), False),
        (switched, False),
        (switched, True),
    ],
    ids=["rows, server", "removals, both", "half, server", "switched, server", "switched, both"],
)
def test_m5_a_kill_leaves_both_tables_of_a_result_that_moves_new_or_as_before(
    tmp_path, moment, both
):
    with Server(tmp_path, SCHEMA) as server:
        answers = []
        asking = begin_to_move(server, answers)
        wait_until(lambda: moment(server) or answers, "the result is so far")
        server.kill(children=both)
        asking.join()
        server.start()
        found = in_both(server)
        assert found in {BEFORE, AFTER}
        assert found == AFTER or not answers
        commit(server, answers, MOVES)
        assert answers[-1]["repeat"] is (found == AFTER)
        assert in_both(server) == AFTER
        wait_until(lambda: not switched(server), "the rows are in their tables")
        assert in_both(server) == AFTER
        left = "SELECT count(*) FROM sqlite_master WHERE name GLOB 'rowcast_staged*'"
        assert not file_says(server, left)


@pytest.mark.slow
def test_a_result_that_moves_goes_on_when_the_applier_is_killed(tmp_path):
    with Server(tmp_path, SCHEMA) as server:
        answers = []
        asking = begin_to_move(server, answers)
        for moment in (staged(5_000), removed(1), removed(5_000), switched):
            wait_until(lambda at=moment: at(server) or answers, "the result is so far")
            for pid in server.children:
                os.kill(pid, signal.SIGKILL)
        asking.join()
        assert (answers[0]["written"], answers[0]["removed"]) == (ROWS, ROWS)
        assert in_both(server) == AFTER
