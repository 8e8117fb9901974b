"""The schema of a cluster is changed at one node after the other, while it is written to (K12)."""

import httpx
import pytest
from test_e2e_cluster import put, until_put

from clusters import SCHEMA, Cluster
from serving import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.timeout(8 * PATIENCE_SECONDS)

MOVED = SCHEMA.replace(
    "type Dog @table @export {", 'type Dog @table @export(name: "animals/dogs") {'
)


def test_writes_during_a_change_of_the_schema_are_at_all_nodes(tmp_path):
    """Nodes that have restarted lack them, and take them as they were written."""
    with Cluster(tmp_path) as cluster:
        sequencer, written = cluster.settle(), []

        def write(name):
            written.append(name)
            until_put(sequencer, name, n=len(written))

        write("first")
        for node in [node for node in cluster.running if node is not sequencer]:
            assert node.stop() == 0, node.log
            node.schema_file.write_text(MOVED)
            node.launch()
            said = "its schema is another one; give all nodes the same"
            wait_until(lambda node=node, said=said: said in told(node), "it waits")
            write(f"after-{node.name}")
        assert put(sequencer, "last", n=9).is_success
        assert sequencer.stop() == 0, sequencer.log
        sequencer.schema_file.write_text(MOVED)
        sequencer.launch()
        cluster.settle()
        for node in cluster.running:
            rows = node.request("GET", "/animals/dogs/").json()
            assert sorted(row["id"] for row in rows) == sorted([*written, "last"]), node.name


def test_a_node_that_was_away_during_two_changes_has_what_the_others_have(tmp_path):
    """Its schema is the same as before; what it lacks was partly written under another one."""
    with Cluster(tmp_path) as cluster:
        cluster.settle()
        away = cluster.followers[0]
        until_put(away, "before", n=0)
        assert away.stop() == 0, away.log
        for number, (schema, path) in enumerate(((MOVED, "animals/dogs"), (SCHEMA, "Dog"))):
            others = cluster.running
            for node in others:
                assert node.stop() == 0, node.log
            for node in others:
                node.schema_file.write_text(schema)
                node.launch()
            node = cluster.settle()
            answer = node.request("PUT", f"/{path}/d{number}", json={"n": number})
            assert answer.is_success, answer.text
        away.launch()
        cluster.settle()
        for node in cluster.running:
            rows = node.request("GET", "/Dog/").json()
            assert [row["id"] for row in rows] == ["before", "d0", "d1"], node.name


def told(node):
    """Return what a node says of itself while it does not follow."""
    try:
        return node.request("GET", "/health/ready").text
    except httpx.HTTPError:
        return ""
