"""The ports of a node that has no role yet."""

import asyncio

from free_ports import free_port
from rowcast.program.config import load_config
from rowcast.program.startup_status import StartupStatus
from serving import PATIENCE_SECONDS


async def test_a_connection_that_is_open_is_told_the_newest_reason(tmp_path):
    """The ports stay open when the reason changes: a probe between two of them is not refused."""
    port = free_port()
    given = {"data": tmp_path, "http.port": port, "mqtt.network.port": "off"}
    startup = StartupStatus(load_config(None, {}, given))
    connections = []
    try:
        for why in ("one", "two"):
            await startup.report(f"it waits for reason {why}")
            connections.append(await asyncio.open_connection("127.0.0.1", port))
        for reader, writer in connections:
            writer.write(b"GET /health/ready HTTP/1.1\r\nHost: x\r\n\r\n")
            told = await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)
            assert b"it waits for reason two" in told
    finally:
        for _, writer in connections:
            writer.close()
        await startup.end()
