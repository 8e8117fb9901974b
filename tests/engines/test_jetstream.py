"""JetStream as an engine: real servers, one and three, killed and paused."""

import itertools
import secrets
import socket

import pytest

from engine_conformance import EngineConformance
from rowcast.engines.jetstream import JetStreamEngine, Place
from rowcast.engines.nats_server import NatsServer, ServerSettings

SECONDS = 30.0
COUNTER = itertools.count()


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def servers(directory, count):
    """Return so many servers of one cluster, not started."""
    peers = {f"n{index}": f"127.0.0.1:{free_port()}" for index in range(count)}
    secret = secrets.token_hex(8)
    return [
        NatsServer(ServerSettings("test", name, peers, secret, directory / name, 1 << 30))
        for name in peers
    ]


@pytest.fixture(scope="module", params=[1, 3])
def cluster(request, tmp_path_factory):
    running = servers(tmp_path_factory.mktemp("nats"), request.param)
    yield [server.start() for server in running]
    for server in running:
        server.stop()


class TestJetStream(EngineConformance):
    @pytest.fixture
    def connect(self, cluster):
        opened, name = [], f"log{next(COUNTER)}"
        epochs = itertools.count(0x10)

        def connect():
            place = Place(name, len(cluster), 64 << 20, f"{next(epochs):08x}")
            connection = cluster[len(opened) % len(cluster)]
            opened.append(JetStreamEngine(connection, place, SECONDS))
            return opened[-1]

        yield connect
        for engine in opened:
            engine.close()
