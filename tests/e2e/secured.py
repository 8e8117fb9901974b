"""A whole program behind TLS in the test's own loop, and clients that speak MQTT to it."""

import asyncio
from contextlib import asynccontextmanager, suppress

from rowcast.mqtt.connection import Connection
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import MQTT_5, Connack, Connect
from securing import Authority, ServerFiles
from serving import PATIENCE_SECONDS, application

SECURE = {"http.securePort": 0, "mqtt.network.securePort": 0}


class Secured:
    """A running program, its authority and its files."""

    def __init__(self, program, authority, files):
        self.program, self.authority, self.files = program, authority, files
        self.mqtts, self.https = program.doors.mqtts_port, program.doors.https_port

    async def mqtt(self, context=None, client_id="c"):
        """Return a connected MQTT client over TLS."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1",
            self.mqtts,
            ssl=context or self.authority.client(),
            server_hostname="localhost",
        )
        client = Talker(reader, writer)
        client.send(Connect(MQTT_5, client_id))
        try:
            assert isinstance(await client.hear(), Connack)
        except BaseException:
            await client.close()
            raise
        return client

    async def settled(self, tasks):
        """Wait until no client is left, and no task but those there were."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.program.broker.clients or len(asyncio.all_tasks()) > tasks:  # noqa: ASYNC110
                await asyncio.sleep(0)


class Talker:
    """A client's end of a connection that carries MQTT."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.decoder = Connection("client", version=MQTT_5)
        self.packets = []

    def send(self, *packets):
        self.writer.write(b"".join(encode(packet, MQTT_5) for packet in packets))

    async def hear(self):
        """Return the next packet."""
        while not self.packets:
            data = await self.reader.read(65_536)
            assert data, "closed"
            self.packets += self.decoder.receive(data)
        return self.packets.pop(0)

    async def close(self):
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


@asynccontextmanager
async def secured(folder, **settings):
    authority = Authority(folder)
    files = ServerFiles(folder, authority.issue("localhost", "127.0.0.1", common_name="first"))
    given = SECURE | {
        "tls.certificate": files.certificate,
        "tls.privateKey": files.key,
        "tls.certificateAuthority": authority.file,
    }
    async with application(folder, settings=given | settings) as program:
        yield Secured(program, authority, files)
