"""Users of the whole program, from the first one on (L1, L2, D44)."""

import pytest

from memory_users import ScramClient
from rowcast.mqtt.packets import Auth, Connack, Disconnect
from rowcast.mqtt.reasons import Reason
from serving import Server, rowcast, wait_until
from talking import Mqtt

METHOD = "SCRAM-SHA-256"


def add(folder, name, password, *options):
    done = rowcast("user", "add", name, *options, folder=folder, stdin=f"{password}\n")
    assert 0 == done.returncode, done.stderr


def sign_in(client, scram, reason):
    """Go through an exchange after its first message was sent; return the last answer."""
    asked = client.receive()
    assert (Auth, Reason.CONTINUE_AUTHENTICATION) == (type(asked), asked.reason)
    data = scram.final(asked.properties["authentication_data"])
    properties = {"authentication_method": METHOD, "authentication_data": data}
    client.send(Auth(Reason.CONTINUE_AUTHENTICATION, properties))
    answer = client.receive()
    assert reason is answer.reason
    return answer


def begin(scram):
    return {"authentication_method": METHOD, "authentication_data": scram.first}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("users")
    add(folder, "ann", "pencil")
    add(folder, "bob", "eraser", "--no-write")
    with Server(folder) as server:
        yield server


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_user_signs_in(server, version):
    who = {"username": "ann", "password": b"pencil"}
    with Mqtt(server.mqtt_port, version, "ann-1", **who) as ann:
        assert Reason.SUCCESS is ann.connack.reason
        assert Reason.SUCCESS is ann.publish("Dog/1", b'{"name":"Rex"}').reason
    basic = server.request("GET", "/Dog/1", auth=("bob", "eraser"))
    assert (200, "Rex") == (basic.status_code, basic.json()["name"])


@pytest.mark.parametrize("who", [{}, {"username": "ann", "password": b"x"}])
def test_nobody_else_does(server, who):
    with Mqtt(server.mqtt_port, 5, "c", **who) as client:
        assert client.connack.reason >= Reason.UNSPECIFIED_ERROR
    assert 401 == server.request("GET", "/Dog/1", auth=("ann", "x")).status_code


def test_a_client_signs_in_by_scram_and_again(server):
    scram = ScramClient("ann", "pencil")
    with Mqtt(server.mqtt_port, 5, "scram", begin(scram)) as client:
        connack = sign_in(client, scram, Reason.SUCCESS)
        assert Connack is type(connack)
        assert scram.trusts(connack.properties["authentication_data"])
        scram = ScramClient("ann", "pencil", nonce="another")
        client.send(Auth(Reason.RE_AUTHENTICATE, begin(scram)))
        done = sign_in(client, scram, Reason.SUCCESS)
        assert Auth is type(done)
        assert scram.trusts(done.properties["authentication_data"])
        assert Reason.SUCCESS is client.publish("Dog/2", b'{"name":"Bella"}').reason
        wrong = ScramClient("ann", "crayon")
        client.send(Auth(Reason.RE_AUTHENTICATE, begin(wrong)))
        assert Disconnect is type(sign_in(client, wrong, Reason.NOT_AUTHORIZED))


def test_the_first_user_shuts_the_door_of_a_running_server(tmp_path):
    """L1: a fresh install serves its own machine; with users, MQTT clients must sign in."""
    with Server(tmp_path) as server:
        with Mqtt(server.mqtt_port, 5, "before") as client:
            assert Reason.SUCCESS is client.connack.reason
            add(tmp_path, "ann", "pencil")
            ended = client.receive()  # L8: and whoever was let in has to sign in
            assert (Disconnect, Reason.NOT_AUTHORIZED) == (type(ended), ended.reason)
            assert "sign in" in ended.properties["reason_string"]

        def refused():
            with Mqtt(server.mqtt_port, 4, "after") as client:
                return client.connack.reason is Reason.NOT_AUTHORIZED

        wait_until(refused, "the server notices the first user")
        with Mqtt(server.mqtt_port, 4, "a", username="ann", password=b"pencil") as client:
            assert Reason.SUCCESS is client.connack.reason


def test_a_broken_file_of_users_prevents_a_start(tmp_path):
    server = Server(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "users.json").write_text("{")
    done = rowcast(*server.command[1:], folder=tmp_path)
    assert (1, True) == (done.returncode, "users.json: is not JSON" in done.stderr)
