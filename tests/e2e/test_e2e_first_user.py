"""The first administrator: made by who started the server, and once (P3)."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from rowcast.mqtt.packets import MQTT_3_1_1, MQTT_5
from serving import PATIENCE_SECONDS, Server, rowcast
from talking import Closed, Mqtt, open_websocket

EVE = {"password": "pencil", "roles": ["admin"]}
PAGE = {"origin": "http://localhost:3000"}
COMMANDS = "$CONTROL/dynamic-security/v1"
CREATE = {
    "command": "createClient",
    "username": "eve",
    "password": "pencil",
    "roles": [{"rolename": "admin"}],
}


@pytest.fixture
def server(tmp_path):
    with Server(tmp_path) as server:
        yield server


def users(server):
    return rowcast("user", "list", "--data", server.folder / "data").stdout


def over_websocket(server, value):
    """Return the answer to a PUT of the first user."""
    with open_websocket(server, "/Dog/") as socket:
        put = {"op": "put", "id": 1, "topic": "$SYS/users/eve", "value": value}
        socket.send(json.dumps(put))
        while True:
            answer = json.loads(socket.recv(PATIENCE_SECONDS))
            if 1 in (answer.get("id"), answer.get("ack")):
                return answer


def test_p3_without_the_code_nobody_is_made_over_any_door(server):
    for value in (EVE, EVE | {"setup_code": "guessed"}):
        page = server.request("PUT", "/$SYS/users/eve", json=value, headers=PAGE)
        assert 403 == page.status_code
        answer = server.request("PUT", "/$SYS/users/eve", json=value)
        assert 403 == answer.status_code
        assert "setup code that the server printed" in answer.text
        assert "denied" in json.dumps(over_websocket(server, value))
        for version in (MQTT_3_1_1, MQTT_5):
            with Mqtt(server.mqtt_port, version, "eve") as client, suppress(Closed):
                client.publish("$SYS/users/eve", json.dumps(value).encode())
        code = {"setup_code": value.get("setup_code")}
        batch = {"commands": [CREATE | code]}
        answer = server.request("POST", f"/{COMMANDS}", json=batch)
        assert "setup code" in answer.json()["responses"][0]["error"]
        with Mqtt(server.mqtt_port, client_id="eve") as client:
            client.publish(COMMANDS, json.dumps(batch).encode(), retain=False)
    assert 403 == server.request("PATCH", "/$SYS/users/eve", json=EVE).status_code
    assert not (server.folder / "data" / "users.json").exists()


def test_p3_of_eight_at_once_who_have_the_code_one_is_made(server):
    value = EVE | {"setup_code": server.setup_code}

    def put(number):
        return server.request("PUT", f"/$SYS/users/eve{number}", json=value).status_code

    with ThreadPoolExecutor(8) as threads:
        codes = sorted(threads.map(put, range(8)))
    assert (204, {401, 403}) == (codes[0], {401, 403} | set(codes[1:]))
    assert 1 == users(server).count("role admin")
    kept = (server.folder / "data" / "users.json").read_text()
    assert "setup" not in kept
    server.stop()
    server.start()
    assert "setup code" not in server.log


@pytest.mark.parametrize("door", ["mqtt", "ws", "control"])
def test_with_the_code_it_is_made_over_any_door(server, door):
    value = EVE | {"setup_code": server.setup_code}
    if door == "mqtt":
        with Mqtt(server.mqtt_port, client_id="eve") as client, suppress(Closed):
            client.publish("$SYS/users/eve", json.dumps(value).encode())  # and it has to sign in
    elif door == "ws":
        over_websocket(server, value)
    else:
        batch = {"commands": [CREATE | {"setup_code": server.setup_code}]}
        assert server.request("POST", f"/{COMMANDS}", json=batch).is_success
    me = server.request("GET", "/$SYS/me", auth=("eve", "pencil")).json()
    assert ("eve", True) == (me["user"], me["grants"]["administer"])


def test_where_nobody_comes_in_without_a_name_no_code_is_shown(tmp_path):
    with Server(tmp_path, settings={"security.anonymous": "nobody"}) as server:
        assert "setup code" not in server.log
        told = f"rowcast user add NAME --role admin --data {tmp_path.resolve()}"
        assert f"first administrator    {told}" in server.log
        assert 401 == server.request("PUT", "/$SYS/users/eve", json=EVE).status_code
