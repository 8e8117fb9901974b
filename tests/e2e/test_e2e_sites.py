"""Two sites in processes of their own, joined by bridges that are cut and come back (K3, K5)."""

import json
from contextlib import ExitStack

from cutting import Way
from free_ports import free_ports
from serving import Server, wait_until
from talking import Events

NAMES = "north", "south"
SCHEMA = """
type Dog @table @export {
  id: ID @primaryKey
  name: String
  age: Int
  made: Date @createdTime
}
"""
DOGS = "Dog/1", "Dog/2", "Dog/3"
CONFLICTS = "/$SYS/conflicts/"


def sites(stack, folder):
    """Return two servers, each with a bridge to the other, and the ways between them."""
    ports = free_ports(2)
    ways = [Way(port) for port in ports]
    servers = []
    for name, port, way in zip(NAMES, ports, reversed(ways), strict=True):
        stack.callback(way.close)
        (folder / name).mkdir()
        bridge = {"name": "other", "host": "127.0.0.1", "port": way.port, "sync": ["Dog/#"],
                  "reconnect_interval_ms": 100}  # fmt: skip
        settings = {"mqtt.network.port": port, "gateway.brokers": json.dumps([bridge])}
        servers.append(stack.enter_context(Server(folder / name, SCHEMA, settings=settings)))
    return servers, ways


def put(server, topic, **value):
    assert server.request("PUT", f"/{topic}", json=value).is_success


def state(server):
    """Return value and version of all dogs."""
    answers = [server.request("GET", f"/{topic}") for topic in DOGS]
    return [(answer.status_code == 200 and answer.json(), answer.headers.get("rowcast-version"))
            for answer in answers]  # fmt: skip


def connected(server):
    row = server.request("GET", "/$SYS/brokers/other").json()
    return row["connected"] and not row["outbox_pending"]


def names(server):
    """Return the names that are at the site."""
    return [value and value["name"] for value, _ in state(server)]


def shut(ways, servers):
    for way in ways:
        way.shut = True
        way.cut()
    wait_until(lambda: not any(map(connected, servers)), "both bridges are cut")


def test_two_sites_are_cut_and_come_back(tmp_path):
    """K3, K5: both go on alone, one is killed meanwhile, and then they are equal again."""
    with ExitStack() as stack:
        (north, south), ways = sites(stack, tmp_path)
        for topic in DOGS:
            put(north, topic, name="both", age=1)
        wait_until(lambda: state(south) == state(north), "what north wrote is at south")
        shut(ways, (north, south))
        events = stack.enter_context(Events(north, "/Dog/1?start=new"))
        events.until_current()
        put(north, "Dog/1", name="of the north")
        put(south, "Dog/1", name="of the south")
        assert north.request("PATCH", "/Dog/2", json={"age": 2}).is_success
        assert south.request("DELETE", "/Dog/3").is_success
        south.kill(children=True)
        south.start()
        assert ["of the north", "both", "both"] == names(north)
        assert ["of the south", "both", False] == names(south)
        for way in ways:
            way.shut = False
        wait_until(lambda: state(north) == state(south), "they are equal again")
        wait_until(lambda: connected(north) and connected(south), "all has arrived")
        assert ["of the south", "both", False] == names(north) == names(south)
        assert ["of the north", "of the south"] == [events.next().value["name"] for _ in "12"]
        for server in (north, south):
            wait_until(lambda server=server: server.request("GET", CONFLICTS).json(), "a row")
            (row,) = server.request("GET", CONFLICTS).json()
            assert ("Dog/1", "of the north") == (row["topic"], row["value"]["name"])
            name = f"{row['version']}@{row['origin']}/Dog/1"
            assert row == server.request("GET", CONFLICTS + name).json()
            assert server.request("DELETE", CONFLICTS + name).is_success
            assert [] == server.request("GET", CONFLICTS).json()
