"""Wills of WebSocket clients over a kill of the server (C21)."""

import json

from serving import Server, wait_until
from talking import open_websocket

SCHEMA = "type Presence @table @export { id: ID @primaryKey here: Boolean }\n"
WILL = {"id": 1, "op": "will", "topic": "Presence/ann", "value": {"here": False}, "retain": True}


def test_a_killed_server_writes_them_once_after_its_restart(tmp_path):
    with Server(tmp_path, SCHEMA) as server:
        with open_websocket(server, "/") as socket, open_websocket(server, "/") as other:
            socket.send(json.dumps(WILL))
            assert json.loads(socket.recv()) == {"ack": 1}
            other.send(json.dumps(WILL | {"topic": "Presence/bob"}))
            assert json.loads(other.recv()) == {"ack": 1}
            other.close()  # a normal closure takes its will with it
            server.request("PUT", "/Presence/ann", json={"here": True})
            server.kill()
        server.start()

        def is_away():
            return server.request("GET", "/Presence/ann").json()["here"] is False

        wait_until(is_away, "the will is written")
        assert server.request("GET", "/Presence/bob").status_code == 404
        server.request("PUT", "/Presence/ann", json={"here": True})
        server.kill()
        server.start()
        assert server.request("GET", "/Presence/ann").json()["here"] is True, "not twice"
