"""NATS servers that somebody else runs: asked whether they sync what they acknowledge (K12)."""

import pytest

from foreign_nats import ForeignNats
from rowcast.core.errors import Code, Error
from rowcast.engines.jetstream import JetStreamEngine, Place
from rowcast.engines.nats_connection import Connection
from rowcast.engines.nats_sync import SyncWatch, check_sync, syncing
from serving import wait_until

SECONDS = 30.0


def engine_of(servers, replicas, name="home"):
    """Connect as a node does."""
    place = Place(name, replicas, 8 << 20, "000000aa")
    return JetStreamEngine(Connection.of(servers.addresses, None, None), place, SECONDS)


@pytest.mark.slow
def test_three_servers_tell_whether_they_sync(tmp_path):
    with ForeignNats(tmp_path, 3, ["always", "always", "2m"]) as servers:
        engine = engine_of(servers, 3)
        names = {"foreign-0", "foreign-1", "foreign-2"}
        wait_until(lambda: engine.servers() == names, "all three keep the log")
        told = syncing(servers.monitors)
        assert told == {"foreign-0": True, "foreign-1": True, "foreign-2": False}
        with pytest.raises(
            Error, match=r"foreign-2 acknowledges .*sync_interval: always"
        ) as caught:
            check_sync(engine.servers(), told)
        assert caught.value.code is Code.INVALID
        watch = SyncWatch(engine.servers, servers.monitors, look_seconds=0.05)
        wait_until(lambda: "foreign-2" in watch.problem, "it is seen while it runs")
        watch.stop()
        engine.append(1, b"a")
        assert engine.read(0, 100) == [b"a"]
        engine.close()


def test_a_default_server_alone_is_refused(tmp_path):
    with ForeignNats(tmp_path, 1) as servers:
        engine = engine_of(servers, 1)
        assert engine.servers() == {"foreign-0"}
        with pytest.raises(Error, match="before they are on its disk"):
            check_sync(engine.servers(), syncing(servers.monitors))
        engine.close()


@pytest.mark.slow
def test_a_stream_with_fewer_copies_is_refused(tmp_path):
    with ForeignNats(tmp_path, 3, ["always"] * 3) as servers:
        engine_of(servers, 1).close()
        with pytest.raises(Error, match=r"has 1 copies.*--replicas 3") as caught:
            engine_of(servers, 3)
        assert caught.value.code is Code.INVALID


def test_servers_that_take_too_little_are_refused(tmp_path):
    with (
        ForeignNats(tmp_path, 1, ["always"], max_payload=1 << 20) as servers,
        pytest.raises(Error, match="max_payload: 8MB"),
    ):
        engine_of(servers, 1)


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ({"a": True, "b": True, "c": True}, None),
        ({"a": True, "b": True}, None),
        ({"a": True}, Code.BUSY),
        ({}, Code.BUSY),
        ({"x": True, "y": True, "z": True}, Code.BUSY),
        ({"a": True, "b": True, "c": False}, Code.INVALID),
        ({"a": False}, Code.INVALID),
        ({"a": True, "b": True, "x": False}, None),
    ],
)
def test_a_majority_has_to_answer_and_nobody_may_say_no(told, code):
    try:
        check_sync({"a", "b", "c"}, told)
    except Error as error:
        assert error.code is code
    else:
        assert code is None


@pytest.mark.parametrize("answer", [b"no JSON", b"[]", b"{}", b'{"server_name": "a", "x": 1}'])
def test_an_answer_that_is_none_counts_for_nothing(answer, tmp_path):
    (tmp_path / "varz").write_bytes(answer)
    told = syncing([tmp_path.as_uri(), "http://127.0.0.1:1"])
    assert told in ({}, {"a": False})
