"""mosquitto_pub and mosquitto_sub against the whole program, versions 3.1, 3.1.1 and 5."""

import contextlib
import json
import re

import pytest
from clients import needs, run, running

from securing import Authority, ServerFiles
from serving import Server

pytestmark = [pytest.mark.interop, needs("mosquitto_pub"), needs("mosquitto_sub")]

VERSIONS = ("mqttv31", "mqttv311", "mqttv5")


def to(server, version):
    """Return the options that name the server and the version."""
    return ("-h", "127.0.0.1", "-p", server.mqtt_port, "-V", version)


def publish(server, version, topic, *options):
    """Publish one message and wait for its acknowledgement, if it has one."""
    run("mosquitto_pub", *to(server, version), "-t", topic, *options)


def listen(server, version, topic, *options):
    """Run mosquitto_sub, which says that it is subscribed before all else."""
    output = ("-d", "-F", "= %t %r %q %p")
    return running("mosquitto_sub", *to(server, version), "-t", topic, *output, *options)


def subscribed(program):
    """Wait until the subscription is confirmed."""
    while not program.line().startswith(b"Subscribed "):
        pass


def message(program):
    """Return the next message: topic, retain, QoS, payload."""
    while not (line := program.line()).startswith(b"= "):
        if line == b"(the program has ended)":
            raise AssertionError(line)
    topic, retain, qos, payload = line[2:].split(b" ", 3)
    return topic.decode(), int(retain), int(qos), payload.decode()


@pytest.mark.parametrize("version", VERSIONS)
def test_mosquitto_pub_writes_a_record(server, version):
    """D48."""
    publish(server, version, "Dog/1", "-q", 1, "-r", "-m", '{"name": "Rex"}')
    assert {"id": "1", "name": "Rex"} == server.request("GET", "/Dog/1").json()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1])
def test_mosquitto_sub_gets_the_record_and_what_follows(server, version, qos):
    server.request("PUT", "/Dog/1", json={"name": "Rex"})
    with listen(server, version, "Dog/#", "-q", qos) as program:
        first = message(program)
        publish(server, version, "Dog/1", "-q", 1, "-m", '{"name": "Woof"}')
        then = message(program)
    assert ("Dog/1", 1, qos, "Rex") == (*first[:3], json.loads(first[3])["name"])
    assert ("Dog/1", 0, qos, "Woof") == (*then[:3], json.loads(then[3])["name"])


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_retained_message_deletes(server, version):
    """D50."""
    server.request("PUT", "/Dog/1", json={"name": "Rex"})
    publish(server, version, "Dog/1", "-q", 1, "-r", "-n")
    assert 404 == server.request("GET", "/Dog/1").status_code


@pytest.mark.parametrize("version", VERSIONS)
def test_lines_of_a_pipe_come_in_order(server, version):
    lines = [str(number) for number in range(2_000)]
    with listen(server, version, "pipe", "-q", 1) as program:
        subscribed(program)
        command = ("mosquitto_pub", *to(server, version), "-t", "pipe", "-q", 1, "-l")
        run(*command, given="\n".join(lines).encode())
        assert lines == [message(program)[3] for _ in lines]


def test_a_wildcard_over_undeclared_topics(server):
    for room in ("kitchen", "cellar"):
        publish(server, "mqttv311", f"home/{room}/temp", "-r", "-m", room)
    publish(server, "mqttv311", "home/kitchen/door", "-r", "-m", "open")
    with listen(server, "mqttv311", "home/+/temp") as program:
        found = {message(program)[0] for _ in range(2)}
    assert {"home/kitchen/temp", "home/cellar/temp"} == found


def test_properties_of_mqtt_5_arrive(server):
    """D42."""
    form = ("-F", "= %t %r %q %C|%A|%R|%D|%P")
    given = ("content-type", "text/x"), ("response-topic", "a/b"), ("correlation-data", "cd")
    options = [x for name, value in given for x in ("-D", "publish", name, value)]
    options += ["-D", "publish", "user-property", "k", "v"]
    with listen(server, "mqttv5", "open/1", *form) as program:
        subscribed(program)
        publish(server, "mqttv5", "open/1", "-q", 1, "-m", "x", *options)
        assert "text/x||a/b|cd|k:v" == message(program)[3]


def test_an_expired_message_is_not_kept(server):
    """D42: message expiry, counted down."""
    expiry = ("-D", "publish", "message-expiry-interval", 3600)
    publish(server, "mqttv5", "open/1", "-q", 1, "-r", "-m", "x", *expiry)
    with listen(server, "mqttv5", "open/1", "-F", "= %t %r %q %E") as program:
        left = int(message(program)[3])
    assert 0 < left <= 3600


def test_the_will_of_a_lost_client(server):
    options = ("--will-topic", "will", "--will-payload", "gone", "--will-qos", 1)
    with listen(server, "mqttv311", "will", "-q", 1) as heir:
        subscribed(heir)
        with listen(server, "mqttv311", "any", *options) as lost:
            subscribed(lost)
            lost.process.kill()
            assert "gone" == message(heir)[3]


@pytest.mark.parametrize("share", ["$share/g/a/#", "$queue/a/#"])
@pytest.mark.parametrize("version", VERSIONS)
def test_workers_share_and_killed_ones_are_missed_by_nobody(server, version, share):
    """D36, D55: each line once, evenly; then all of them to the one that is left."""
    command = ("mosquitto_pub", *to(server, version), "-t", "a/b", "-q", 1, "-l")
    lines = [str(number) for number in range(30)]
    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(listen(server, version, share, "-q", 1)) for _ in range(3)
        ]  # fmt: skip
        for program in workers:
            subscribed(program)
        run(*command, given="\n".join(lines).encode())
        found = [[message(program)[3] for _ in range(10)] for program in workers]
        assert [lines[0::3], lines[1::3], lines[2::3]] == sorted(
            found, key=lambda part: int(part[0])
        )
        for program in workers[1:]:
            program.process.kill()
            program.process.wait()
        run(*command, given="\n".join(lines).encode())
        left = [message(workers[0])[3] for _ in lines]
        assert sorted(lines) == sorted(left)


def test_a_refused_filter_is_told(server):
    with running("mosquitto_sub", *to(server, "mqttv5"), "-t", "$share/+/x") as program:
        assert b"All subscription requests were denied." == program.line()
        assert b"(the program has ended)" == program.line()


# -- over TLS --------------------------------------------------------------------------------------


@pytest.fixture
def secured(tmp_path):
    """A server of its own with a certificate, and one for its client."""
    authority = Authority(tmp_path)
    files = ServerFiles(tmp_path, authority.issue("localhost"))
    shown = authority.issue("x", common_name="ann")
    shown.private_key_and_cert_chain_pem.write_to_path(tmp_path / "ann.pem")
    settings = {
        "tls.certificate": files.certificate,
        "tls.privateKey": files.key,
        "tls.certificateAuthority": authority.file,
        "mqtt.network.securePort": 0,
        "http.securePort": 0,
        "mqtt.mTLS.required": "true",
    }
    with Server(tmp_path, settings=settings) as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_mosquitto_pub_over_tls_with_a_certificate(secured, version):
    """D2, L3."""
    port = re.search(r"MQTT over TLS +127\.0\.0\.1:(\d+)", secured.log)[1]
    shown = secured.folder / "ann.pem"
    command = ["mosquitto_pub", "-h", "localhost", "-p", port, "-V", version]
    command += ["--cafile", secured.folder / "authority.pem", "--cert", shown, "--key", shown]
    run(*command, "-t", "Dog/1", "-q", 1, "-r", "-m", '{"name": "Rex"}')
    assert "Rex" == secured.request("GET", "/Dog/1").json()["name"]
