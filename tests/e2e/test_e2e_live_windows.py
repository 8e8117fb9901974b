"""Live windows of real servers: over restarts, doors and processes (M3)."""

import random
import re
from types import SimpleNamespace

import pytest

from serving import Server
from talking import Events, Mqtt, user_properties

SCHEMA = """
type Sensor @table @export { id: ID @primaryKey temp: Float }
query Top @query(table: "Sensor", where: "temp=gt=20&sort(-temp)&limit(3)")
"""
PATH = "/Sensor/?temp=gt=20&sort(-temp)&limit(3)"
LASTING = {"session_expiry_interval": 3600}


class Served(Server):
    """A server with two workers."""

    def __init__(self, folder):
        given = {"workers.count": 2, "workers.http_port": 0, "workers.mqtt_port": 0}
        super().__init__(folder, SCHEMA, folder / "no-resources", given)

    @property
    def workers(self):
        """Where the workers are."""
        port = int(re.search(r"  2 workers +http://[\d.]+:(\d+)/", self.log)[1])
        return SimpleNamespace(http_port=port)


def put(server, name, temp):
    told = server.request("PUT", f"/Sensor/{name}", json={"temp": temp})
    assert told.status_code in {201, 204}
    return told.headers["etag"].strip('"')


def rest(server):
    return {row["id"]: row["temp"] for row in server.request("GET", PATH).json()}


def follow(held, kind, topic, value):
    """Take one event into what a reader holds."""
    name = topic.removeprefix("Sensor/")
    if kind == "reset":
        held.clear()
    elif kind == "leave":
        held.pop(name, None)
    elif kind != "current":
        held[name] = value["temp"]


def until(stream, held, cursor):
    """Follow a stream up to a cursor; return the last cursor that was told."""
    while True:
        event = stream.next()
        follow(held, event.kind, event.fields["topic"], event.fields.get("value"))
        if event.id == cursor:
            return event.id


@pytest.mark.parametrize("at", ["server", "worker"])
def test_a_window_of_any_process_holds_what_rest_answers(tmp_path, at):
    """M3: read at the server and at a worker; the last step has the cursor of the write."""
    chance = random.Random(at)
    with Served(tmp_path) as server:
        for number in range(30):
            put(server, number, number)
        with Events(server if at == "server" else server.workers, PATH) as stream:
            held = {}
            for event in stream.until_current():
                follow(held, event.kind, event.fields["topic"], event.fields["value"])
            assert list(held) == ["29", "28", "27"]
            for _ in range(60):
                name = chance.choice(list(held))  # it leaves, or changes within the window
                until(stream, held, put(server, name, chance.choice((21.5, 30, 40.5))))
                assert held == rest(server)


def test_a_named_window_goes_on_over_restarts_and_on_another_door(tmp_path):
    """M3: exact steps, without a reset, from what the log has."""
    with Server(tmp_path, SCHEMA) as server:
        for name, temp in (("a", 90), ("b", 80), ("c", 70), ("d", 60), ("e", 10)):
            put(server, name, temp)
        with Mqtt(server.mqtt_port, client_id="lasting", properties=LASTING) as client:
            client.subscribe("$query/Top/#")
            assert [client.message().topic[-1] for _ in range(3)] == ["a", "b", "c"]
        held = {}
        with Events(server, "/$query/Top") as stream:
            for event in stream.until_current():
                follow(held, event.kind, event.fields["topic"], event.fields["value"])
            cursor = until(stream, held, put(server, "a", 15))
        assert held == rest(server) == {"b": 80, "c": 70, "d": 60}
        put(server, "e", 75)
        server.stop()
        server.start()
        put(server, "b", 1)
        steps = [("leave", "d"), ("enter", "e"), ("leave", "b"), ("enter", "d")]
        with Events(server, "/$query/Top", cursor) as stream:
            events = [stream.next() for _ in steps]
            heard = [(event.kind, event.fields["topic"][-1]) for event in events]
        assert heard == steps
        with Mqtt(
            server.mqtt_port, client_id="lasting", properties=LASTING, clean_start=False
        ) as client:
            messages = [client.message() for _ in range(6)]
        told = [(user_properties(one)["op"], one.topic[-1]) for one in messages]
        assert told == [("leave", "a"), ("enter", "d"), *steps]
