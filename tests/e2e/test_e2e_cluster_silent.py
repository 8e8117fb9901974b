"""A node whose log does not answer while it starts waits for it, and says so (K12)."""

import psycopg
import pytest
from test_e2e_cluster_refused import until_told

from clusters import Cluster
from postgres_server import running_postgres
from serving import PATIENCE_SECONDS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(5 * PATIENCE_SECONDS)]


def test_a_node_that_starts_while_the_table_of_the_log_is_locked_waits_for_it(tmp_path):
    """It ended: as if its settings were wrong, and nobody started it again."""
    with (
        running_postgres() as database,
        Cluster(tmp_path, 1, **{"cluster.engine": database.url}) as cluster,
    ):
        node = cluster.settle()
        node.kill()
        with psycopg.connect(database.url) as other:
            other.execute("LOCK TABLE rowcast_test.log IN ACCESS EXCLUSIVE MODE")
            node.launch()
            until_told(node, "this node waits for its log: PostgreSQL, which keeps the log")
        cluster.settle()
