"""Large results in a cluster whose records are kept equal at another site (K3, K12).

There newer writes win over staged rows. Each node decides that by the log, so all show the same,
whoever is killed in the middle.
"""

import json
import sqlite3
import threading
from contextlib import closing, suppress

import httpx
import pytest
from test_e2e_staged_cluster import Committing
from test_e2e_staged_workers import ROWS, bring, is_staged

from clusters import Cluster
from free_ports import free_port
from serving import wait_until

HANDS = 300
"""Records that others write meanwhile."""
LOG = """
    SELECT l.topic, l.version FROM rowcast_log AS l JOIN rowcast_tables AS t ON t.id = l.table_id
    WHERE t.name = 'Dog' ORDER BY l.seq
"""


class Hands(threading.Thread):
    """Writes single records at a node, one after the other."""

    def __init__(self, node, which):
        super().__init__(daemon=True)
        self.node, self.keys = node, [f"d{number:05}" for number in range(*which)]
        self.written = []
        self.stopping = threading.Event()

    def run(self):
        with self.node.client() as client:
            for key in self.keys:
                if self.stopping.wait(0.005):
                    return
                with suppress(httpx.HTTPError):  # it is being killed
                    answer = client.put(f"/Dog/{key}", json={"name": "by hand"})
                    if answer.is_success:
                        self.written.append(key)


def records(node):
    """Return name and version of all records of a node."""
    rows = node.request("GET", f"/Dog/?limit({2 * ROWS})&meta=true").json()
    return {row["id"]: (row["name"], row["_version"]) for row in rows}


def are_in_order(node):
    """Whether of each record newer events follow older ones."""
    newest = {}
    path = node.folder / "data" / "rowcast.db"
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as file:
        for topic, version in file.execute(LOG):
            if version <= newest.get(topic, 0):
                return False
            newest[topic] = version
    return len(newest) == ROWS


@pytest.mark.timeout(300)
@pytest.mark.parametrize("killed", ["nobody", "follower", "sequencer"])
def test_k3_nodes_let_the_same_newer_writes_win(tmp_path, killed):
    bridge = {"name": "away", "host": "127.0.0.1", "port": free_port(), "sync": ["Dog/#"]}
    with Cluster(tmp_path, **{"gateway.brokers": json.dumps([bridge])}) as cluster:
        sequencer = cluster.settle()
        follower, other = cluster.followers[:2]
        bring(sequencer, "old", "1")
        wait_until(lambda: not is_staged(sequencer), "its rows are in the table")
        committing = Committing(sequencer, "new", "2")
        committing.start()
        wait_until(lambda: is_staged(sequencer) or not committing.is_alive(), "it is staged")
        hands = [Hands(other, (0, HANDS)), Hands(sequencer, (ROWS - HANDS, ROWS))]
        for hand in hands:
            hand.start()
        dead = {"follower": follower, "sequencer": sequencer}.get(killed)
        if dead is not None:
            dead.kill()
        committing.join()
        for hand in hands:
            hand.stopping.set()
            hand.join()
        if dead is not None:
            dead.launch()
        sequencer = cluster.settle()
        if committing.receipt is None:
            assert killed != "nobody", committing.failed
            bring(sequencer, "new", "2")
        for node in cluster.running:
            wait_until(lambda node=node: records(node) == records(sequencer), node.name)
            wait_until(lambda node=node: are_in_order(node), f"the log of {node.name}")
        found = records(sequencer)
        assert len(found) == ROWS
        names = {name for name, _ in found.values()}
        assert {"new"} <= names <= {"new", "by hand"}
        if committing.receipt is not None:
            written = {key for hand in hands for key in hand.written}
            assert {key for key, (name, _) in found.items() if name == "by hand"} == written
