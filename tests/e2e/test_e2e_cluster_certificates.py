"""A client's certificate at a follower says who it is at the sequencer (K4, D3)."""

import re
import socket
from functools import partial

import pytest

import talking
from clusters import Cluster
from rowcast.mqtt.reasons import Reason
from securing import Authority, ServerFiles
from serving import PATIENCE_SECONDS, wait_until
from talking import Mqtt

pytestmark = pytest.mark.timeout(5 * PATIENCE_SECONDS)
ROOT = ("root", "secret-root")


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def connect(authority, monkeypatch):
    """Return what connects over TLS to a port, and shows a certificate of this name, if any."""

    def connect(port, name, client_id):
        shown = authority.issue("x", common_name=name) if name else None

        def opened(port):
            plain = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
            return authority.client(shown).wrap_socket(plain, server_hostname="localhost")

        with monkeypatch.context() as patched:
            patched.setattr(talking, "open_socket", opened)
            return Mqtt(port, client_id=client_id)

    return connect


def secure_port(node):
    """Return where a node speaks MQTT over TLS in its present role."""
    return int(re.findall(r"MQTT over TLS +127\.0\.0\.1:(\d+)", node.log)[-1])


def knows(node, user):
    """Whether a node itself knows a user: any may answer for ``$SYS``."""
    file = node.folder / "data" / "users.json"
    return file.exists() and f'"{user}"' in file.read_text()


def row(node, client_id):
    found = node.request("GET", f"/$SYS/sessions/{client_id}", auth=ROOT).json()
    return found["user"], found["transport"]


def test_d3_a_certificate_at_any_node_names_the_user(tmp_path, authority, connect):
    files = ServerFiles(tmp_path, authority.issue("localhost", "127.0.0.1"))
    settings = {
        "tls.certificate": files.certificate,
        "tls.privateKey": files.key,
        "tls.certificateAuthority": authority.file,
        "http.securePort": 0,
        "mqtt.network.securePort": 0,
        "mqtt.mTLS": "true",
    }
    with Cluster(tmp_path, **settings) as cluster:
        numbering = cluster.settle()
        one, two = cluster.followers
        root = {"password": ROOT[1], "roles": ["admin"], "setup_code": one.setup_code}
        assert one.request("PUT", "/$SYS/users/root", json=root).is_success
        ann = {"password": "a long password", "roles": ["admin"]}
        assert two.request("PUT", "/$SYS/users/ann", json=ann, auth=ROOT).is_success
        for node in (one, two, numbering):
            # Not by signing in again and again: a node that does not know her yet slows that down.
            wait_until(partial(knows, node, "ann"), "the node knows ann")
            with connect(secure_port(node), "ann", f"at-{node.name}") as client:
                assert not client.connack.reason
                wait_until(
                    lambda node=node: row(one, f"at-{node.name}") == ("ann", "tls"),
                    "the session is ann's",
                )
                client.subscribe(f"Dog/{node.name}")
                client.publish(f"Dog/{node.name}", b'{"name": "Rex"}', retain=True)
                assert client.message().topic == f"Dog/{node.name}"
            for nobody in ("stranger", ""):
                with connect(secure_port(node), nobody, "x") as client:
                    assert client.connack.reason in {Reason.NOT_AUTHORIZED, 0x86}
