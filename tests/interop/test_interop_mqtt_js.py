"""MQTT.js against the whole program: versions 3.1, 3.1.1 and 5, TCP and WebSocket (D3)."""

import json
import subprocess
from pathlib import Path

import pytest
from clients import Program, library, needs

HERE = Path(__file__).parent
_, INSTALLED = library("mqtt")
pytestmark = [
    pytest.mark.interop,
    needs("node"),
    INSTALLED,
]
VERSIONS = {"3.1": 3, "3.1.1": 4, "5": 5}
PLACES = {
    "tcp": "mqtt://127.0.0.1:{mqtt}",
    "websocket at /mqtt": "ws://127.0.0.1:{http}/mqtt",
    "websocket at a record": "ws://127.0.0.1:{http}/Dog/1",
}


class MqttJs(Program):
    """A client, connected; commands go in and what it hears comes out."""

    def __init__(self, url, version, **wishes):
        command = ["node", HERE / "mqtt_client.mjs", url, str(version), json.dumps(wishes)]
        super().__init__(
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )
        assert {"connected": True} == json.loads(self.line())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.end()

    def do(self, name, **details):
        """Give a command."""
        self.process.stdin.write(json.dumps({"do": name} | details).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self, what):
        """Return the next of what it says of this kind."""
        while what not in (said := json.loads(self.line())):
            if "error" in said:
                raise AssertionError(said)
        return said


def url(server, place="tcp"):
    """Return the address of a door."""
    return PLACES[place].format(mqtt=server.mqtt_port, http=server.http_port)


@pytest.fixture(params=[(v, place) for v in VERSIONS for place in PLACES], ids=" ".join)
def client(request, server):
    version, place = request.param
    with MqttJs(url(server, place), VERSIONS[version]) as connected:
        yield connected


def test_a_record_is_written_heard_and_deleted(client, server):
    client.do("publish", topic="Dog/1", payload='{"name": "Rex"}', retain=True)
    client.hear("published")
    assert {"id": "1", "name": "Rex"} == server.request("GET", "/Dog/1").json()
    client.do("subscribe", topic="Dog/#")
    first = client.hear("heard")
    client.do("publish", topic="Dog/1", payload="", retain=True)
    last = client.hear("heard")
    assert (True, "Rex", "") == (
        first["retain"],
        json.loads(first["payload"])["name"],
        last["payload"],
    )


def test_properties_and_the_cursor_of_an_event(server):
    with MqttJs(url(server), 5) as client:
        client.do("subscribe", topic="Dog/1")
        client.hear("subscribed")
        etag = server.request("PUT", "/Dog/1", json={"name": "Rex"}).headers["ETag"]
        properties = client.hear("heard")["properties"]
    assert {"contentType": "application/json", "userProperties": {"seq": etag.strip('"')}} == {
        name: properties[name] for name in ("contentType", "userProperties")
    }


def test_a_refused_publish_has_its_reason(server):
    with MqttJs(url(server), 5) as client:
        client.do("publish", topic="Dog/1", payload="{", retain=True)
        assert 0x99 == json.loads(client.line())["code"]
