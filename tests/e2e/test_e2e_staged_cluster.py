"""Large results in a cluster: each node shows all of one at once, whoever is killed (K12, M5).

Real nodes. Pages of a result are in the log before anybody sees it, so a node that dies meanwhile
finds them there; what a sequencer that died has begun is seen by nobody.
"""

import threading
from contextlib import suppress

import httpx
import pytest
from test_e2e_staged_workers import LOOK_SECONDS, ROWS, bring, is_staged

from clusters import Cluster
from serving import wait_until
from talking import Events


def names_at(node):
    """Return how many records of each name a node has."""
    rows = node.request("GET", "/Dog/?group(name,count())").json()
    return {row["name"]: row["count()"] for row in rows}


class Committing(threading.Thread):
    """Commits a result at a node; ``failed`` has why it did not.

    A node that is killed may have been the leader of the log's engine: then the sequencer cannot
    say whether it has committed, and answers 503, at which clients repeat (``Bringer.commit``).
    """

    def __init__(self, node, name, cut, **more):
        super().__init__(daemon=True)
        self.node, self.name_of_rows, self.cut, self.more = node, name, cut, more
        self.receipt = self.failed = None

    def run(self):
        try:
            self.receipt = bring(self.node, self.name_of_rows, self.cut, **self.more)
        except (AssertionError, httpx.HTTPError, OSError) as error:
            self.failed = error


class Looking(threading.Thread):
    """Looks at nodes again and again: who counts sees none of a result, or all of it."""

    def __init__(self, nodes):
        super().__init__(daemon=True)
        self.nodes, self.wrong, self.seen = nodes, [], 0
        self.stopping = threading.Event()

    def run(self):
        while not self.stopping.wait(LOOK_SECONDS):
            for node in self.nodes:
                with suppress(httpx.HTTPError, KeyError, ValueError, TypeError):  # it is killed
                    found = names_at(node)
                    self.seen += 1
                    if found not in ({"old": ROWS}, {"new": ROWS}):
                        self.wrong.append((node.name, found))


def check(cluster, since, *, reader):
    """All nodes have the result, and a reader each of its events once."""
    for node in cluster.running:
        wait_until(lambda node=node: names_at(node) == {"new": ROWS}, f"{node.name} shows it")
    told = []
    with Events(reader, "/Dog/", since) as stream:
        for event in stream:
            if event.kind == "put":
                told.append(event.value)
            if len(told) == ROWS:
                break
    assert {value["name"] for value in told} == {"new"}
    assert [f"d{number:05}" for number in range(ROWS)] == sorted(value["id"] for value in told)


def commit(cluster, committing, killed, table):
    """Commit a result, and kill a node when some rows of it are in a table; again if it failed."""
    sequencer = committing.node
    committing.start()
    dead = {"follower": cluster.followers[0], "sequencer": sequencer}.get(killed)
    if dead is not None:
        wait_until(lambda: is_staged(sequencer, table) or not committing.is_alive(), "it is staged")
        dead.kill()
    committing.join()
    if dead is not None:
        dead.launch()
    sequencer = cluster.settle()
    if committing.receipt is None:
        lost = isinstance(committing.failed, (httpx.HTTPError, OSError))
        busy = '"status":503' in str(committing.failed)
        assert (lost and killed == "sequencer") or (busy and killed != "nobody"), committing.failed
        bring(sequencer, committing.name_of_rows, committing.cut, **committing.more)


@pytest.mark.parametrize("killed", ["nobody", "follower", "sequencer"])
def test_k12_nodes_show_a_large_result_at_once_and_tell_each_of_its_events(tmp_path, killed):
    with Cluster(tmp_path) as cluster:
        sequencer = cluster.settle()
        since = bring(sequencer, "old", "1")["position"]
        for node in cluster.running:
            wait_until(lambda node=node: names_at(node) == {"old": ROWS}, f"{node.name} has it")
        looking = Looking(cluster.running)
        looking.start()
        commit(cluster, Committing(sequencer, "new", "2"), killed, "rowcast_staged")
        check(cluster, since, reader=cluster.followers[0])
        looking.stopping.set()
        looking.join()
        assert not looking.wrong, looking.wrong[:3]
        assert looking.seen


# -- a result that moves to another table ----------------------------------------------------------


def counts(node):
    """Return how many records Note, Dog, and Note again have, one after the other."""
    found = []
    for table in ("Note", "Dog", "Note"):
        (row,) = node.request("GET", f"/{table}/?group(count())").json() or [{"count()": 0}]
        found.append(row["count()"])
    return tuple(found)


RIGHT = {(ROWS, 0, ROWS), (ROWS, 0, 0), (ROWS, ROWS, 0), (0, ROWS, 0)}


class LookingAtBoth(Looking):
    """Looks at both tables: they change at the same moment."""

    def run(self):
        while not self.stopping.wait(LOOK_SECONDS):
            for node in self.nodes:
                with suppress(httpx.HTTPError, KeyError, ValueError, TypeError):  # it is killed
                    found = counts(node)
                    self.seen += 1
                    if found not in RIGHT:
                        self.wrong.append((node.name, found))


@pytest.mark.parametrize("killed", ["nobody", "follower", "sequencer"])
def test_k12_nodes_show_a_result_that_moves_in_both_tables_at_once(tmp_path, killed):
    with Cluster(tmp_path) as cluster:
        sequencer = cluster.settle()
        since = bring(sequencer, "old", "1", "Note", replace=True)["position"]
        for node in cluster.running:
            wait_until(lambda node=node: counts(node) == (ROWS, 0, ROWS), f"{node.name} has it")
        looking = LookingAtBoth(cluster.running)
        looking.start()
        committing = Committing(sequencer, "new", "2", replace=True)
        commit(cluster, committing, killed, "rowcast_staged_1")
        check(cluster, since, reader=cluster.followers[0])
        gone = set()
        with Events(cluster.followers[0], "/Note/", since) as stream:
            for event in stream:
                if event.kind == "delete":
                    gone.add(event.id)
                if len(gone) == ROWS:
                    break
        looking.stopping.set()
        looking.join()
        assert not looking.wrong, looking.wrong[:3]
        assert looking.seen
        assert {counts(node) for node in cluster.running} == {(0, ROWS, 0)}
