"""Alarms of the real program over kills: told once, posted at least once, acknowledged (V5)."""

import pytest

from serving import Server, wait_until
from webhook_receiver import webhook_receiver

pytestmark = pytest.mark.slow  # a hold must pass before an alarm is raised

SCHEMA = """
type Sensor @table @export @alarm(name: "hot", when: "temp=gt=80", for: "1s", clear: "temp=lt=75")
{ id: ID @primaryKey temp: Int }
"""


@pytest.fixture
def hook():
    with webhook_receiver() as receiver:
        yield receiver


def put(server, temp, number=1):
    server.request("PUT", f"/Sensor/{number}", json={"temp": temp}).raise_for_status()


def states(server):
    rows = server.request("GET", "/$SYS/alarms/?sort(id)").json()
    return {row["topic"]: row["state"] for row in rows}


def told(server, number=1):
    rows = server.request("GET", f"/$alarms/hot/Sensor/{number}?last=20").json()
    return [row["value"]["state"] for row in rows]


def test_v5_alarms_outlive_kills(tmp_path, hook):
    with Server(tmp_path, SCHEMA, settings={"alarms.webhook": hook.url}) as server:
        hook.refusing = True
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
        hook.refusing = False
        server.start()
        assert "acknowledged" == states(server)["Sensor/1"]
        put(server, 70)
        wait_until(lambda: told(server)[-1] == "cleared", "it is cleared")
        assert ["raised", "acknowledged", "cleared"] == told(server)
        assert [["raised"]] * 4 == [told(server, number) for number in range(2, 6)]
        wait_until(lambda: len(hook.taken) >= 7, "all is posted")
        wait_until(lambda: server.request("GET", "/$SYS/alarm_deliveries/").json() == [], "taken")
        kinds = sorted({name: body["type"] for name, body in hook.taken}.values())
        assert ["alarm.acknowledged", "alarm.cleared", *["alarm.raised"] * 5] == kinds
        assert 0 == server.stop()
