"""Who guesses passwords, and who has the right one, at the same address (L11, P3)."""

from itertools import count

import pytest

from rowcast.mqtt.packets import MQTT_3_1_1, MQTT_5
from rowcast.mqtt.reasons import Reason
from serving import Server, rowcast
from talking import Mqtt

ANN = ("ann", "pencil")
NUMBERS = count(1)
SLOWED = "slowed down"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guessing")
    rowcast("user", "add", "ann", "--role", "admin", folder=folder, stdin="pencil\n")
    with Server(folder, settings={"mqtt.ban.failed_logins": 3}) as server:
        server.request("PUT", "/Dog/1", auth=ANN, json={"name": "Rex"})
        yield server


@pytest.fixture
def user(server):
    """Return a fresh user with a password of its own."""
    name, value = f"user{next(NUMBERS)}", {"password": "secret"}
    answer = server.request("PUT", f"/$SYS/users/{name}", auth=ANN, json=value)
    assert 204 == answer.status_code
    return name


def test_p3_noise_without_a_password_keeps_nobody_out(server, user):
    """From the same address, on both doors, far more often than what slows a name down."""
    page = {"accept": "text/event-stream", "sec-fetch-site": "cross-site"}
    with server.client() as client:
        for number in range(40):
            assert 401 == client.get("/Dog/?ticket=x", headers=page).status_code
            assert 401 == client.get("/Dog/1", auth=(f"nobody{number}", "x")).status_code
    for number in range(40):
        wrong = {"username": f"nobody{number}", "password": b"x"}
        with Mqtt(server.mqtt_port, client_id=f"meter-{user}", **wrong) as stranger:
            assert Reason.BAD_USER_NAME_OR_PASSWORD is stranger.connack.reason
    assert 200 == server.request("GET", "/Dog/1", auth=(user, "secret")).status_code
    login = {"user": user, "password": "secret"}
    assert 200 == server.request("POST", "/$SYS/login", json=login).status_code
    right = {"username": user, "password": b"secret"}
    for version in (MQTT_3_1_1, MQTT_5):
        with Mqtt(server.mqtt_port, version, f"meter-{user}", **right) as meter:
            assert Reason.SUCCESS == meter.connack.reason


def test_p3_guesses_on_one_door_do_not_keep_a_device_out(server, user):
    right = {"username": user, "password": b"secret"}
    with Mqtt(server.mqtt_port, client_id=f"meter-{user}", **right):
        pass
    with server.client() as client:
        answers = [client.get("/Dog/1", auth=(user, f"x{n}")).status_code for n in range(40)]
    assert {401, 429} == set(answers)
    with Mqtt(server.mqtt_port, client_id=f"meter-{user}", **right) as meter:
        assert Reason.SUCCESS == meter.connack.reason
    slowed = [
        row["name"]
        for row in server.request("GET", "/$SYS/guard/", auth=ANN).json()
        if SLOWED == row["kind"]
    ]
    assert f"known 127.0.0.1 {user}" in slowed
