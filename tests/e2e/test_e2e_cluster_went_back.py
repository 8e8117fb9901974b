"""A log that went back while nodes run: a database that was restored, or a standby that lacks its
end (K12). Nothing is acknowledged that the tables of a node would not take, and nobody who has
another past follows.
"""

import shutil
from contextlib import ExitStack

import httpx
import pytest
from test_e2e_cluster import put, until_same

from clusters import Cluster
from postgres_server import running_postgres
from serving import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(5 * PATIENCE_SECONDS)]
NEWEST = "SELECT max(number) FROM rowcast_test.log"


def told(node):
    """Return what a node says of its readiness; empty while it does not answer."""
    try:
        answer = node.request("GET", "/health/ready")
    except httpx.HTTPError:
        return ""
    return answer.text


def written(node, path):
    """Return the answer to a write that was acknowledged."""
    try:
        answer = node.request("PUT", path, json={"n": 1})
    except httpx.HTTPError:
        return None
    return answer if answer.is_success else None


def test_nobody_writes_on_or_follows_with_what_the_log_has_lost(tmp_path):
    with ExitStack() as stack:
        database = stack.enter_context(running_postgres())
        settings = {"cluster.engine": database.url}
        cluster = stack.enter_context(Cluster(tmp_path, 2, **settings))
        ahead = cluster.settle()
        (other,) = cluster.followers
        until_same(cluster)
        other.kill()
        kept = database.ask(NEWEST)
        for n in range(9):
            put(ahead, f"lost-{n}", n=n)
        lost = database.ask(NEWEST)
        database.ask(f"DELETE FROM rowcast_test.log WHERE number > {kept}")
        assert ahead.request("PUT", "/Dog/x", json={"n": 1}).status_code == 503
        words = "are no longer those of the log: they have batches up to"
        wait_until(lambda: words in ahead.log, "it does not number")
        assert database.ask(NEWEST) == kept

        other.launch()
        wait_until(lambda: other.numbers, "the node that has no more than the log numbers")
        count = iter(range(1000))
        while database.ask(NEWEST) <= lost:
            wait_until(lambda: written(other, f"/Dog/new-{next(count)}"), "it is written")
        words = f"the log has another batch {lost} than they"
        wait_until(lambda: words in told(ahead), "it does not follow")
        ahead.kill()
        ahead.launch()
        wait_until(lambda: words in told(ahead), "nor after a restart")
        ahead.kill()
        shutil.rmtree(ahead.folder / "data")
        ahead.launch()
        cluster.settle()
        until_same(cluster)
        assert ahead.request("GET", "/Dog/lost-8").status_code == 404
        assert ahead.request("GET", "/Dog/new-0").status_code == 200
