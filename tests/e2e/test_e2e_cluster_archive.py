"""An archive that the nodes of a cluster share in an object store (M2, K12)."""

import shutil
import uuid
from contextlib import ExitStack

import httpx
import pytest
from test_e2e_archive_store import use

from clusters import Cluster
from object_store import BUCKET, object_store
from postgres_server import running_postgres
from rowcast_lake.stores.object_paths import ObjectPath
from serving import PATIENCE_SECONDS, wait_until
from talking import Events

pytestmark = pytest.mark.timeout(5 * PATIENCE_SECONDS)
KEPT = 4
ROUND = 25


@pytest.fixture
def settings():
    return {
        "log.archive": "true",
        "log.archive_location": f"s3://{BUCKET}/{uuid.uuid4().hex}",
        "history.keep_events": KEPT,
        "history.keep_seconds": 0,
        "history.sweep_seconds": 0.05,
    }


class Writer:
    """Writes numbers one after the other, and keeps the cursor of each that was acknowledged."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.cursors = {}

    def write(self, count):
        for n in range(len(self.cursors), len(self.cursors) + count):
            self.cursors[n] = wait_until(lambda n=n: self._written(n), f"{n} is written")

    def _written(self, n):
        try:
            answer = self.cluster.running[-1].request("PUT", "/Counter/a", json={"n": n})
            return answer.headers["etag"].strip('"') if answer.is_success else None
        except httpx.HTTPError:
            return None


def past(node):
    """Return all that a node tells of the past: cursors and values; None if it is busy."""
    answer = node.request("GET", "/Counter/a?from=0")
    if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        return None
    answer.raise_for_status()
    assert "rowcast-trimmed" not in answer.headers
    return [(row["_seq"], row["value"]["n"]) for row in answer.json()]


def until_same_past(cluster, writer):
    """Wait until all nodes tell the same; every acknowledged write is in it, once and in order."""

    def same():
        pasts = [past(node) for node in cluster.running]
        return pasts[0] if all(found == pasts[0] for found in pasts) else None

    found = wait_until(same, "all nodes tell the same past")
    seqs = [seq for seq, _ in found]
    assert seqs == sorted({*seqs})
    assert [*writer.cursors] == [*dict.fromkeys(n for _, n in found)]
    told = dict(found)
    for n, cursor in writer.cursors.items():
        assert told[int(cursor.partition(":")[2])] == n
    return found


def objects(settings):
    """Return the names of all files in the store."""
    place = ObjectPath.of(settings["log.archive_location"])
    return {str(path) for path in place.rglob() if path.name.endswith(".parquet")}


def rows(node):
    return node.request("GET", "/$SYS/archive/").json()


def until_archived(node, upto):
    wait_until(lambda: any((x["last"] or 0) >= upto for x in rows(node)), "they are archived")


@pytest.mark.parametrize("engine", ["nats", "postgres"])
def test_m2_nodes_share_an_archive(tmp_path, settings, monkeypatch, engine):
    """A sequencer that dies as it archives, a node from nothing, cursors, and a store away."""
    with ExitStack() as store, ExitStack() as log:
        if engine == "postgres":
            settings["cluster.engine"] = log.enter_context(running_postgres()).url
        port = use(store.enter_context(object_store()), monkeypatch)
        with Cluster(tmp_path, **settings) as cluster:
            writer = Writer(cluster)
            for _ in range(2):
                sequencer = cluster.settle()
                writer.write(ROUND)
                before = objects(settings)
                writer.write(KEPT + 1)
                wait_until(lambda before=before: objects(settings) - before, "a file is sent")
                sequencer.kill()
                writer.write(ROUND)
                found = until_same_past(cluster, writer)
                until_archived(cluster.running[0], found[-KEPT - 1][0])
                assert found == until_same_past(cluster, writer)
                sequencer.launch()
                cluster.settle()
                assert found == until_same_past(cluster, writer)
            _continue_elsewhere(cluster, writer, found)
            _begin_again(cluster, writer, found)
            store.close()
            _go_on_without(cluster.settle(), writer, object_store(port))


def _continue_elsewhere(cluster, writer, found):
    """A cursor of one node goes on at each, over the archive; and each tells what was then."""
    epoch, middle = writer.cursors[0].partition(":")[0], found[len(found) // 2]
    for node in cluster.running:
        with Events(node, "/Counter/", since=f"{epoch}:{found[0][0]}") as events:
            heard = [events.next().value["n"] for _ in found[1:]]
        assert [n for _, n in found[1:]] == heard
        then = node.request("GET", f"/Counter/a?asof={epoch}:{middle[0]}").json()
        assert middle[1] == then["n"]


def _begin_again(cluster, writer, found):
    """A node with an empty disk reads what was archived before it was there."""
    node = cluster.followers[0]
    node.kill()
    shutil.rmtree(node.folder / "data")
    node.launch()
    cluster.settle()
    assert found == until_same_past(cluster, writer)


def _go_on_without(sequencer, writer, again):
    """While the store is away nothing is trimmed, which the sequencer says."""
    writer.write(3 * KEPT)
    wait_until(lambda: any(x["error"] for x in rows(sequencer)), "it says what is wrong")
    with again:
        wait_until(lambda: not any(x["error"] for x in rows(sequencer)), "it is well again")
        found = until_same_past(writer.cluster, writer)
        until_archived(sequencer, found[-KEPT - 1][0])
        assert found == until_same_past(writer.cluster, writer)
