"""Two sites that are clusters: each goes on alone, and they are equal again (K3, K5)."""

import json
from contextlib import ExitStack

import httpx
import pytest

from clusters import Cluster
from cutting import Way
from serving import PATIENCE_SECONDS, rowcast, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(10 * PATIENCE_SECONDS)]
NAMES = "north", "south"
DOGS = 12
LEASE_SECONDS = 6.0
"""Longer than with one cluster: six nodes and their engines share the machine."""
CONFLICTS = "/$SYS/conflicts/"


class Site:
    """A cluster whose bridge, and whose way to the other site, can be cut."""

    def __init__(self, stack, folder, name):
        self.cluster = Cluster(folder / name, **{"cluster.lease_seconds": LEASE_SECONDS})
        door, *_ = self.cluster.nodes.values()
        self.way = Way(door.mqtt_port)
        """Leads to one of its nodes, as a load balancer does."""
        stack.callback(self.way.close)
        self._stack = stack

    def begin(self, other):
        """Start its nodes, each with the bridge: the sequencer has it run."""
        bridge = {"name": "other", "host": "127.0.0.1", "port": other.way.port,
                  "sync": ["Dog/#"], "reconnect_interval_ms": 100}  # fmt: skip
        for node in self.cluster.nodes.values():
            node.settings["gateway.brokers"] = json.dumps([bridge])
        self._stack.enter_context(self.cluster)

    def cut(self, *, shut):
        self.way.shut = shut
        self.way.cut()

    def ask(self, method, path, **options):
        """Ask a node until it answers: roles may change on a busy machine."""

        def answered():
            for node in self.cluster.running:
                try:
                    answer = node.request(method, path, **options)
                except httpx.HTTPError:
                    continue
                if answer.status_code != 503:
                    return answer
            return None

        return wait_until(answered, f"{method} {path} is answered")

    def put(self, number, name):
        assert self.ask("PUT", f"/Dog/{number}", json={"name": name}).is_success

    def states(self):
        """Return name and version of all dogs, as each of its nodes has them."""
        found = set()
        for node in self.cluster.running:
            rows = [node.request("GET", f"/Dog/{n}") for n in range(DOGS)]
            found.add(tuple((row.status_code == 200 and row.json()["name"],
                             row.headers.get("rowcast-version")) for row in rows))  # fmt: skip
        return found

    def idle(self):
        """Whether its bridge is connected, and has sent all."""
        row = self.ask("GET", "/$SYS/brokers/other").json()
        return row["connected"] and not row["outbox_pending"]


def until_equal(sites):
    """Wait until all nodes of both sites have the same; return it."""

    def same():
        found = set.union(*(site.states() for site in sites))
        return found.pop() if len(found) == 1 and all(site.idle() for site in sites) else None

    return wait_until(same, "all nodes of both sites are equal")


def conflicts(site):
    """Return topic and value of the writes that lost, as a site lists them."""
    return sorted((row["topic"], row["value"]["name"]) for row in site.ask("GET", CONFLICTS).json())


def test_two_clusters_are_cut_apart_and_converge(tmp_path):
    """K3, K5: the sequencer dies meanwhile, and its bridge goes on at another one."""
    with ExitStack() as stack:
        north, south = sites = [Site(stack, tmp_path, name) for name in NAMES]
        for site, other in zip(sites, reversed(sites), strict=True):
            site.begin(other)
        for n in range(DOGS):
            sites[n % 2].put(n, "both")
        assert {name for name, _ in until_equal(sites)} == {"both"}
        for site in sites:
            site.cut(shut=True)
        wait_until(lambda: not north.idle() and not south.idle(), "both bridges are cut")
        for n in range(DOGS // 2):  # six are written at both sites, two at one of them
            north.put(n, "of the north")
        gone = north.cluster.settle()
        gone.kill()
        for n in range(DOGS // 2):
            south.put(n, "of the south")
        south.put(DOGS - 1, "only south")
        north.put(DOGS - 2, "only north")
        gone.launch()
        north.cluster.settle()
        for site in sites:
            site.cut(shut=False)
        names = [name for name, _ in until_equal(sites)]
        assert ["of the south"] * 6 + ["both"] * 4 + ["only north", "only south"] == names
        lost = [(f"Dog/{n}", "of the north") for n in range(DOGS // 2)]
        for site in sites:
            wait_until(lambda site=site: conflicts(site) == lost, "each loser is a row")
            metrics = site.ask("GET", "/metrics", headers={"Accept": "text/plain"}).text
            assert "rowcast_conflicts_count 6.0" in metrics
            urls = [node.url for node in site.cluster.running]
            assert rowcast("cluster", "verify", *urls).returncode == 0
