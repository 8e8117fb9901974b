"""A node that was away for longer than the log goes back (K12, K13): it gets a copy by itself."""

from contextlib import ExitStack

import httpx
import pytest
from test_e2e_cluster import put, until_same

from clusters import Cluster
from postgres_server import running_postgres
from rowcast.mqtt.packets import MQTT_5
from serving import PATIENCE_SECONDS, rowcast, wait_until
from talking import Events, Mqtt

pytestmark = pytest.mark.timeout(5 * PATIENCE_SECONDS)
LOG_BYTES = 1 << 20
RECORD_BYTES = 50_000
RECORDS = 4 * LOG_BYTES // RECORD_BYTES


def until_written(cluster: Cluster, path: str, **fields: object) -> None:
    """Write at a node that runs until it is acknowledged; only the first one creates."""

    def written():
        try:
            return cluster.running[-1].request("PUT", path, json=fields).is_success
        except httpx.HTTPError:
            return False

    wait_until(written, f"{path} is written")


@pytest.mark.parametrize("engine", ["nats", "postgres"])
def test_a_node_that_was_away_for_too_long_gets_a_copy(tmp_path, engine):
    """What it had is in the log of all: cursors and sessions go on there as anywhere."""
    with ExitStack() as stack:
        settings = {"cluster.log_bytes": LOG_BYTES}
        database = None
        if engine == "postgres":
            database = stack.enter_context(running_postgres())
            settings["cluster.engine"] = database.url
        cluster = stack.enter_context(Cluster(tmp_path, **settings))
        sequencer, away = cluster.settle(), cluster.followers[0]
        with Mqtt(away.mqtt_port, MQTT_5, "sleeper", {"session_expiry_interval": 3600}) as client:
            client.subscribe("Note/#", qos=1)
        cursor = put(away, "before", n=1).headers["etag"]
        assert away.kill() is not None
        for n in range(RECORDS):  # whichever node numbers: the other one may have led the log
            until_written(cluster, f"/Dog/many-{n}", name="x" * RECORD_BYTES)
        until_written(cluster, "/Note/1", text="meanwhile")
        if database is not None:  # it trims at its start, or by and by
            sequencer.stop()
            sequencer.launch()
            cluster.settle()
            first = "SELECT min(number) FROM rowcast_test.log"
            wait_until(lambda: database.ask(first) > RECORDS // 2, "the log is trimmed")
        away.launch()
        cluster.settle()
        assert "was away for long: it has batches up to" in away.log
        until_same(cluster)
        assert away.request("GET", "/Dog/before").headers["etag"] == cursor
        with Events(away, "/Dog/", cursor.strip('"')) as stream:
            told = dict.fromkeys([stream.next().fields["topic"]])
            while len(told) < RECORDS:  # one that was not known to be written came twice
                told[stream.next().fields["topic"]] = None
        assert list(told) == [f"Dog/many-{n}" for n in range(RECORDS)]
        with Mqtt(away.mqtt_port, MQTT_5, "sleeper", clean_start=False) as client:
            assert client.connack.session_present
            assert client.message().topic == "Note/1"
        assert put(away, "own", n=2).status_code == 201
        until_same(cluster)
        urls = [node.url for node in cluster.running]
        wait_until(lambda: rowcast("cluster", "verify", *urls).returncode == 0, "they are equal")
