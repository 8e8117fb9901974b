"""JetStream as an engine: real servers, one and three, killed and paused."""

import itertools
import json
import resource
import secrets
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import trustme

from engine_conformance import EngineConformance
from free_ports import free_port
from rowcast.core.errors import Code, Error
from rowcast.engines.jetstream import JetStreamEngine, Place
from rowcast.engines.nats_server import (
    STUCK,
    Certificates,
    NatsServer,
    ServerSettings,
)
from serving import wait_until

SECONDS = 30.0
COUNTER = itertools.count()


def servers(directory, count, certificates=(None, None, None), **options):
    """Return so many servers of one cluster, not started."""
    peers = {f"n{index}": f"127.0.0.1:{free_port()}" for index in range(count)}
    secret = secrets.token_hex(8)
    return [
        NatsServer(
            ServerSettings("test", name, peers, secret, directory / name, 1 << 30, files),
            **options,
        )
        for name, files in zip(peers, certificates, strict=False)
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


def test_a_server_whose_port_somebody_takes_gets_another(tmp_path, monkeypatch):
    """Between the choice and the start another process may bind it."""
    server, chosen = servers(tmp_path, 1)[0], []
    with socket.create_server(("127.0.0.1", 0)) as taken:

        def choose():
            chosen.append(free_port() if chosen else taken.getsockname()[1])
            return chosen[-1]

        monkeypatch.setattr("rowcast.engines.nats_server._free_port", choose)
        engine = JetStreamEngine(server.start(), Place("p", 1, 1 << 20, "000000ab"), SECONDS)
    engine.append(1, b"a")
    engine.close()
    server.stop()
    assert len(chosen) == 4
    assert server.restarts == 0


def test_a_server_is_not_taken_for_another_that_answers_at_its_port(tmp_path, monkeypatch):
    """So do two nodes of one machine that choose one port at once."""
    server, chosen = servers(tmp_path, 1)[0], []
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:
        serving = threading.Thread(target=other.serve_forever)
        serving.start()

        def choose():
            chosen.append(other.server_port if len(chosen) == 1 else free_port())
            return chosen[-1]

        monkeypatch.setattr("rowcast.engines.nats_server._free_port", choose)
        connection = server.start()
        other.shutdown()
        serving.join()
    engine = JetStreamEngine(connection, Place("p", 1, 1 << 20, "000000ab"), SECONDS)
    engine.append(1, b"a")
    engine.close()
    server.stop()
    assert len(chosen) == 4
    assert server.restarts == 0


@pytest.mark.slow
def test_a_server_that_has_switched_its_streams_off_is_started_again(tmp_path, monkeypatch):
    """A full disk does that, and room alone does not mend it."""
    server = servers(tmp_path, 1, health_seconds=0.05)[0]
    without = iter([True, False, True, True])
    monkeypatch.setattr(server, "_is_without_streams", lambda: next(without, False))
    engine = JetStreamEngine(server.start(), Place("off", 1, 1 << 20, "000000cc"), SECONDS)
    engine.append(1, b"a")
    wait_until(lambda: server.restarts == 1, "it was started again")
    wait_until(lambda: engine_reads(engine) == [b"a"], "the entry is there")
    engine.close()
    server.stop()
    assert server.restarts == 1


@pytest.mark.slow
def test_a_server_that_could_not_write_is_started_again(tmp_path, caplog):
    """K12: it goes on without the stream, and does not vote, when there is room again."""
    running = servers(tmp_path, 3, health_seconds=0.2, restart_seconds=0.1)
    connections = [server.start() for server in running]
    engine = JetStreamEngine(connections[0], Place("full", 3, 1 << 20, "000000ee"), SECONDS)
    engine.append(1, b"a")
    full = running[2]
    resource.prlimit(full.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    wait_until(lambda: appends(engine, 2, b"b"), "the two others take it, once one of them leads")
    wait_until(lambda: STUCK in caplog.text, "it is noticed")  # it may be over in a moment
    wait_until(lambda: full.restarts > 0 and not full.problem, "it has been started again")
    running[1].stop()
    wait_until(lambda: appends(engine, 3, b"c"), "the two that are left are a majority")
    whole = [b"a", b"b", b"c"]  # the server that is asked may learn of the last one after it
    wait_until(lambda: engine.read(0, 1 << 20) == whole, "all of it is read")
    engine.close()
    running[0].stop()
    full.stop()


def appends(engine, number, data):
    """Append, and tell whether it is there."""
    try:
        engine.append(number, data)
    except Error as error:
        return error.code is Code.CONFLICT and engine_reads(engine)[-1] == data
    return True


def engine_reads(engine):
    try:
        return engine.read(0, 1 << 20)
    except Error:
        return None


def test_it_says_to_its_node_only_how_it_is(tmp_path):
    """``test_e2e_cluster_disk.py`` has one that has switched its streams off."""
    server = servers(tmp_path, 1, health_seconds=1000.0)[0]
    server.start()
    wait_until(lambda: answers(server._health) == 200, "it answers")
    assert not server._is_without_streams()
    host = server._health.split("/")[2]
    for path in ("healthz", "varz", "connz", ""):
        assert answers(f"http://{host}/{path}") == 404
    server.stop()
    assert not server._is_without_streams(), "who does not answer may be busy"


def answers(url):
    try:
        return urlopen(url).status
    except HTTPError as error:
        return error.code
    except OSError:
        return 0


@pytest.mark.slow
def test_routes_with_certificates_carry_the_log_and_others_are_refused(tmp_path):
    authority, foreign = trustme.CA(), trustme.CA()
    files = [certificates(tmp_path / f"c{n}", authority) for n in range(3)]
    with ExitStack() as stack:
        running = servers(tmp_path / "good", 3, files)
        for server in running:
            stack.callback(server.stop)
        place = Place("tls", 3, 1 << 20, "000000dd")
        connections = [server.start() for server in running]
        engines = [
            stack.enter_context(closing(JetStreamEngine(one, place, SECONDS)))
            for one in connections
        ]
        engines[0].append(1, b"a")
        wait_until(lambda: engine_reads(engines[2]) == [b"a"], "all have it")
    alone = servers(tmp_path / "bad", 3, [files[0], *(certificates(tmp_path / f"f{n}", foreign)
                                                      for n in range(2))])  # fmt: skip
    connections = [server.start() for server in alone]
    with pytest.raises(Error) as caught:  # no two of the first authority: no majority with it
        JetStreamEngine(connections[0], Place("tls", 3, 1 << 20, "000000ee"), 4.0)
    assert caught.value.code is Code.BUSY
    for server in alone:
        server.stop()


@pytest.mark.slow
def test_a_log_is_left_to_tables_however_long_the_last_server_takes(tmp_path):
    """Time counts once all servers are there: before, nobody could have made it."""
    with ExitStack() as stack:
        running = servers(tmp_path, 3)
        for server in running:
            stack.callback(server.stop)
        connections = [server.start() for server in running[:2]]
        new = Place("late", 3, 1 << 20, "000000aa", patience_seconds=6.0)
        old = Place("late", 3, 1 << 20, "000000bb")

        def opened(number, place):
            with closing(JetStreamEngine(connections[number], place, SECONDS)) as engine:
                return engine.epoch

        with ThreadPoolExecutor(2) as threads:
            without = threads.submit(opened, 0, new)
            with pytest.raises(Error) as caught:
                JetStreamEngine(connections[1], old, new.patience_seconds + 2.0)
            assert caught.value.code is Code.BUSY
            having = threads.submit(opened, 1, old)
            running[2].start()
            assert {without.result(), having.result()} == {"000000bb"}


def certificates(folder, authority):
    """Write the files of a node."""
    folder.mkdir()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    issued.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    return Certificates(folder / "cert.pem", folder / "key.pem", folder / "ca.pem")


@pytest.mark.slow
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
