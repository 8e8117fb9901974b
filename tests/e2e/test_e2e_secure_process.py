"""TLS on the real process: its loop, its signals, and clients that are programs (D2, D3).

Where uvloop is installed the process runs on it; `test_e2e_secure.py` runs on asyncio's own loop.
"""

import re
import signal
import socket

import paho.mqtt.client as paho
import pytest

from securing import Authority, ServerFiles
from serving import PATIENCE_SECONDS, Server, rowcast, wait_until


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def files(tmp_path, authority):
    return ServerFiles(tmp_path, authority.issue("localhost", "127.0.0.1", common_name="first"))


@pytest.fixture
def server(tmp_path, authority, files):
    settings = {
        "tls.certificate": files.certificate,
        "tls.privateKey": files.key,
        "tls.certificateAuthority": authority.file,
        "http.securePort": 0,
        "mqtt.network.securePort": 0,
        "mqtt.mTLS": "true",
    }
    with Server(tmp_path, settings=settings) as running:
        yield running


def secure_ports(server):
    """Return where it says that it speaks HTTPS, and MQTT over TLS."""
    https = re.search(r"over TLS +https:..127\.0\.0\.1:(\d+)/", server.log)
    mqtts = re.search(r"MQTT over TLS +127\.0\.0\.1:(\d+)", server.log)
    return int(https[1]), int(mqtts[1])


def presented(authority, port):
    """Return the common name of the certificate that a port shows."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
    with authority.client().wrap_socket(plain, server_hostname="localhost") as secure:
        subject = secure.getpeercert()["subject"]
    return dict(pair for part in subject for pair in part)["commonName"]


@pytest.mark.slow
def test_a_hangup_renews_the_certificate(server, authority, files):
    ports = secure_ports(server)
    assert ["first"] * 2 == [presented(authority, port) for port in ports]
    files.write(authority.issue("localhost", common_name="second"))
    server.running.send_signal(signal.SIGHUP)
    wait_until(lambda: "certificates renewed: localhost, second" in server.log, "the renewal")
    assert ["second"] * 2 == [presented(authority, port) for port in ports]
    assert 0 == server.stop()


@pytest.mark.slow
def test_the_process_says_what_it_shows(server):
    assert re.search(r"certificate +localhost, 127\.0\.0\.1, first, until \d{4}-", server.log)


def talk(authority, port, transport="tcp"):
    """Send a message to a subscription of one's own with paho; return what came."""
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, transport=transport)
    client.tls_set_context(authority.client(authority.issue("x", common_name="ann")))
    came = []

    def on_message(client, _, message):
        came.append(message.payload)
        client.disconnect()

    client.on_connect = lambda client, *_: client.subscribe("a", 1)
    client.on_subscribe = lambda client, *_: client.publish("a", b"x" * 100_000, 1)
    client.on_message = on_message
    client.connect("localhost", port)
    client.loop_forever()
    return came


@pytest.mark.slow
def test_paho_with_a_certificate_of_its_own(server, authority):
    """D2, D3, L3."""
    https, mqtts = secure_ports(server)
    assert [b"x" * 100_000] == talk(authority, mqtts)
    assert [b"x" * 100_000] == talk(authority, https, "websockets")


@pytest.mark.slow
def test_the_command_line_trusts_the_authority_of_its_settings(server, tmp_path, authority):
    (tmp_path / "rowcast.yaml").write_text(
        f"tls: {{certificate: server.pem, certificateAuthority: {authority.file}}}"
    )
    url = f"https://localhost:{secure_ports(server)[0]}"
    put = rowcast("put", "Dog/1", '{"name": "Rex"}', "--url", url, folder=tmp_path)
    assert (0, "") == (put.returncode, put.stderr)
    assert "Rex" in rowcast("get", "Dog/1", "--url", url, folder=tmp_path).stdout
    (tmp_path / "rowcast.yaml").unlink()
    refused = rowcast("get", "Dog/1", "--url", url, folder=tmp_path)
    assert (1, True) == (refused.returncode, "certificate verify failed" in refused.stderr)


@pytest.mark.slow
def test_handshakes_cut_anywhere_leave_no_socket(server, authority):
    """D5, C26: on the loop of the process."""
    presented(authority, secure_ports(server)[1])
    before = server.sockets
    for number in range(100):
        port = secure_ports(server)[number % 2]
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as plain:
            if number % 4 < 2:
                plain.sendall(bytes((0x16, 3, 1, 2, 0, 1, 0))[: number % 8])
                continue
            secure = authority.client().wrap_socket(plain, server_hostname="localhost")
            secure.sendall(b"\x10" if number % 8 < 4 else b"GET /Dog/ HTTP/1.1\r\n")
            secure.close()
    wait_until(lambda: server.sockets <= before, "all of them are closed")
    assert 0 == server.stop()
    assert "Traceback" not in server.log
