"""JetStream as an engine: real servers, one and three, killed and paused."""

import itertools
import json
import secrets
import socket

import pytest

from engine_conformance import EngineConformance
from rowcast.core.errors import Code, Error
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


def test_a_server_that_cannot_be_run_is_told(tmp_path, monkeypatch):
    no_program = tmp_path / "nats-server"
    no_program.write_text("")
    monkeypatch.setattr("rowcast.engines.nats_server.find_executable", lambda: str(no_program))
    with pytest.raises(Error, match="cannot be run") as caught:
        servers(tmp_path, 1)[0].start()
    assert caught.value.code is Code.INVALID


def test_its_configuration_is_private_and_syncs_always(tmp_path):
    server = servers(tmp_path, 3)[0]
    server.start()
    file = tmp_path / "n0" / "nats-server.conf"
    server.stop()
    assert file.stat().st_mode & 0o777 == 0o600
    written = json.loads(file.read_text())
    assert written["jetstream"]["sync_interval"] == "always"
    assert written["listen"].startswith("127.0.0.1:")
    assert len(written["cluster"]["routes"]) == 2


def test_large_entries_are_read_within_the_time_of_a_request(cluster):
    """Few large ones behind many small ones: no more is asked for than fits."""
    place = Place(f"large{next(COUNTER)}", len(cluster), 128 << 20, "000000bb")
    engine = JetStreamEngine(cluster[0], place, SECONDS)
    for number in range(1, 41):
        engine.append(number, bytes(100) if number < 22 else bytes(4 << 20))
    position, sizes = 0, []
    while found := engine.read(position, 1 << 20):
        position += len(found)
        sizes += map(len, found)
    assert sizes == [100] * 21 + [4 << 20] * 19
    engine.close()


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
