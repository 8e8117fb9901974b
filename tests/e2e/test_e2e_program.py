"""The program from outside: checking, starting, what prevents it, stopping, starting again."""

import errno
import json
import socket
import subprocess

import pytest
from websockets.exceptions import ConnectionClosed

from rowcast.core.errors import Error
from rowcast.program.config import load_config
from rowcast.program.doors import MQTT, way_out
from rowcast.program.main import Application
from serving import ROWCAST, SCHEMA, Server, rowcast
from talking import Events, Mqtt, open_websocket, told, user_properties

# -- check -----------------------------------------------------------------------------------------


def test_check_names_the_tables_of_a_good_schema(tmp_path):
    (tmp_path / "schema.graphql").write_text(SCHEMA)
    done = rowcast("check", folder=tmp_path)
    assert (0, True) == (done.returncode, "Dog" in done.stdout)


def test_check_names_file_line_column_and_the_nearest_word(tmp_path):
    (tmp_path / "schema.graphql").write_text("type Dog @table {\n  name: Strin\n}\n")
    done = rowcast("check", folder=tmp_path)
    assert 1 == done.returncode
    assert "schema.graphql:2:9" in done.stderr.replace(", line ", ":").replace(", column ", ":")
    assert "String" in done.stderr


def test_check_changes_nothing(tmp_path):
    (tmp_path / "schema.graphql").write_text(SCHEMA)
    rowcast("check", folder=tmp_path)
    assert ["schema.graphql"] == [path.name for path in tmp_path.iterdir()]


# -- as a person starts it -------------------------------------------------------------------------


def test_the_installed_command_starts_stops_and_starts_again(tmp_path):
    """All other tests have their servers from `starter`."""
    with Server(tmp_path, anew=True) as server:
        etag = server.request("PUT", "/Dog/1", json={"name": "Rex"}).headers["etag"]
        checked = [ROWCAST, "check", "--schema", server.schema_file]
        said = subprocess.run(checked, check=True, capture_output=True, text=True, cwd=tmp_path)
        assert (True, "") == ("Dog, Counter" in said.stdout, said.stderr)
        assert (0, False) == (server.stop(), "Traceback" in server.log)
        server.start()
        assert etag == server.request("GET", "/Dog/1").headers["etag"]


# -- what prevents a start -------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ["http.port", "mqtt.network.port"])
def test_a_busy_port_is_told_with_what_to_do(tmp_path, setting):
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        server = Server(tmp_path, settings={setting: port})
        done = rowcast(*server.command[1:], folder=tmp_path)
    assert (1, True) == (done.returncode, f"127.0.0.1:{port}" in done.stderr)
    assert f"--set {setting}=" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("host", ["192.0.2.1", "nowhere.invalid"])
def test_o9_an_address_of_no_interface_is_told_with_what_to_do(tmp_path, host):
    """Another port would not help. Neither exists: RFC 5737, RFC 6761."""
    server = Server(tmp_path, settings={"http.host": host})
    done = rowcast(*server.command[1:], folder=tmp_path)
    assert (1, False) == (done.returncode, "Traceback" in done.stderr)
    assert "name an address of this machine with --set http.host=..." in done.stderr


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.EADDRINUSE, "end what uses it, or choose another port"),
        (errno.EACCES, "this user may not use ports that low (ip(7)); choose another port"),
    ],
)
def test_o9_what_to_do_about_a_port_depends_on_why_it_cannot_be_had(number, told):
    said = way_out(OSError(number, "refused"), MQTT)
    assert f"{told} with --set mqtt.network.port=..." == said


def test_a_second_server_on_the_same_data_is_refused(server):
    ports = ("--http-port", 0, "--mqtt-port", 0)
    second = rowcast(*server.command[1:], *ports, folder=server.folder)
    assert (1, False) == (second.returncode, "Traceback" in second.stderr)
    assert "data" in second.stderr
    assert 200 == server.request("GET", "/health").status_code


def test_a_data_directory_that_cannot_be_made_is_told(tmp_path):
    """O9."""
    (tmp_path / "schema.graphql").write_text(SCHEMA)
    (tmp_path / "taken").write_text("")
    config = load_config(
        None, {}, {"data": tmp_path / "taken", "schema": tmp_path / "schema.graphql"}
    )
    with pytest.raises(Error, match="taken cannot be made: File exists"):
        Application(config)


def test_a_schema_with_a_fault_is_told(tmp_path):
    server = Server(tmp_path, schema="type Dog @tabel { id: ID }")
    done = rowcast(*server.command[1:], folder=tmp_path)
    assert (1, False) == (done.returncode, "Traceback" in done.stderr)
    assert 'did you mean "table"' in done.stderr


def test_a_resource_that_cannot_be_loaded_is_told(tmp_path):
    resources = tmp_path / "resources"
    resources.mkdir()
    (resources / "broken.py").write_text("import nothing_of_this_name\n")
    server = Server(tmp_path, resources=resources)
    done = rowcast(*server.command[1:], folder=tmp_path)
    assert (1, True) == (done.returncode, "broken.py" in done.stderr)


# -- stopping --------------------------------------------------------------------------------------


def test_a_stop_ends_streams_and_keeps_what_was_written(server):
    """SIGTERM with every kind of stream open: a clean end, within the patience of a supervisor."""
    server.request("PUT", "/Dog/1", json={"name": "Rex"})
    with (
        Events(server, "/Dog/1") as events,
        open_websocket(server, "/Dog/1") as websocket,
        Mqtt(server.mqtt_port) as client,
    ):
        client.subscribe("Dog/#")
        events.until_current()
        while told(websocket).kind != "current":
            pass
        assert 0 == server.stop()
        assert [] == list(events)
        assert "Traceback" not in server.log
    server.start()
    assert "Rex" == server.request("GET", "/Dog/1").json()["name"]


def test_a_websocket_is_told_that_the_server_restarts(server):
    with open_websocket(server, "/Dog/1") as websocket:
        told(websocket)
        server.stop()
        with pytest.raises(ConnectionClosed):
            told(websocket)
        assert 1012 == websocket.close_code


def test_an_mqtt_5_client_is_told_that_the_server_stops(server):
    with Mqtt(server.mqtt_port) as client:
        server.stop()
        assert 0x8B == client.receive().reason


def test_a_stop_answers_writes_that_are_on_their_way(server):
    with Mqtt(server.mqtt_port) as client:
        for number in range(200):
            client.publish(f"Counter/{number}", b'{"n": 1}', 0)
        client.publish("Counter/last", b'{"n": 1}')
        server.stop()
    server.start()
    assert 201 == len(server.request("GET", "/Counter/?limit(1000)").json())


# -- starting again --------------------------------------------------------------------------------


def test_a_restart_keeps_records_epoch_and_cursors(server):
    """A cursor of before the restart goes on after it; numbers go on rising."""
    first = server.request("PUT", "/Dog/1", json={"name": "Rex"}).headers["ETag"].strip('"')
    with Mqtt(server.mqtt_port) as client:
        client.publish("open/1", b"\x00 bytes", properties={"content_type": "image/x"})
    server.stop()
    server.start()
    second = server.request("PUT", "/Dog/1", json={"name": "Max"}).headers["ETag"].strip('"')
    (epoch, seq), (epoch_after, seq_after) = first.split(":"), second.split(":")
    assert (epoch, True) == (epoch_after, int(seq_after) > int(seq))
    with Events(server, "/Dog/1", since=first) as events:
        assert (second, "put", "Max") == ((e := events.next()).id, e.kind, e.value["name"])
    kept = server.request("GET", "/open/1")
    assert (b"\x00 bytes", "image/x") == (kept.content, kept.headers["Content-Type"])


def test_a_restart_with_a_larger_schema_keeps_the_records(server):
    server.request("PUT", "/Dog/1", json={"name": "Rex", "colour": "black"})
    server.stop()
    server.schema_file.write_text(SCHEMA.replace("age: Int", "age: Int\n  colour: String @indexed"))
    server.start()
    found = server.request("GET", "/Dog/?colour=black").json()
    assert [{"id": "1", "name": "Rex", "colour": "black"}] == found


def test_mqtt_and_http_tell_the_same_cursor(server):
    """M1."""
    with Mqtt(server.mqtt_port) as client:
        acknowledged = user_properties(
            client.publish("Dog/1", json.dumps({"name": "Rex"}).encode())
        )
    answer = server.request("GET", "/Dog/1")
    assert [f'"{acknowledged["seq"]}"', acknowledged["seq"]] == [
        answer.headers["ETag"],
        answer.headers["Rowcast-Position"],
    ]


def test_the_command_line_talks_to_the_server(server):
    url = ("--url", server.url)
    assert 0 == rowcast("put", "Dog/1", '{"name": "Rex"}', *url).returncode
    assert "Rex" in rowcast("get", "Dog/1", *url).stdout
    heard = rowcast("sub", "Dog/#", "-n", 2, *url).stdout.splitlines()
    assert ["snapshot", "current"] == [json.loads(line)["kind"] for line in heard]
