"""Alarms of the real program over kills: told once, posted at least once, acknowledged (V5)."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from serving import Server, wait_until

pytestmark = pytest.mark.slow  # a hold must pass before an alarm is raised

SCHEMA = """
type Sensor @table @export @alarm(name: "hot", when: "temp=gt=80", for: "1s", clear: "temp=lt=75")
{ id: ID @primaryKey temp: Int }
"""


class Receiver(BaseHTTPRequestHandler):
    """Remembers what is posted; refuses as long as ``refusing``."""

    taken: list = []  # noqa: RUF012
    refusing = False

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if not Receiver.refusing:
            Receiver.taken.append((self.headers["webhook-id"], json.loads(body)["type"]))
        self.send_response(503 if Receiver.refusing else 204)
        self.end_headers()

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def hook():
    Receiver.taken.clear()
    receiver = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=receiver.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{receiver.server_port}/in"
    receiver.shutdown()
    thread.join()
    receiver.server_close()


def put(server, temp, number=1):
    server.request("PUT", f"/Sensor/{number}", json={"temp": temp}).raise_for_status()


def states(server):
    rows = server.request("GET", "/$SYS/alarms/?sort(id)").json()
    return {row["topic"]: row["state"] for row in rows}


def told(server, number=1):
    rows = server.request("GET", f"/$alarms/hot/Sensor/{number}?last=20").json()
    return [row["value"]["state"] for row in rows]


def test_v5_alarms_outlive_kills(tmp_path, hook):
    with Server(tmp_path, SCHEMA, settings={"alarms.webhook": hook}) as server:
        Receiver.refusing = True
        for number in range(1, 6):
            put(server, 85, number)
        server.kill()
        server.start()
        wait_until(lambda: set(states(server).values()) == {"raised"}, "all are raised")
        server.kill()
        server.start()
        assert {"raised"} == set(states(server).values())
        row = "/$SYS/alarms/hot/Sensor/1"
        server.request("PATCH", row, json={"acknowledged": True}).raise_for_status()
        server.kill()
        Receiver.refusing = False
        server.start()
        assert "acknowledged" == states(server)["Sensor/1"]
        put(server, 70)
        wait_until(lambda: told(server)[-1] == "cleared", "it is cleared")
        assert ["raised", "acknowledged", "cleared"] == told(server)
        assert [["raised"]] * 4 == [told(server, number) for number in range(2, 6)]
        wait_until(lambda: len(Receiver.taken) >= 7, "all is posted")
        wait_until(lambda: server.request("GET", "/$SYS/alarm_deliveries/").json() == [], "taken")
        kinds = sorted(kind for _, kind in dict.fromkeys(Receiver.taken))
        assert ["alarm.acknowledged", "alarm.cleared", *["alarm.raised"] * 5] == kinds
        assert 0 == server.stop()
