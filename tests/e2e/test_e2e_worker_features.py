"""Features at worker processes: what is kept in one place is asked there, or refused (K1)."""

import json

import pytest
from test_e2e_workers import Served, by_workers
from websockets.sync.client import connect

from serving import PATIENCE_SECONDS

SCHEMA = """
type Ping @table @export {
  id: ID @primaryKey
}
type Hourly @table @export @rollup(of: "Reading", time: "at", every: "1h", values: {n: ["max"]}) {
  id: ID @primaryKey
}
type Reading @table @export {
  id: ID @primaryKey
  at: Date
  n: Float
}
"""
CODE = """
from rowcast import Resource


class Code(Resource):
    async def get(self, query=None):
        return {"from": "code"}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    (folder / "no-resources").mkdir()
    (folder / "no-resources" / "code.py").write_text(CODE)
    with Served(folder, SCHEMA) as running:
        yield running


def test_v7_a_worker_passes_durable_streams_on(server):
    """V7: create, append, read and SSE at any worker are those of the one server."""
    path, kind = "/$streams/log/1", {"content-type": "application/json"}
    assert 201 == server.work("PUT", path, headers=kind).status_code
    for n in range(8):
        assert 204 == server.work("POST", path, headers=kind, json=[{"n": n}]).status_code
    closed = server.work("POST", path, headers={"stream-closed": "true"})
    assert "true" == closed.headers["stream-closed"]
    for answer in by_workers(server, lambda it: it.work("GET", path)):
        assert [{"n": n} for n in range(8)] == answer.json()
    told = server.work("GET", f"{path}?offset=-1&live=sse").text
    assert '"streamClosed":true' in told
    assert 204 == server.work("DELETE", path).status_code
    assert 404 == server.request("GET", path).status_code


def test_rows_that_the_server_keeps_are_written_by_no_client_of_a_worker(server):
    for path in ("/Hourly/x", "/Hourly/"):
        refused = server.work("PUT" if path[-1] == "x" else "POST", path, json={"n_max": 1})
        assert refused.status_code == 405, refused.text
        assert "the server keeps the rows of Hourly" in refused.json()["detail"]


def test_a_topic_that_begins_like_a_page_of_the_server_is_a_topic(server):
    """Only these pages are the worker's own; what hooks and topic tables see is passed on."""
    for path in ("/healthcare/1", "/metrics2/x", "/docs2/y"):
        assert server.work("PUT", path, json={"n": 1}).is_success, path
        assert server.request("GET", path).json() == {"n": 1}
    for path in ("/health", "/metrics", "/docs", "/openapi.json"):
        assert server.work("GET", path).status_code < 400, path


def test_a_worker_replays_the_past(server):
    etag = [server.work("PUT", f"/Ping/r{n}", json={}).headers["etag"].strip('"') for n in range(3)]
    path = f"/Ping/?from={etag[0]}&to={etag[2]}&speed=0"
    with server.client() as client:
        url = f"http://127.0.0.1:{server.workers_port}{path}"
        with client.stream("GET", url, headers={"Accept": "text/event-stream"}) as answer:
            assert answer.status_code == 200, answer.read()
            lines = []
            for line in answer.iter_lines():
                lines.append(line)
                if line == "event: end":
                    break
    ids = [line.removeprefix("id: ") for line in lines if line.startswith("id: ")]
    assert [one for one in ids if one in etag[1:]] == etag[1:]


def heard(socket):
    while True:
        yield json.loads(socket.recv(PATIENCE_SECONDS))


def told(socket, **command):
    socket.send(json.dumps({"id": 1} | command))
    while True:
        answer = json.loads(socket.recv(PATIENCE_SECONDS))
        if answer.get("ack") == 1 or "error" in answer:
            return answer


@pytest.mark.parametrize(
    "command",
    [
        {"op": "subscribe", "topic": "plain/#"},
        {"op": "subscribe", "topic": "#"},
        {"op": "subscribe", "topic": "$SYS/sessions/+"},
        {"op": "subscribe", "topic": "/plain/"},
        {"op": "put", "topic": "plain/x", "value": 1},
        {"op": "message", "topic": "Code/1", "value": 1},
        {"op": "get", "topic": "Code/1"},
        {"op": "get", "topic": "$SYS/workers/0"},
        {"op": "replay", "topic": "plain/#", "from": "-1h"},
    ],
)
def test_a_socket_of_a_worker_says_what_it_does_not_serve(server, command):
    """K4: never silent, and no code of the project runs in two processes."""
    with connect(f"ws://127.0.0.1:{server.workers_port}/Ping/") as socket:
        error = told(socket, **command)["error"]
        assert 405 == error["status"], error
        assert "open a WebSocket at /" in error["detail"]
        assert "ack" in told(socket, op="put", topic="Ping/1", value={})
        assert "ack" in told(socket, op="subscribe", topic="Reading/+")
        assert "ack" in told(socket, op="subscribe", topic="$query/Reading/n=gt=1")


def test_streams_of_a_worker_with_other_topics_are_passed_on(server):
    """K4: a stream at a table's path that names further topics, by SSE and WebSocket."""
    with server.stream("/Ping/?topic=plain/%23&start=new") as stream:
        stream.until_current()
        assert server.request("PUT", "/plain/sse", json={"n": 1}).is_success
        assert "plain/sse" == stream.next().fields["topic"]
    url = f"ws://127.0.0.1:{server.workers_port}/Ping/?topic=plain/%23&start=new"
    with connect(url) as socket:
        assert server.request("PUT", "/plain/ws", json={"n": 1}).is_success
        event = next(event for event in heard(socket) if event["topic"] == "plain/ws")
        assert {"n": 1} == event["value"]


def test_m11_streams_of_workers_are_listed_and_ended(server):
    """M11: rows of readers at a worker are below its name, at the server and at any worker."""
    with server.stream("/Reading/?start=new") as stream:
        stream.until_current()
        (row,) = server.request("GET", "/$SYS/streams/").json()
        assert row["node"] in {"worker0", "worker1"}
        assert row["id"].startswith(f"{row['node']}/")
        assert row["filters"] == ["Reading/#"]
        assert server.work("DELETE", f"/$SYS/streams/{row['id']}").status_code == 204
        assert "an administrator ended this stream" in [told.text for told in stream][-1]
    assert server.request("GET", "/$SYS/streams/").json() == []
