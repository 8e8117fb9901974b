"""Records of the real program end at their time, whatever the sweep, and over a kill (A5, E17)."""

import json

import pytest

from serving import Server, wait_until

pytestmark = pytest.mark.slow  # a second must pass before something ends

SCHEMA = 'type Lease @table(expiration: "1s") @export { id: ID @primaryKey }'
HOUR = {"history.sweep_seconds": 3600}


def kinds(server, path):
    return [row["_op"] for row in json.loads(server.request("GET", f"{path}?last=9").text)]


@pytest.fixture
def server(tmp_path):
    with Server(tmp_path, SCHEMA, settings=HOUR) as running:
        yield running


def test_the_delete_event_does_not_wait_for_a_sweep(server):
    """A5: sweeps are an hour apart here."""
    server.request("PUT", "/Lease/1", json={}).raise_for_status()
    wait_until(lambda: kinds(server, "/Lease/1") == ["put", "delete"], "the record ends")


def test_what_was_to_end_ends_when_the_server_is_back(server):
    """A5: a kill takes nothing of it, for nothing of it is in memory."""
    server.request("PUT", "/Lease/1", json={}).raise_for_status()
    server.kill()
    server.start()
    wait_until(lambda: kinds(server, "/Lease/1") == ["put", "delete"], "the record ends")
