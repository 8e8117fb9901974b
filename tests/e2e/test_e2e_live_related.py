"""Live queries on related records, of real servers: over restarts, doors and processes (M3, A9)."""

import random
import re
from types import SimpleNamespace

import pytest

from serving import Server
from talking import Events, Mqtt, user_properties

SCHEMA = """
type Owner @table @export { id: ID @primaryKey city: String }
type Dog @table @export {
  id: ID @primaryKey
  owner_id: ID @indexed
  owner: Owner @relationship(from: "owner_id")
}
query Bonn @query(table: "Dog", where: "owner.city==Bonn")
"""
PATH = "/Dog/?owner.city==Bonn"
PARTS = f"{PATH}&select(id,owner(id,city))"
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


def put(server, topic, **value):
    told = server.request("PUT", f"/{topic}", json=value)
    assert told.status_code in {201, 204}
    return told.headers["etag"].strip('"')


def follow(held, event):
    """Take one event into what a reader holds."""
    assert event.kind != "reset"
    if event.kind == "leave":
        del held[event.fields["topic"]]
    elif event.kind != "current":
        held[event.fields["topic"]] = event.fields["value"]


@pytest.mark.parametrize("path", [PATH, PARTS])
@pytest.mark.parametrize("at", ["server", "worker"])
def test_a_query_of_any_process_holds_what_rest_answers(tmp_path, at, path):
    """M3, A9: read at the server and at a worker, after each write that changes the answer."""
    chance = random.Random(at)
    with Served(tmp_path) as server:

        def rest():
            return {f"Dog/{row['id']}": row for row in server.request("GET", path).json()}

        for number in range(12):
            put(server, f"Owner/{number % 4}", city="Bonn" if number % 2 else "Ulm")
            put(server, f"Dog/{number}", owner_id=str(number % 4))
        with Events(server if at == "server" else server.workers, path) as stream:
            held = {}
            for event in stream.until_current():
                follow(held, event)
            assert held == rest() != {}
            for _ in range(40):
                if chance.random() < 0.5:
                    put(server, f"Owner/{chance.randrange(4)}", city=chance.choice(("Bonn", "Ulm")))
                else:
                    put(server, f"Dog/{chance.randrange(12)}", owner_id=str(chance.randrange(4)))
                while held != rest():
                    follow(held, stream.next())


def test_a_query_goes_on_over_restarts_and_on_another_door(tmp_path):
    """M3, A9: exact steps, without a reset, from what the log has of both tables."""
    with Server(tmp_path, SCHEMA) as server:
        for name, city in (("ann", "Bonn"), ("ben", "Ulm")):
            put(server, f"Owner/{name}", city=city)
            put(server, f"Dog/{name}s", owner_id=name)
        with Mqtt(server.mqtt_port, client_id="lasting", properties=LASTING) as client:
            client.subscribe("$query/Bonn/#")
            assert client.message().topic == "Dog/anns"
        with Events(server, PATH) as stream:
            assert [event.kind for event in stream.until_current()] == ["snapshot"]
            put(server, "Owner/ben", city="Bonn")
            entered = stream.next()
            assert ("enter", "Dog/bens") == (entered.kind, entered.fields["topic"])
        put(server, "Owner/ann", city="Ulm")
        server.stop()
        server.start()
        put(server, "Dog/new", owner_id="ben")
        put(server, "Owner/ben", city="Ulm")
        steps = [("leave", "anns"), ("enter", "new"), ("leave", "bens"), ("leave", "new")]
        with Events(server, PATH, entered.id) as stream:
            events = [stream.next() for _ in steps]
        assert [(event.kind, event.fields["topic"][4:]) for event in events] == steps
        with Mqtt(
            server.mqtt_port, client_id="lasting", properties=LASTING, clean_start=False
        ) as client:
            messages = [client.message() for _ in range(5)]
        told = [(user_properties(one)["op"], one.topic[4:]) for one in messages]
        assert told == [("enter", "bens"), *steps]
