"""A node that does not follow, or waits before it may, says why by HTTP at once (K12)."""

import time

import httpx
import pytest

from clusters import SCHEMA, Cluster, Node
from serving import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.timeout(5 * PATIENCE_SECONDS)


def answers(node: Node) -> bool:
    """Whether the node's port is open."""
    try:
        return bool(told(node))
    except httpx.TransportError:
        return False


def told(node: Node) -> str:
    """Return why a node is not ready, as it tells by HTTP."""
    answer = node.request("GET", "/health/ready")
    assert answer.status_code == 503, answer.text
    assert node.request("GET", "/health").status_code == 200
    return " ".join(answer.json()["checks"].values())


def until_told(node: Node, words: str) -> None:
    """Wait until a node gives this reason; once its port is open, it refuses nobody."""
    wait_until(lambda: answers(node), f"{node.name} answers")
    over = time.monotonic() + PATIENCE_SECONDS
    while words not in (why := told(node)):  # without a pause, to find a moment without a port
        assert time.monotonic() < over, why


def test_who_is_refused_or_waits_says_why(tmp_path):
    with Cluster(tmp_path) as cluster:
        odd = cluster.followers[0]
        odd.stop()
        odd.schema_file.write_text(SCHEMA.replace("text: String", "text: Int"))
        odd.launch()
        until_told(odd, "its schema is another one; give all nodes the same schema.graphql")
        assert "there is no sequencer yet" not in odd.log  # which is told after ten seconds
        odd.kill()
        settings = {
            name: odd.settings[name]
            for name in ("cluster.secret", "http.port", "mqtt.network.port")
        }
        peers = str(odd.settings["cluster.peers"]).split(",")
        stranger = Node(tmp_path / "new", odd.name, peers, **settings, **{"cluster.name": "other"})
        try:
            stranger.launch()
            until_told(stranger, "compare the names, addresses and secret of all nodes")
        finally:
            stranger.kill()
