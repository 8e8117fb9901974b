"""Full disks in a cluster: one node after the other, and all go on when there is room (K12)."""

import httpx
import pytest
from test_e2e_cluster import put, until_same
from test_e2e_full_disk import SmallFileSystem, may_mount

from clusters import Cluster
from serving import PATIENCE_SECONDS, wait_until

SIZE = "120m"
"""Room for the files that an engine lays out at its start."""
TMPFS = f'mount -t tmpfs -o size={SIZE} tmpfs data && exec "$@"'


@pytest.mark.slow
@pytest.mark.timeout(10 * PATIENCE_SECONDS)
def test_each_node_whose_disk_was_full_votes_again(tmp_path):
    """Its NATS server switches JetStream off for good; two such would be the end of a majority."""
    if not may_mount():
        pytest.skip("this user may not mount a file system")
    cluster = Cluster(tmp_path)
    for node in cluster.nodes.values():
        (node.folder / "data").mkdir()
        node.wrapper, node.anew = ("unshare", "-m", "sh", "-c", TMPFS, "sh"), True
    acknowledged = {}

    def write(node, name):
        """Write once; return whether it was acknowledged."""
        try:
            answer = put(node, name, n=1)
        except httpx.HTTPError:
            return False
        if answer.is_success:
            acknowledged[name] = answer.headers["etag"]
        return answer.is_success

    with cluster:
        sequencer = cluster.settle()
        chosen = [cluster.followers[0], sequencer]
        for node in chosen:
            disk = SmallFileSystem(node)
            disk.fill()
            others = [one for one in cluster.running if one is not node]
            names = (f"{node.name}-{n}" for n in range(10**6))
            wait_until(lambda: "switched its streams off" in node.log, "it notices")  # noqa: B023
            wait_until(lambda: write(others[0], next(names)), "others write")  # noqa: B023
            disk.free()
            cluster.settle()
            wait_until(lambda: write(node, next(names)), "it writes again")  # noqa: B023
        until_same(cluster)
        for node in cluster.running:
            for name, etag in acknowledged.items():
                assert node.request("GET", f"/Dog/{name}").headers["etag"] == etag
