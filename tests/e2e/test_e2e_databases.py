"""Tables of one name in several databases, in the real program (A6)."""

import json

import pytest

from serving import Server
from talking import Mqtt

BEFORE = """
type Dog @table(database: "a") @export(name: "a-dogs") { id: ID @primaryKey name: String! }
"""
SCHEMA = (
    BEFORE
    + """
type Dog2 @table(database: "b", table: "Dog") @export { id: ID @primaryKey age: Int! }
type Dog3 @table(table: "Dog") @export(name: "dogs") { id: ID @primaryKey free: Boolean! }
"""
)


@pytest.mark.slow
def test_they_live_beside_one_another_over_a_restart(tmp_path):
    """A6: what the first table had before there were others is its own afterwards."""
    values = {"a-dogs": {"name": "Rex"}, "Dog2": {"age": 3}, "dogs": {"free": True}}
    with Server(tmp_path, BEFORE) as server:
        assert server.request("PUT", "/a-dogs/1", json=values["a-dogs"]).is_success
        server.stop()
        (tmp_path / "schema.graphql").write_text(SCHEMA)
        server.start()
        assert server.request("PUT", "/dogs/1", json=values["dogs"]).is_success
        with Mqtt(server.mqtt_port) as client:
            client.publish("Dog2/1", json.dumps(values["Dog2"]).encode())
        server.kill()
        server.start()
        for path, value in values.items():
            assert {"id": "1", **value} == server.request("GET", f"/{path}/1").json()
            (past,) = server.request("GET", f"/{path}/?from=0").json()
            assert {"id": "1", **value} == past["value"]
        rows = server.request("GET", "/$SYS/schema/").json()
        assert {"a.Dog", "b.Dog", "Dog"} <= {row["name"] for row in rows}
