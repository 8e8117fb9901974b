"""Nodes join a cluster and leave it while the others run and are written to (K12).

Real nodes, each with its server of NATS.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
from test_e2e_cluster import put, until_put, until_same

from clusters import Cluster, Node
from free_ports import free_ports
from serving import PATIENCE_SECONDS, TooLate, rowcast, wait_until

WRITE_SECONDS = 0.02
"""Between two writes: at full rate a writer takes all that the machine has, and proves the same."""

pytestmark = pytest.mark.timeout(8 * PATIENCE_SECONDS)


class Growing(Cluster):
    """A cluster, and nodes that wait to be let in; those name two of the others as peers."""

    def __init__(self, folder):
        super().__init__(folder)
        self._folder, self._waiting = folder, {}
        self.peers = dict(one.split("=") for one in self._settings["cluster.peers"].split(","))

    @property
    def _settings(self):
        return next(iter(self.nodes.values())).settings

    def __exit__(self, *reason):
        super().__exit__(*reason)
        for node in self._waiting.values():
            node.kill()

    def start(self, name, beside):
        """Start a node, and wait until it waits."""
        port, http, mqtt = free_ports(3)
        self.peers[name] = f"127.0.0.1:{port}"
        own = {"cluster.secret": self._settings["cluster.secret"], "http.port": http}
        peers = [f"{one}={self.peers[one]}" for one in (*beside, name)]
        node = Node(self._folder / name, name, peers, **own, **{"mqtt.network.port": mqtt})
        self._waiting[name] = node
        node.launch()
        says = f"rowcast cluster join {name}={self.peers[name]}"
        wait_until(lambda: says in node.log, "it says how to let it in")
        return node

    def ask(self, *words):
        """Run a command at a node that runs; return what it says."""
        ended = rowcast("cluster", *words, "--url", self.running[0].url)
        assert "Traceback" not in ended.stderr
        return ended.stderr

    def until(self, says, *words):
        """Run a command until it says this."""
        said = []

        def done():
            said.append(self.ask(*words))
            return says in said[-1]

        try:
            wait_until(done, f"{words}: {says}")
        except TooLate:
            raise AssertionError(f"it says: {set(said)}") from None

    def refuses_to_let_go(self, choose, reason):
        """Ask one node that runs to leave, again when the nodes change parts meanwhile."""

        def refused():
            name = choose().name
            return f"node {name} {reason}" in self.ask("leave", name)

        wait_until(refused, f"a node does not leave: {reason}")

    def join(self, name):
        """Let in a node that waits."""
        self.until(f"node {name} has joined", "join", f"{name}={self.peers[name]}")
        self.nodes[name] = self._waiting.pop(name)
        self.settle()

    @property
    def names(self):
        """The nodes as the sequencer lists them."""
        return sorted(self.settle().nodes)


@contextmanager
def writing(cluster):
    """Write at the nodes in turn; gives what was acknowledged: names and ETags."""
    done, written = threading.Event(), {}

    def write():
        n = 0
        while not done.wait(WRITE_SECONDS):
            n += 1
            node = cluster.running[n % len(cluster.running)]
            try:
                answer = put(node, f"w{n}", n=n)
            except httpx.HTTPError:
                continue
            if answer.is_success:
                written[f"w{n}"] = answer.headers["etag"]

    with ThreadPoolExecutor(1) as threads:
        task = threads.submit(write)
        try:
            yield written
        finally:
            done.set()
        task.result()


def check(cluster, written):
    """Check that nothing is lost, and that all nodes have the same."""
    until_same(cluster)
    for node in cluster.running:
        found = {row["id"]: row["n"] for row in node.request("GET", "/Dog/").json()}
        assert found.keys() >= written.keys()
    for name, etag in list(written.items())[-5:]:
        assert cluster.running[-1].request("GET", f"/Dog/{name}").headers["etag"] == etag
    same = rowcast("cluster", "verify", *(node.url for node in cluster.running))
    assert same.returncode == 0, same.stdout + same.stderr


def more(written):
    """Wait until writes go on."""
    before = len(written)
    wait_until(lambda: len(written) > before + 5, "writes go on")


def test_one_node_is_replaced_by_another_while_all_are_written_to(tmp_path):
    """K12: the new one joins, an old one leaves; the new one votes and has the log."""
    with Growing(tmp_path) as cluster:
        with writing(cluster) as written:
            more(written)
            new = cluster.start("d", "ab")
            cluster.join("d")
            more(written)
            assert cluster.names == ["a", "b", "c", "d"]
            old = next(node for node in cluster.followers if node is not new)
            assert f"node {old.name} runs; stop it first" in cluster.ask("leave", old.name)
            assert old.stop() == 0, old.log
            cluster.until(f"node {old.name} has left", "leave", old.name)
            more(written)
            assert cluster.names == sorted(node.name for node in cluster.running)
        check(cluster, written)
        old.launch()
        wait_until(lambda: old.process.poll() is not None, "it does not start")
        assert f"node {old.name} has left the cluster test" in old.log
        old.process = None
        next(node for node in cluster.running if node is not new).kill()
        written["after"] = until_put(new, "after", n=1).headers["etag"]
        cluster.settle()
        check(cluster, written)


def test_nodes_stay_as_they_are_while_one_is_missing(tmp_path):
    """K12: neither join nor leave; then the one that is gone for good is replaced."""
    with Growing(tmp_path) as cluster:
        written = {"kept": put(cluster.settle(), "kept", n=1).headers["etag"]}
        cluster.refuses_to_let_go(cluster.settle, "is the sequencer")
        assert "there is no node 'x'" in cluster.ask("leave", "x")
        assert "write NAME=HOST:PORT" in cluster.ask("join", "x")
        assert "node x is not there; start it" in cluster.ask("join", "x=127.0.0.1:1")
        gone = cluster.followers[0]
        gone.kill()
        missing = f"node {gone.name} is missing"
        cluster.start("d", sorted(node.name for node in cluster.running))
        cluster.until(missing, "join", f"d={cluster.peers['d']}")
        row = cluster.followers[0].nodes[gone.name]
        assert not row["connected"]
        assert row["batch"] is row["behind"] is None
        cluster.refuses_to_let_go(lambda: cluster.followers[0], "runs; stop it first")
        assert cluster.names == ["a", "b", "c"]
        cluster.until("of which none may fail", "leave", gone.name)
        assert cluster.names == ["a", "b", "c"]
        cluster.until(f"node {gone.name} has left", "leave", gone.name, "--two-remain")
        cluster.join("d")
        assert cluster.names == sorted(node.name for node in cluster.running)
        check(cluster, written)
        cluster.settle().kill()
        written["after"] = until_put(cluster.running[0], "after", n=3).headers["etag"]
        cluster.settle()
        check(cluster, written)


def test_three_nodes_become_five_and_three_again(tmp_path):
    """K12: with five, two may die; each step is taken while the nodes are written to."""
    with Growing(tmp_path) as cluster:
        with writing(cluster) as written:
            for name in "de":
                cluster.start(name, "ab")
                cluster.join(name)
                more(written)
        check(cluster, written)
        dead = cluster.followers[:2]
        for node in dead:
            node.kill()
        written["two less"] = until_put(cluster.running[0], "two less", n=1).headers["etag"]
        for node in dead:
            node.launch()
        cluster.settle()
        for node in dead:
            node.stop()
            cluster.until(f"node {node.name} has left", "leave", node.name)
        assert len(cluster.names) == 3
        written["three"] = until_put(cluster.running[0], "three", n=1).headers["etag"]
        check(cluster, written)


def test_one_of_three_nodes_does_not_go_on_alone(tmp_path):
    """K12: its own log would have other entries under the numbers of the one of all."""
    with Cluster(tmp_path) as cluster:
        etag = until_put(cluster.settle(), "before", n=1).headers["etag"]
        until_same(cluster)
        for node in cluster.running:
            node.stop()
        first = cluster.nodes["a"]
        peers = first.settings["cluster.peers"]
        first.settings["cluster.peers"] = peers.partition(",")[0]
        first.launch()
        words = "which has further nodes; alone it would write a second history"
        wait_until(lambda: words in first.log, "it says why it does not start")
        assert first.process.wait(PATIENCE_SECONDS) != 0
        first.settings["cluster.peers"] = peers
        for node in cluster.nodes.values():
            node.launch()
        cluster.settle()
        for node in cluster.running:
            assert node.request("GET", "/Dog/before").headers["etag"] == etag
