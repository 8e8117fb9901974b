"""A cluster on NATS servers that somebody else runs (`cluster.nats`, K12)."""

import pytest
from test_e2e_cluster import put, until_put, until_same

from clusters import Cluster
from foreign_nats import ForeignNats
from serving import PATIENCE_SECONDS, rowcast

pytestmark = pytest.mark.timeout(5 * PATIENCE_SECONDS)


def settings(servers):
    return {
        "cluster.nats": ",".join(servers.addresses),
        "cluster.nats_monitors": ",".join(servers.monitors),
    }


def test_nodes_start_no_server_and_survive_the_death_of_one_of_them(tmp_path):
    """Two nodes are enough where neither has a vote for the log."""
    with (
        ForeignNats(tmp_path / "nats", 3, ["always"] * 3) as servers,
        Cluster(tmp_path, 2, **settings(servers)) as cluster,
    ):
        sequencer = cluster.settle()
        etags = {f"n{n}": put(node, f"n{n}", n=n).headers["etag"]
                 for n, node in enumerate(cluster.running * 3)}  # fmt: skip
        servers.processes[0].kill()
        etags["one less"] = until_put(sequencer, "one less", n=1).headers["etag"]
        sequencer.kill()
        etags["after"] = until_put(cluster.running[0], "after", n=1).headers["etag"]
        sequencer.launch()  # a majority of the servers is enough to start, too
        cluster.settle()
        until_same(cluster)
        for node in cluster.running:
            for name, etag in etags.items():
                assert node.request("GET", f"/Dog/{name}").headers["etag"] == etag
            assert not (node.folder / "data" / "nats").exists()
            assert "of%3Athe" not in node.log


@pytest.mark.parametrize(
    ("sync", "name"),
    [
        ([], "foreign-0"),
        (["always", "always"], "foreign-2"),
        (["always", "2m", "always"], "foreign-1"),
    ],
    ids=["one alone", "one of three by default", "one of three by its setting"],
)
def test_servers_that_do_not_sync_are_refused(tmp_path, sync, name):
    """K12: the error says which server, what is wrong, and how to mend it."""
    with ForeignNats(tmp_path / "nats", 3 if sync else 1, sync) as servers:
        (tmp_path / "schema.graphql").write_text("type Dog @table { id: ID @primaryKey }")
        options = ["--cluster=c", "--node=a", "--peer=a=127.0.0.1:6222", f"--data={tmp_path}/data"]
        more = settings(servers) | {
            "cluster.secret": "0123456789abcdef",
            "cluster.log_bytes": 1 << 20,
        }
        given = [f"--set={key}={value}" for key, value in more.items()]
        ended = rowcast("serve", *options, *given, folder=tmp_path)
    assert ended.returncode == 1
    assert f"{name} acknowledges messages before they are on its disk" in ended.stderr
    assert "a power failure would lose them" in ended.stderr
    assert "sync_interval: always" in ended.stderr
    assert "Traceback" not in ended.stderr
