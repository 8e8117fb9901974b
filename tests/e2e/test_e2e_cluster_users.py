"""Users of a cluster: one list, whichever node it is changed at, and however (K17)."""

import json
from contextlib import suppress

import httpx
import pytest

from clusters import Cluster
from serving import PATIENCE_SECONDS, rowcast, wait_until
from talking import Mqtt

pytestmark = pytest.mark.timeout(5 * PATIENCE_SECONDS)
ROOT = ("root", "secret-root")


def status(node, who):
    """Return what a node itself answers a user at a declared table.

    One that changes its role, for want of a processor too, takes no connection for a moment.
    """
    found = []

    def answered():
        with suppress(httpx.TransportError):
            found.append(node.request("GET", "/Dog/", auth=who).status_code)
        return found

    return wait_until(answered, "the node answers")[0]


def knows(node, who):
    """Whether a node itself knows a user; it knows none, if it lets anybody in."""
    return status(node, ("nobody", "x")) != 200 and status(node, who) == 200


def file_of(node):
    return node.folder / "data" / "users.json"


def test_users_are_the_same_at_all_nodes_and_survive_each_of_them(tmp_path):
    with Cluster(tmp_path) as cluster:
        numbering = cluster.settle()
        one, two = cluster.followers
        assert one.setup_code == two.setup_code == numbering.setup_code
        root = {"password": ROOT[1], "roles": ["admin"], "setup_code": one.setup_code}
        assert one.request("PUT", "/$SYS/users/root", json=root).is_success
        for node in cluster.running:
            wait_until(lambda node=node: knows(node, ROOT), "all nodes know the user")
            assert file_of(node).stat().st_mode & 0o777 == 0o600

        added = rowcast("user", "add", "bob", "--role", "admin", "--file", file_of(two),
                        stdin="secret-bob\n")  # fmt: skip
        assert added.returncode == 0, added.stderr
        bob = ("bob", "secret-bob")
        for node in cluster.running:
            wait_until(lambda node=node: knows(node, bob), "a change of a follower's file is taken")

        numbering.kill()
        cluster.settle()
        who = {"username": "bob", "password": b"secret-bob"}
        with Mqtt(one.mqtt_port, **who) as client:
            assert not client.connack.reason
        assert two.request("DELETE", "/$SYS/users/bob", auth=ROOT).status_code == 204
        for node in cluster.running:
            wait_until(lambda node=node: not knows(node, bob), "it is removed")
        numbering.launch()
        cluster.settle()
        wait_until(lambda: not knows(numbering, bob), "it is removed where it was not heard")
        token = one.request("POST", "/$SYS/login", json={"user": "root", "password": ROOT[1]})
        assert token.is_success, token.text
        held = {"Authorization": f"Bearer {token.json()['token']}"}
        for node in cluster.running:
            assert node.request("GET", "/Dog/", headers=held).status_code == 200

        file_of(two).unlink()
        wait_until(lambda: file_of(two).exists(), "a lost file comes back")
        assert "root" in json.loads(file_of(two).read_text())["users"]
        assert knows(two, ROOT)


def test_a_new_node_takes_the_users_of_the_cluster(tmp_path):
    with Cluster(tmp_path) as cluster:
        one, two = cluster.followers
        two.stop()
        add = ("user", "add", "root", "--role", "admin", "--file")
        assert rowcast(*add, file_of(one), stdin="secret-root\n").returncode == 0
        for node in cluster.running:
            wait_until(lambda node=node: knows(node, ROOT), "they know it")
        (two.folder / "data" / "users.synced").unlink(missing_ok=True)
        assert rowcast(*add, file_of(two), stdin="another\n").returncode == 0
        two.launch()
        cluster.settle()
        wait_until(lambda: knows(two, ROOT), "it has those of the cluster")
        assert not knows(one, ("root", "another"))
        assert (two.folder / "data" / "users.json.replaced").exists()
        assert "replace those in" in two.log
