"""The engine that a cluster's settings name, with what it needs on this machine."""

import secrets
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rowcast.core.errors import Code, Error
from rowcast.engines.nats_connection import Connection
from rowcast.engines.nats_sync import SyncWatch, check_sync, syncing
from rowcast.journal.node_opening import Tables
from rowcast.log.engine import Engine
from rowcast.program.config import Config
from rowcast.program.process import loop_factory
from rowcast.program.settings.cluster import Cluster

if TYPE_CHECKING:
    from rowcast.engines.jetstream import JetStreamEngine
    from rowcast.engines.nats_group import NatsGroup
    from rowcast.engines.nats_server import NatsServer
    from rowcast.engines.postgres import PostgresEngine

NATS_DIRECTORY: Final = "nats"
COPIES_LEAST: Final = 3
"""Of the log, where nodes have servers: whatever peers are named, for those that join later."""
REPLICAS_MAX: Final = 5
"""Copies of a stream that JetStream keeps at most."""
OPEN_SECONDS: Final = 10.0
"""For one attempt to find a majority; they go on."""
PATIENCE_SECONDS: Final = 3.0
"""How long a node without tables looks for a log before it makes one: a node with tables is to be
first, so that the log goes on from them."""
LEASE_BYTES: Final = 64 * 1024 * 1024
"""Room for the stream of the lease, and for what the log's stream has beyond its bound."""


class EngineOfNode:
    """What keeps the log, seen from one node."""

    def __init__(self, config: Config) -> None:
        self._config, self._cluster = config, config.cluster
        self._server: NatsServer | None = None
        self._connection: Connection | None = None
        self._watch: SyncWatch | None = None
        self._stream: JetStreamEngine | None = None
        self._database: PostgresEngine | None = None
        self.group: NatsGroup | None = None
        """The servers of the nodes, which vote for the log; None where nodes have none, or one."""

    def start(self) -> None:
        """Start a server where this engine has one on each node. Raises INVALID without it."""
        if self._cluster.starts_nats:
            self._start_nats()
        elif self._cluster.nats:
            self._connection = _connection(self._cluster)

    def _start_nats(self) -> None:
        try:
            from rowcast.engines.nats_group import NatsGroup  # noqa: PLC0415 - of an extra
            from rowcast.engines.nats_server import (  # noqa: PLC0415 - likewise
                SYSTEM,
                Certificates,
                NatsServer,
                ServerSettings,
            )
        except ImportError as error:
            raise _missing("cluster", error) from error
        cluster, files = self._cluster, self._cluster.tls
        certificates = None
        if files.certificate and files.private_key and files.certificate_authority:
            certificates = Certificates(
                files.certificate, files.private_key, files.certificate_authority
            )
        settings = ServerSettings(
            cluster.name,
            cluster.node,
            cluster.addresses,
            cluster.secret,
            self._config.data / NATS_DIRECTORY,
            cluster.log_bytes + LEASE_BYTES,
            certificates,
        )
        self._server = server = NatsServer(settings)
        self._connection = user = server.start()
        if len(cluster.peers) > 1:
            self.group = NatsGroup(cluster.name, user, server.connection(SYSTEM))

    def open(self, tables: Tables) -> Engine:
        """Connect to the log of the cluster, which is made if there is none. Raises BUSY."""
        epoch, first = tables.epoch or secrets.token_hex(4), tables.applied + 1
        patience = 0.0 if tables.epoch else PATIENCE_SECONDS
        cluster = self._cluster
        if self._connection is not None:
            return self._open_nats(self._connection, epoch, first, patience)
        try:
            from rowcast.engines import postgres  # noqa: PLC0415 - of an extra
        except ImportError as error:
            raise _missing("postgres", error) from error
        table = postgres.Place(cluster.name, cluster.log_bytes, epoch, first, patience)
        self._database = postgres.PostgresEngine(cluster.engine, table, OPEN_SECONDS)
        return self._database

    def _open_nats(self, connection: Connection, epoch: str, first: int, patience: float) -> Engine:
        try:
            from rowcast.engines.jetstream import JetStreamEngine, Place  # noqa: PLC0415
        except ImportError as error:
            raise _missing("cluster", error) from error
        cluster, monitors = self._cluster, self._cluster.nats_monitors
        copies = _odd(len(monitors)) if monitors else len(cluster.peers)
        least, nodes = 0, dict[str, str]()
        if self.group is not None:
            least, nodes = COPIES_LEAST, cluster.addresses
        place = Place(cluster.name, copies, cluster.log_bytes, epoch, first, patience, least, nodes)
        engine = JetStreamEngine(connection, place, OPEN_SECONDS, make_loop=loop_factory())
        if not monitors:
            self._stream = engine
            return engine
        try:
            check_sync(engine.servers(), syncing(monitors))
        except BaseException:
            engine.close()
            raise
        self._watch = SyncWatch(engine.servers, monitors)
        return engine

    def nodes(self) -> Mapping[str, str]:
        """Return the addresses of the cluster's nodes by name; empty where no list is kept.

        Raises BUSY.
        """
        return {} if self._stream is None else self._stream.nodes()

    def problem(self) -> str:
        """Return why the server of this node does not keep the log now; empty if it does.

        Of a database, which all nodes have together, why it takes no entry of this node.
        """
        if self._database is not None:
            return self._database.problem
        problem = "" if self._server is None else self._server.problem
        return problem and f"the NATS server of this node {problem}; the others keep the log"

    def stop(self) -> None:
        """End the server."""
        if self._watch is not None:
            self._watch.stop()
        if self._server is not None:
            self._server.stop()


def _odd(count: int) -> int:
    """Return of how many copies a log is on so many servers: an even one more is no gain."""
    return min(count - 1 + count % 2, REPLICAS_MAX)


def _connection(cluster: Cluster) -> Connection:
    """Return how servers are reached that somebody else runs. Raises INVALID."""
    context = None
    if any(server.startswith("tls:") for server in cluster.nats):
        try:
            context = ssl.create_default_context(cafile=cluster.nats_authority)
        except (OSError, ssl.SSLError) as error:
            raise Error(
                Code.INVALID, f"the file of cluster.nats_authority cannot be used ({error})"
            ) from error
    return Connection.of(cluster.nats, context, cluster.nats_credentials)


def _missing(extra: str, error: ImportError) -> Error:
    return Error(
        Code.INVALID, f"{error.name} is not installed; run: pip install 'rowcast[{extra}]'"
    )
