"""The ports of a node that has no role yet."""

import asyncio
from types import SimpleNamespace

from free_ports import free_port
from rowcast.program.config import load_config
from rowcast.program.node import Node
from rowcast.program.waiting_status import WaitingStatus
from serving import PATIENCE_SECONDS


async def test_a_connection_that_is_open_is_told_the_newest_reason(tmp_path):
    """The ports stay open when the reason changes: a probe between two of them is not refused."""
    port = free_port()
    given = {"data": tmp_path, "http.port": port, "mqtt.network.port": "off"}
    status = WaitingStatus(load_config(None, {}, given))
    connections = []
    try:
        for why in ("one", "two"):
            await status.report(f"it waits for reason {why}")
            connections.append(await asyncio.open_connection("127.0.0.1", port))
        for reader, writer in connections:
            writer.write(b"GET /health/ready HTTP/1.1\r\nHost: x\r\n\r\n")
            told = await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)
            assert b"it waits for reason two" in told
    finally:
        for _, writer in connections:
            writer.close()
        await status.end()


async def asked(port):
    """Return the answer of a port to a probe; empty if it is closed."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return b""
    writer.write(b"GET /health/ready HTTP/1.1\r\nHost: x\r\n\r\n")
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)
    finally:
        writer.close()


class Role:
    """A role that only listens: nothing else may have its port then."""

    doors = SimpleNamespace(certificates=None)
    mqtt_port = None

    def __init__(self, port):
        self.http_port, self._server = port, None

    async def start(self):
        self._server = await asyncio.start_server(lambda _, to: to.close(), port=self.http_port)

    async def stop(self):
        self._server.close()
        await self._server.wait_closed()


async def test_a_node_says_between_two_roles_that_it_changes_them(tmp_path):
    """K12: its port is closed for no longer than the next role takes to open it."""
    port, stopping = free_port(), asyncio.Event()
    cluster = {"name": "home", "node": "a", "peers": "a=127.0.0.1:6222", "secret": "00" * 16}
    given = {"data": tmp_path, "http.port": port, "mqtt.network.port": "off"}
    given |= {f"cluster.{name}": value for name, value in cluster.items()}
    node, role = Node(load_config(None, {}, given), stopping, None), Role(port)
    for _ in range(2):
        await node._begin(role)
        await node._end(role)
        answer = await asked(port)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"this node changes its role" in answer
    await node._begin(role)
    stopping.set()
    await node._end(role)
    assert b"" == await asked(port)
