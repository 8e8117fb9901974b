"""The ports that the server listens on: MQTT and HTTP, each without and with TLS.

This module opens them and reports their addresses; the doors handle connections. The TLS ports are
open when a certificate is set.
"""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import Final

import uvicorn

from rowcast.core.errors import Code, Error
from rowcast.core.limits import SHUTDOWN_SECONDS_MAX, START_POLL_SECONDS
from rowcast.doors.http.edge import Edge
from rowcast.doors.http.socket_pings import SocketPings
from rowcast.doors.http.streams.watch import Elsewhere, Watch
from rowcast.doors.http.uvicorn_fastpath import HTTP_PROTOCOL, log_problem
from rowcast.doors.http.waiting import waiting_door
from rowcast.doors.mqtt.broker import Broker
from rowcast.doors.mqtt.connections.tcp import TcpConnection
from rowcast.doors.mqtt.connections.transport import Entrance
from rowcast.net import relay
from rowcast.net.certificates import Certificates, DoorTls
from rowcast.net.handshake import Handshakes
from rowcast.net.identity import ClientCheck, Files, Identity, server_context
from rowcast.net.listener import Listener
from rowcast.net.probes import INHERITED
from rowcast.net.relay import Client
from rowcast.net.revocation import SETTING as REVOCATION
from rowcast.program.config import Config
from rowcast.program.proxies import behind_proxies
from rowcast.program.revoking import end_revoked

log = logging.getLogger("rowcast")

HTTP: Final = "HTTP"
HTTPS: Final = "HTTPS"
MQTT: Final = "MQTT"
MQTTS: Final = "MQTT over TLS"
SETTINGS: Final = {
    HTTP: "http.port",
    HTTPS: "http.securePort",
    MQTT: "mqtt.network.port",
    MQTTS: "mqtt.network.securePort",
}
HOSTS: Final = {
    HTTP: "http.host",
    HTTPS: "http.host",
    MQTT: "mqtt.network.host",
    MQTTS: "mqtt.network.host",
}
AUTHORITY: Final = "tls.certificateAuthority"

Make = Callable[[], asyncio.Protocol]
HTTPS_TLS: Final = DoorTls(("http/1.1",))


def way_out(error: Exception, door: str) -> str:
    """Say what to do about a port that cannot be opened: by the kind of refusal (bind(2))."""
    number = error.errno if isinstance(error, OSError) else errno.EADDRNOTAVAIL
    if number == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return f"name an address of this machine with --set {HOSTS[door]}=..., or 0.0.0.0 for all"
    other = f"choose another port with --set {SETTINGS[door]}=..."
    if number == errno.EACCES:
        return f"this user may not use ports that low (ip(7)); {other}"
    return f"end what uses it, or {other}"


class Doors:
    """Every port of one server, opened one after the other; ``closing`` closes the open ones."""

    watch: Watch | None = None
    """The open streams of HTTP; None before its ports are open."""

    def __init__(
        self, config: Config, now: Callable[[], float], closing: contextlib.AsyncExitStack
    ) -> None:
        self._config = config
        self._closing = closing
        self._identity: Identity | None = None
        self.shared = False
        """Whether other processes listen on the same ports."""
        self.open: dict[str, tuple[str, int]] = {}
        """The address of each open port."""
        self.handshakes: dict[str, Handshakes] = {}
        """Handshake counters of TLS ports."""
        self.certificates = certificates_of(config, now)
        self.mqtt_port = config.mqtt.network.port
        self.mqtts_port = self._secure(config.mqtt.network.secure_port)
        self.http_port = config.http.port
        self.https_port = self._secure(config.http.secure_port)
        ports = (self.http_port, self.https_port, self.mqtt_port, self.mqtts_port)
        self.wanted = [
            door
            for door, port in zip((HTTP, HTTPS, MQTT, MQTTS), ports, strict=True)
            if port is not None
        ]
        """The ports to open."""
        self.relayed: Callable[[Client], asyncio.Protocol] | None = None
        """Returns what takes the connection of a client that another process passes on."""
        self.closed = False
        """Whether they no longer accept connections."""
        self._listeners: list[Listener] = []

    def _secure(self, port: int | None) -> int | None:
        return port if self.certificates is not None else None

    async def prepare(self, threads: Executor) -> None:
        """Read the certificates, and watch them for changes. Raises INVALID."""
        if self.certificates is None:
            network = self._config.mqtt.network
            if "secure_port" in network.model_fields_set and network.secure_port is not None:
                log.warning("mqtt.network.securePort stays closed: set tls.certificate")
            return
        loop = asyncio.get_running_loop()
        self._identity = await loop.run_in_executor(threads, self.certificates.load)
        watching = asyncio.create_task(self.certificates.watch(threads), name="certificates")
        self._closing.push_async_callback(_end, watching)

    async def open_http(self, edge: Edge) -> None:
        """Open the ports of HTTP; its server closes their connections at shutdown."""
        log_problem()
        self.watch = edge.watch
        server = HttpServer(_uvicorn_config(edge, self._config))
        serving = asyncio.create_task(server.serve(sockets=[]), name="http")

        async def end() -> None:
            edge.closing.set()
            server.should_exit = True
            await asyncio.wait((serving,))

        self._closing.push_async_callback(end)
        await server.answers()
        self._server = server
        make, host = server.connection, self._config.http.host
        self.http_port = await self._open(HTTP, make, host, self.http_port)
        self.https_port = await self._open(HTTPS, make, host, self.https_port)

    def list_streams_of(self, others: Elsewhere) -> None:
        """List the streams of other processes, too, once there are those of this one."""
        if self.watch is not None:
            self.watch.elsewhere = others

    async def open_mqtt(self, broker: Broker, entrance: Entrance | None = None) -> None:
        """Open the ports of MQTT; the broker, or what is the entrance, closes their connections."""
        network, entrance = self._config.mqtt.network, entrance or broker
        host, silence = network.host, broker.settings.tcp_keep_alive_seconds
        own_silence = 0 if INHERITED else silence

        def make() -> asyncio.Protocol:
            return TcpConnection(entrance, own_silence)

        def relayed(client: Client) -> asyncio.Protocol:
            if client.door == relay.HTTP:
                return self._server.connection()
            return TcpConnection(entrance, media_type=client.media_type)

        self.relayed = relayed

        if self.certificates is not None:
            self.certificates.revoked = partial(end_revoked, broker, self.certificates)
        self.mqtt_port = await self._open(MQTT, make, host, self.mqtt_port, silence)
        self.mqtts_port = await self._open(MQTTS, make, host, self.mqtts_port, silence)

    async def _open(
        self, door: str, make: Make, host: str, port: int | None, silence_seconds: int = 0
    ) -> int | None:
        """Listen for a door, unless its port is None; return the actual port."""
        if port is None:
            return None
        certificates = self.certificates
        if door in {MQTTS, HTTPS} and certificates is not None:
            shaking = Handshakes(door, lambda: certificates.context(door), make)
            self.handshakes[door] = shaking
            self._closing.push_async_callback(shaking.stop)
            make = shaking.protocol
        listener = Listener(make, host, port, shared=self.shared, silence_seconds=silence_seconds)
        try:
            await listener.start()
        except (OSError, TypeError, UnicodeError) as error:  # the last two: not a host name
            why = error.strerror if isinstance(error, OSError) else "no name of a host is like that"
            what = f"{door} cannot listen on {host}:{port} ({why}); {way_out(error, door)}"
            raise Error(Code.BUSY, what) from error
        self._listeners.append(listener)
        self._closing.callback(listener.stop)
        self.open[door] = host, listener.port
        return listener.port

    @property
    def ports(self) -> dict[str, int]:
        """The open ports, by URL scheme."""
        names = {HTTP: "http", HTTPS: "https", MQTT: "mqtt", MQTTS: "mqtts"}
        return {names[door]: port for door, (_, port) in self.open.items()}

    def close(self) -> None:
        """Stop accepting connections; each door closes its existing ones later."""
        self.closed = True
        for listener in self._listeners:
            listener.stop()

    def lines(self) -> list[str]:
        """Return the addresses as lines, for the person who started the server."""
        http, mqtt = self._config.http.host, self._config.mqtt.network.host
        over_websocket = "   over WebSocket: /mqtt" if self._config.mqtt.web_socket else ""
        lines = []
        if self.http_port is not None:
            url = f"http://{http}:{self.http_port}"
            lines.append(f"  REST, SSE, WebSocket   {url}/   documentation: {url}/docs")
            lines.append(f"  page for a browser     {url}/ui/")
        if self.https_port is not None:
            lines.append(f"  the same over TLS      https://{http}:{self.https_port}/")
        if self.mqtt_port is not None:
            lines.append(f"  MQTT                   {mqtt}:{self.mqtt_port}{over_websocket}")
        if self.mqtts_port is not None:
            lines.append(f"  MQTT over TLS          {mqtt}:{self.mqtts_port}{over_websocket}")
        if self._identity is not None:
            lines.append(f"  certificate            {self._identity}")
        return lines


# -- TLS -------------------------------------------------------------------------------------------


def certificates_of(config: Config, now: Callable[[], float]) -> Certificates | None:
    """Return the certificates of the TLS ports, not read yet; None without a certificate.

    Raises INVALID for inconsistent settings.
    """
    tls, mtls = config.tls, config.mqtt.mtls
    if tls.certificate is None:
        for name, is_set in (
            ("tls.privateKey", tls.private_key),
            ("tls.certificateAuthority", tls.certificate_authority),
            (REVOCATION, tls.revocation_list),
            ("mqtt.mTLS", mtls.enabled),
        ):
            if is_set:
                raise Error(Code.INVALID, f"{name} is for secure ports: set tls.certificate too")
        return None
    check = None
    if mtls.enabled:
        own = "mqtt.mTLS.certificateAuthority", mtls.certificate_authority
        setting, authority = own if own[1] else (AUTHORITY, tls.certificate_authority)
        if authority is None:
            raise Error(
                Code.INVALID, f"mqtt.mTLS needs {AUTHORITY}: the file of those who sign for clients"
            )
        check = ClientCheck(authority, mtls.required, setting, tls.revocation_list)
    elif tls.revocation_list is not None:
        raise Error(
            Code.INVALID,
            f"{REVOCATION} is about certificates of clients: set mqtt.mTLS too, or leave it out",
        )
    files = Files(tls.certificate, tls.private_key, tls.private_key_password)
    return Certificates(files, {MQTTS: DoorTls(("mqtt",), check), HTTPS: HTTPS_TLS}, now)


@contextlib.asynccontextmanager
async def waiting_doors(config: Config, reason: Callable[[], Error]) -> AsyncIterator[None]:
    """Tell the reason at the ports of HTTP and HTTPS, while a node cannot begin."""
    tls, http, context = config.tls, config.http, None
    if tls.certificate is not None and http.secure_port:
        files = Files(tls.certificate, tls.private_key, tls.private_key_password)
        try:
            context = await asyncio.to_thread(server_context, files, None, HTTPS_TLS.protocols)
        except Error as why:
            log.warning("the port of HTTPS stays closed meanwhile: %s", why.message)
    async with waiting_door(http.host, http.port, reason, http.secure_port, context):
        yield


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait((task,))


# -- HTTP ------------------------------------------------------------------------------------------


class HttpServer(uvicorn.Server):
    """Uvicorn in this program's loop, on its listeners, without signal handlers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to ``serve``."""
        yield

    async def answers(self) -> None:
        """Wait until it can accept connections."""
        while not self.started:  # noqa: ASYNC110 - uvicorn tells it by this attribute only
            await asyncio.sleep(START_POLL_SECONDS)

    def connection(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        return HTTP_PROTOCOL(config=self.config, server_state=self.server_state, app_state={})


def _uvicorn_config(edge: Edge, config: Config) -> uvicorn.Config:
    heartbeat = config.websocket.heartbeat_seconds
    server = uvicorn.Config(
        edge,
        interface="asgi3",
        proxy_headers=False,
        http=HTTP_PROTOCOL,
        ws=SocketPings,
        ws_max_size=max(config.mqtt.max_packet_bytes, config.http.max_body_bytes),
        ws_per_message_deflate=False,
        ws_ping_interval=heartbeat,
        ws_ping_timeout=heartbeat,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS_MAX,
    )
    server.app = behind_proxies(edge, config.http.trusted_proxies)
    return server
