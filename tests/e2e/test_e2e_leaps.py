"""The whole program while its clock leaps, and what it tells of late writes (P6, E26)."""

import asyncio
import time

from http_clients import http_client
from rowcast.core.callers import ALL, Caller
from rowcast.core.clock import PER_SECOND, seconds_of
from rowcast.core.events import PUT, Event
from rowcast.kernel.expired_records import delete_expired
from serving import PATIENCE_SECONDS, application

SCHEMA = """
type Lease @table(expiration: "1h") @export { id: ID @primaryKey made: Date @createdTime }
type Note @table @export { id: ID @primaryKey }
"""
ANN = Caller("ann", ALL, "http")
LEAP = 400 * 86_400


async def put(running, topic):
    event = Event(topic, PUT, b"{}", "application/json", 1, True)
    return (await running.kernel.write(event, ANN)).event


async def test_a_short_leap_of_the_clock_leaves_nothing_behind(tmp_path, monkeypatch):
    """P6: no version of another year, no time of creation, and nothing has expired."""
    real, leap = time.time, [0]
    monkeypatch.setattr("rowcast.program.clock.time.time", lambda: real() + leap[0])
    async with application(tmp_path, SCHEMA) as running:
        await put(running, "Lease/1")
        leap[0] = LEAP
        wrong = await put(running, "Lease/2")
        assert 0 == (await delete_expired(running.kernel, running.kernel.now)).deleted
        leap[0] = 0
        for event in (wrong, await put(running, "Lease/3")):
            assert abs(seconds_of(event.version) - real()) < LEAP / 2
            assert str(event.decoded["made"])[:3] == time.strftime("%Y")[:3]
        assert {"Lease/1", "Lease/2"} == {
            (await running.kernel.read(topic, ANN)).topic for topic in ("Lease/1", "Lease/2")
        }


async def test_late_writes_are_counted(tmp_path):
    """P6: where the server tells of itself, and for Prometheus."""
    async with application(tmp_path, SCHEMA, {"mqtt.sys_interval": 1}) as running:
        await put(running, "Note/1")
        version = str(int((time.time() - 1000) * PER_SECOND))
        url = f"http://127.0.0.1:{running.http_port}"
        async with http_client(base_url=url) as client:
            late = await client.put("/Note/1", json={}, headers={"rowcast-version": version})
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (await client.get("/$SYS/broker/publish/messages/late")).text != "1":
                    pass  # it is told at an interval
            exposed = await client.get("/metrics")
        assert (204, True) == (late.status_code, int(late.headers["rowcast-late"]) > int(version))
        assert "broker_publish_messages_late 1" in exposed.text
