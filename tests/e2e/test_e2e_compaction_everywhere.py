"""Compaction at workers and nodes of a cluster: the same as where writes are numbered (E16).

Each of them has trimmed what the others have, and reads what was noted in the log before.
"""

import pytest
from test_e2e_workers import Served

from clusters import SCHEMA, Cluster
from rowcast_client import SyncRowcast
from serving import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(5 * PATIENCE_SECONDS)]
SETTINGS = {"history.sweep_seconds": 1}


def write(server):
    """Write so much that the first events are trimmed; return a cursor from before."""
    server.request("PUT", "/Stay/a", json={"site": "x"}).raise_for_status()
    cursor = server.request("PUT", "/Stay/b", json={"site": "y"}).headers["etag"].strip('"')
    server.request("DELETE", "/Stay/a").raise_for_status()
    server.request("PUT", "/Stay/c", json={"site": "z"}).raise_for_status()
    for _ in range(4):
        server.request("PUT", "/Stay/d", json={"site": "x"}).raise_for_status()
    return cursor


def keeps_what_is_left(ask):
    """Wait until the range of all events has what is left once only three are in the log.

    A sweep between the writes may have trimmed some of the others before.
    """

    def topics():
        answer = ask("GET", "/Stay/?from=0")
        said = answer.headers.get("rowcast-trimmed", ":0").rpartition(":")[2]
        return [event["topic"] for event in answer.json()] if int(said) >= 5 else None

    wait_until(lambda: topics() == LEFT, "the log is trimmed")


def heard(url, cursor):
    """Return what a reader hears who comes back with a cursor, up to the end of what is new."""
    with SyncRowcast(url) as rows:
        found = []
        for event in rows.subscribe("Stay/#", since=cursor):
            found.append((event.kind, event.topic))
            if found.count(("put", "Stay/d")) - found.count(("gap", "")) == 3:
                return found
    raise AssertionError(found)


LEFT = ["Stay/b", "Stay/c", "Stay/d", "Stay/d", "Stay/d", "Stay/d"]
HEARD = [
    ("put", "Stay/c"),
    ("put", "Stay/d"),
    ("delete", "Stay/a"),
    ("snapshot", "Stay/c"),
    ("gap", ""),
    ("current", ""),
    *[("put", "Stay/d")] * 3,
]


def test_e16_workers_have_what_the_server_keeps(tmp_path):
    with Served(tmp_path, SCHEMA, **SETTINGS) as server:
        cursor = write(server)
        keeps_what_is_left(server.request)
        for _ in range(4):
            keeps_what_is_left(server.work)
            assert HEARD == heard(f"http://127.0.0.1:{server.workers_port}", cursor)


def test_e16_nodes_have_what_the_sequencer_keeps(tmp_path):
    """E16: also when another one has taken over."""
    with Cluster(tmp_path, **SETTINGS) as cluster:
        cursor = write(cluster.settle())
        for _ in range(2):
            for node in cluster.running:
                keeps_what_is_left(node.request)
            for node in cluster.running:  # streams of several topics are the sequencer's
                assert HEARD == heard(node.url, cursor)
            if len(cluster.running) == 3:
                assert cluster.settle().kill() is not None
                cluster.settle()
