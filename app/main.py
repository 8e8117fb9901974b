"""Wiring: builds everything from a Config, starts it, stops it. The only place that knows all rooms.

Starting is bottom up (store, engine, edges), stopping top down: listeners first, then connections,
then what is still on its way to the disk, then the disk.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import uvicorn

from app import __version__
from app.auth.anonymous import anonymous_from
from app.broker.broker import Broker
from app.broker.settings import BrokerSettings
from app.broker.tcp import TcpListener
from app.broker.websocket import WebSocketEndpoint
from app.bus.bus import Bus
from app.config import Config
from app.core.clock import HybridClock
from app.core.errors import Code, Error
from app.core.limits import READER_THREADS, SHUTDOWN_SECONDS_MAX
from app.engine.cache import RecordCache
from app.engine.commit import Committer
from app.engine.engine import Engine
from app.engine.loader import load_resources
from app.engine.reader import Reader
from app.engine.registry import Registry
from app.engine.retention import Retention, RetentionSettings
from app.http.edge import Edge, HttpSettings
from app.http.fixed import make_fixed
from app.logs import configure_logging
from app.schema import load_schema
from app.store.sqlite import SqlStore
from app.store.store import Keep, Store

log = logging.getLogger("rowcast")


class HttpServer(uvicorn.Server):
    """Uvicorn inside our loop: signals are ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to ``serve``."""
        yield


class Application:
    """A whole server: make it with ``build``, then ``start`` and ``stop`` it once."""

    def __init__(self, config: Config, now: Callable[[], float] = time.time) -> None:
        self.config = config
        self._now = now
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="rowcast-writer")
        self._readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="rowcast-reader")
        self.schema = load_schema(config.schema_file)
        self.registry = Registry(
            self.schema.tables, undeclared=config.topics.undeclared == "route"
        )
        for path, resource in load_resources(config.resources):
            self.registry.add(path, resource)
        self.store: Store = self._make_store()
        self.engine: Engine | None = None
        self.broker: Broker | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def _make_store(self) -> Store:
        config = self.config
        config.data.mkdir(parents=True, exist_ok=True)
        url = config.store.url or f"sqlite:///{(config.data / 'rowcast.db').resolve()}"
        return SqlStore(url)

    @property
    def http_port(self) -> int:
        """The port of HTTP, also when 0 was asked for."""
        return int(self._http_socket.getsockname()[1])

    @property
    def mqtt_port(self) -> int:
        """The port of MQTT, also when 0 was asked for."""
        return self.listener.port

    async def start(self) -> None:
        """Open the store and every door; returns when all of them answer.

        Raises Error when a file or a port cannot be had; nothing is left open then.
        """
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._writer, self.store.open, self.schema.tables)
        try:
            self._build_engine()
            await self._open_doors()
        except BaseException:
            await self.stop()
            raise

    def _build_engine(self) -> None:
        config, store = self.config, self.store
        bus, cache = Bus(), RecordCache()
        clock = HybridClock(self._now, store.last_version())
        committer = Committer(store, bus, cache, clock, self._writer)
        reader = Reader(
            store, cache, self._readers, self.schema.tables, lambda: committer.announced
        )
        most = config.http.max_body_bytes
        self.engine = Engine(self.registry, bus, committer, reader, self._now, most)
        anonymous = anonymous_from(config.security.anonymous)
        settings = BrokerSettings(
            anonymous,
            config.mqtt.max_packet_bytes,
            config.mqtt.connect_timeout_seconds,
            config.mqtt.receive_maximum,
            config.mqtt.max_connections,
        )
        self.broker = Broker(self.engine, settings, self._now)
        http = HttpSettings(
            title="Rowcast",
            version=__version__,
            sse_heartbeat_seconds=config.sse.heartbeat_seconds,
            sse_retry_ms=config.sse.retry_ms,
            websocket_heartbeat_seconds=config.websocket.heartbeat_seconds,
            cors_origins=config.http.cors,
            body_bytes_max=most,
            anonymous=anonymous,
        )
        mqtt = WebSocketEndpoint(self.broker) if config.mqtt.web_socket else None
        self.edge = Edge(self.engine, http, make_fixed(self.engine, http), mqtt)
        keep = Keep(config.log.keep_seconds, config.log.keep_events, config.log.keep_bytes)
        retention = Retention(
            self.engine,
            self.schema.tables,
            RetentionSettings(keep, config.log.sweep_seconds),
            self._now,
        )
        self._tasks.append(asyncio.create_task(retention.run(), name="retention"))

    async def _open_doors(self) -> None:
        config = self.config
        assert self.broker is not None
        network = config.mqtt.network
        self.listener = TcpListener(self.broker, network.host, network.port)
        with _port_problems("MQTT", network.host, network.port, "mqtt.network.port"):
            await self.listener.start()
        uvicorn_config = uvicorn.Config(
            self.edge,
            host=config.http.host,
            port=config.http.port,
            http="httptools",
            ws="websockets-sansio",
            ws_max_size=config.mqtt.max_packet_bytes + 16,
            ws_per_message_deflate=False,
            ws_ping_interval=config.websocket.heartbeat_seconds,
            ws_ping_timeout=config.websocket.heartbeat_seconds,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS_MAX,
            backlog=2048,
        )
        with _port_problems("HTTP", config.http.host, config.http.port, "http.port"):
            self._http_socket = _bind(config.http.host, config.http.port)
        self.http_server = HttpServer(uvicorn_config)
        serving = self.http_server.serve(sockets=[self._http_socket])
        self._tasks.append(asyncio.create_task(serving, name="http"))
        while not self.http_server.started:
            await asyncio.sleep(0.001)

    async def stop(self) -> None:
        """Close every door, finish what is on its way, close the store."""
        listener = getattr(self, "listener", None)
        if listener is not None:
            await listener.stop()
        if self.broker is not None:
            await self.broker.stop()
        server = getattr(self, "http_server", None)
        if server is not None:
            self.edge.closing.set()
            server.should_exit = True
        for task in self._tasks:
            if task.get_name() != "http":
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.engine is not None:
            await self.engine.stop()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._writer, self.store.close)
        self._writer.shutdown()
        self._readers.shutdown()


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError:
        listening.close()
        raise
    return listening


@contextlib.contextmanager
def _port_problems(door: str, host: str, port: int, setting: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Error(
            Code.BUSY,
            f"{door} cannot listen on {host}:{port}: {error.strerror}; end what uses it, or choose "
            f"another with --set {setting}=...",
        ) from error


def serve(config: Config) -> None:
    """Run a server until SIGINT or SIGTERM. Raises Error when it cannot start."""
    configure_logging(config.logging.level, config.logging.format)
    asyncio.run(_serve(config))


async def _serve(config: Config) -> None:
    application = Application(config)
    await application.start()
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    _say_where(application)
    await stopping.wait()
    print("stopping", file=sys.stderr)  # noqa: T201
    await application.stop()


def _say_where(application: Application) -> None:
    """Print where to look, for the person who started it."""
    config = application.config
    url = f"http://{config.http.host}:{application.http_port}"
    tables = [entry.path for entry in application.registry.entries]
    lines = [
        f"Rowcast {__version__} is ready.",
        f"  REST, SSE, WebSocket  {url}/   documentation: {url}/docs",
        f"  MQTT                  {config.mqtt.network.host}:{application.mqtt_port}"
        + ("   over WebSocket: /mqtt" if config.mqtt.web_socket else ""),
        f"  tables and resources  {', '.join(tables) or 'none'}",
        f"  data                  {config.data.resolve()}",
    ]
    print("\n".join(lines), file=sys.stderr, flush=True)  # noqa: T201
