"""A server that is looked after: ready or not, short of memory, stopped (O4, O11, K9)."""

import json
import resource
import signal

import pytest

from rowcast.mqtt.packets import Disconnect, Will
from rowcast.mqtt.reasons import Reason
from serving import Server, rowcast, wait_until
from talking import Closed, Events, Mqtt, open_socket, open_websocket, user_properties


def ready(server):
    answer = server.request("GET", "/health/ready")
    return answer.status_code, answer.json()["checks"]


def test_a_server_that_is_well_is_ready(server):
    """O4."""
    assert (200, {"ok"}) == (ready(server)[0], set(ready(server)[1].values()))
    health = server.request("GET", "/health").json()
    expected = {"status", "version", "code", "head", "lag_events", "lag_seconds", "warnings"}
    assert expected == health.keys()


def test_a_disk_that_is_full_is_not_ready(tmp_path):
    """O4: found out by a write, not by the next client."""
    with Server(tmp_path, settings={"mqtt.sys_interval": 0}) as server:
        assert 200 == ready(server)[0]
        resource.prlimit(server.running.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        _, checks = wait_until(
            lambda: (found := ready(server))[0] == 503 and found, "readiness has noticed"
        )
        assert "ok" != checks["store"]
        assert 200 == server.request("GET", "/health").status_code


def test_a_server_that_is_short_of_memory(tmp_path):
    """K9, O4: with a watermark that is too small for any server, who is there stays."""
    settings = {"overload.memory_bytes": 1_000_000, "overload.connects_percent": 0}
    settings |= {"overload.subscribes_percent": 90}
    with Server(tmp_path, settings=settings) as server:
        with Mqtt(server.mqtt_port) as client:
            assert Reason.QUOTA_EXCEEDED == client.subscribe("Dog/+").reasons[0]
        status, checks = ready(server)
        assert (503, True) == (status, "subscribes" in checks["memory"])
        row = server.request("GET", "/$SYS/overload/memory").json()
        assert ("subscribes", True) == (row["level"], row["refused_subscribes"] >= 1)
        assert 201 == server.request("PUT", "/Dog/1", json={"name": "Rex"}).status_code
        stream = {"accept": "text/event-stream"}
        answer = server.request("GET", "/Dog/", headers=stream)
        assert (503, True) == (answer.status_code, "retry-after" in answer.headers)
        events = server.request("GET", "/$SYS/events/server/process?last=9").json()
        assert "overload" in [item["value"]["event"] for item in events]


def test_no_new_connections_when_memory_is_shorter_still(tmp_path):
    """K9: MQTT, SSE and WebSocket are told so; requests are answered."""
    settings = {"overload.memory_bytes": 1_000_000, "overload.subscribes_percent": 0}
    with Server(tmp_path, settings=settings) as server:
        with Mqtt(server.mqtt_port) as client:
            assert Reason.SERVER_BUSY == client.connack.reason
        stream = {"accept": "text/event-stream"}
        assert 503 == server.request("GET", "/Dog/", headers=stream).status_code
        with open_websocket(server, "/Dog/") as socket, pytest.raises(Exception, match="1013"):
            socket.recv()
        assert 404 == server.request("GET", "/Dog/1").status_code


def test_stopping_tells_everyone_when_to_come_back(tmp_path):
    """O11, K11: each at another time; what was acknowledged is there, and the exit code is 0."""
    with Server(tmp_path) as server:
        clients = [Mqtt(server.mqtt_port) for _ in range(20)]
        server.request("PUT", "/Dog/1", json={"name": "Rex"}).raise_for_status()
        with Events(server, "/Dog/"), open_websocket(server, "/Dog/") as socket:
            server.running.send_signal(signal.SIGTERM)
            goodbyes = [client.receive() for client in clients]
            with pytest.raises(Exception, match="1012"):
                while True:
                    socket.recv()
        assert {Reason.SERVER_SHUTTING_DOWN} == {packet.reason for packet in goodbyes}
        assert all(isinstance(packet, Disconnect) for packet in goodbyes)
        waits = {int(user_properties(packet)["retry-after-ms"]) for packet in goodbyes}
        assert len(waits) > 10
        for client in clients:
            client.socket.close()
        assert 0 == server.running.wait(60)
        with pytest.raises(ConnectionError):
            open_socket(server.mqtt_port)
        server.start()
        assert "Rex" == server.request("GET", "/Dog/1").json()["name"]


def test_a_stop_publishes_the_wills_of_those_that_end_with_it(tmp_path):
    """O11: MQTT-3.1.2-8; a will that is delayed waits for its client beyond the restart."""
    lasting = {"session_expiry_interval": 600}
    with Server(tmp_path) as server:
        now = Will("ends/now", b"gone", 1, True)
        later = Will("ends/later", b"gone", 1, True, {"will_delay_interval": 300})
        with (
            Mqtt(server.mqtt_port, client_id="a", will=now),
            Mqtt(server.mqtt_port, client_id="b", will=later, properties=lasting),
        ):
            assert 0 == server.stop()
        server.start()
        assert b"gone" == server.request("GET", "/ends/now").content
        assert 404 == server.request("GET", "/ends/later").status_code
        assert 1 == len(server.request("GET", "/ends/now?last=9").json())


def test_a_second_signal_ends_it_at_once(tmp_path):
    """O11: whoever waits for nothing gets exit code 1, and no write that was answered is lost."""
    with Server(tmp_path) as server:
        with Mqtt(server.mqtt_port) as stuck:
            server.request("PUT", "/Dog/1", json={"name": "Rex"}).raise_for_status()
            server.running.send_signal(signal.SIGTERM)
            with pytest.raises(Closed):
                while True:
                    stuck.receive()
        server.stop()
        server.start()
        assert "Rex" == server.request("GET", "/Dog/1").json()["name"]


def test_the_commands_show_rows_of_the_server(tmp_path):
    """O9: sessions and dead letters as lines of JSON, none, one or all of them."""
    with Server(tmp_path) as server, Mqtt(server.mqtt_port, client_id="sensor-7") as _:
        url = ("--url", f"http://127.0.0.1:{server.http_port}")
        assert (0, "no dead letters\n") == shown("dead-letters", "list", *url)
        of_cloud = (0, "no dead letters of a bridge cloud\n")
        assert of_cloud == shown("dead-letters", "list", "cloud", *url)
        for words in (("sessions",), ("sessions", "sensor-7")):
            code, lines = shown(*words, *url)
            names = [json.loads(line)["client_id"] for line in lines.splitlines()]
            assert (0, ["sensor-7"]) == (code, names)


def shown(*words):
    done = rowcast(*words)
    return done.returncode, done.stdout + done.stderr
