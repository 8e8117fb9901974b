"""The engine that a cluster's settings name, with what it needs on this machine."""

import secrets
from typing import TYPE_CHECKING, Final

from rowcast.core.errors import Code, Error
from rowcast.journal.node_opening import Tables
from rowcast.log.engine import Engine
from rowcast.program.config import Config

if TYPE_CHECKING:
    from rowcast.engines.jetstream import Connection
    from rowcast.engines.nats_server import NatsServer

NATS: Final = "nats"
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

    def start(self) -> None:
        """Start a server where this engine has one on each node. Raises INVALID without it."""
        if self._cluster.engine == NATS:
            self._start_nats()

    def _start_nats(self) -> None:
        try:
            from rowcast.engines.nats_server import (  # noqa: PLC0415 - of an extra
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
            self._config.data / NATS,
            cluster.log_bytes + LEASE_BYTES,
            certificates,
        )
        self._server = NatsServer(settings)
        self._connection = self._server.start()

    def open(self, tables: Tables) -> Engine:
        """Connect to the log of the cluster, which is made if there is none. Raises BUSY."""
        epoch, first = tables.epoch or secrets.token_hex(4), tables.applied + 1
        patience = 0.0 if tables.epoch else PATIENCE_SECONDS
        cluster = self._cluster
        if self._connection is not None:
            from rowcast.engines.jetstream import JetStreamEngine, Place  # noqa: PLC0415

            replicas, size = len(cluster.peers), cluster.log_bytes
            place = Place(cluster.name, replicas, size, epoch, first, patience)
            return JetStreamEngine(self._connection, place, OPEN_SECONDS)
        try:
            from rowcast.engines import postgres  # noqa: PLC0415 - of an extra
        except ImportError as error:
            raise _missing("postgres", error) from error
        table = postgres.Place(cluster.name, cluster.log_bytes, epoch, first, patience)
        return postgres.PostgresEngine(cluster.engine, table, OPEN_SECONDS)

    def stop(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.stop()


def _missing(extra: str, error: ImportError) -> Error:
    return Error(
        Code.INVALID, f"{error.name} is not installed; run: pip install 'rowcast[{extra}]'"
    )
