"""A sequencer whose clock is far ahead removes nothing too early, and tells that it is (K12)."""

import os
from pathlib import Path

import httpx
import pytest

from clusters import LEASE_SECONDS, Cluster, Node
from rowcast.mqtt.packets import Disconnect
from serving import PATIENCE_SECONDS, wait_until
from talking import Mqtt

pytestmark = pytest.mark.timeout(5 * PATIENCE_SECONDS)
AHEAD = 10 * 86_400
KEPT = 5
SETTINGS = {
    "history.keep_seconds": 86_400,
    "history.keep_events": KEPT,
    "history.sweep_seconds": 0.3,
    "cluster.lease_seconds": 12 * LEASE_SECONDS,  # too long: the one below takes over from others
}


def set_ahead(node: Node, folder: Path) -> None:
    """Have a node start with a wrong clock."""
    folder.mkdir()
    shifted = f"import time\n_right = time.time\ntime.time = lambda: _right() + {AHEAD}\n"
    (folder / "sitecustomize.py").write_text(shifted)
    paths = f"{folder}:{os.environ.get('PYTHONPATH', '')}".rstrip(":")
    node.wrapper, node.anew = ("env", f"PYTHONPATH={paths}"), True


def write(node: Node, path: str, n: int) -> None:
    """Write a record, again where the lease changed hands meanwhile (503, or no connection)."""

    def written() -> bool:
        try:
            return node.request("PUT", path, json={"n": n}).is_success
        except httpx.TransportError:
            return False

    wait_until(written, f"{path} is {n}")


def leave_for_an_hour(node: Node) -> None:
    """Have a record, and a session that is away, which are over after an hour."""
    hour = {"session_expiry_interval": 3600}
    with Mqtt(node.mqtt_port, client_id="sleeper", properties=hour) as client:
        client.subscribe("away/#")
        expires = {"message_expiry_interval": 3600}
        assert not client.publish("Note/hour", b"{}", properties=expires).reason
        client.send(Disconnect(0))


def history(node: Node, path: str) -> list[int]:
    """Return the numbers of the versions of a record; asks again if a sweep came between (410)."""

    def answered() -> httpx.Response | None:
        answer = node.request("GET", f"{path}?last=100")
        return None if answer.status_code == 410 else answer

    answer = wait_until(answered, f"the history of {path}")
    assert answer.is_success, answer.text
    return [event["value"]["n"] for event in answer.json()]


def test_a_sequencer_whose_clock_is_far_ahead_keeps_the_history(tmp_path):
    cluster = Cluster(tmp_path, **SETTINGS)
    a = cluster.nodes["a"]
    a.settings["cluster.lease_seconds"] = LEASE_SECONDS
    with cluster:
        cluster.settle()
        for n in (1, 2):
            write(a, "/Dog/1", n)
        leave_for_an_hour(a)
        a.stop()
        set_ahead(a, tmp_path / "ahead")
        a.launch()
        wait_until(lambda: a.numbers, "it has taken over")
        cluster.settle()
        wait_until(lambda: warned(a), "a, which is the sequencer, warns of its clock")
        wait_until(lambda: a.nodes["a"]["clock_ahead"], "the others have told their time")
        assert a.nodes["a"]["clock_ahead"] == pytest.approx(AHEAD, abs=30)
        for n in range(2 * KEPT):
            write(a, "/Counter/1", n)
        wait_until(lambda: len(history(a, "/Counter/1")) <= KEPT, "the history is swept")
        assert [*dict.fromkeys(history(a, "/Dog/1"))] == [1, 2]
        assert a.request("GET", "/$SYS/sessions/sleeper").is_success
        for node in cluster.followers:  # a itself hides by its own clock what is over
            assert node.request("GET", "/Note/hour").is_success
        assert "clock" not in cluster.followers[0].request("GET", "/health").json()["warnings"]


def warned(node: Node) -> str:
    """Return what a node says of its clock."""
    return str(node.request("GET", "/health").json()["warnings"].get("clock", ""))
